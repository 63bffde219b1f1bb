"""Rule ``kv_capacity``: what is cached after a batch fits in M.

sum (I+g)(p+d) + (I+g-1)(h+r) + f_j + (b-1) z_j <= M y_j      sizes in whole pages

A partial fill of f tokens takes at most f + b - 1 tokens of whole pages.
"""

from __future__ import annotations

import numpy as np

from optsched.constraints.network.blocks import stacked
from optsched.constraints.network.capacity import held_at_most
from optsched.instance import Instance
from optsched.model.milp import Block
from optsched.model.network import NetworkVariables


def kv_capacity(instance: Instance, variables: NetworkVariables) -> Block:
    """Rows: batches; with arrivals more, see :mod:`.capacity`."""
    arcs, partials, limits = variables.arcs, variables.partials, instance.limits
    held = np.flatnonzero(arcs.pages)
    parts, upper = held_at_most(
        variables, held, arcs.pages[held].astype(np.float64), limits.kv_tokens, 0
    )
    ones = np.ones(len(partials))
    parts += [
        (partials.batch - 1, partials.tokens, ones),
        (partials.batch - 1, partials.begun, (limits.block_tokens - 1) * ones),
    ]
    return stacked("kv_capacity", parts, upper.size, upper=upper)
