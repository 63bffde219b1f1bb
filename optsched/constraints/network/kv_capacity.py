"""Rule ``kv_capacity``: what is cached after a batch fits in M.

sum (I+g)(p+d) + (I+g-1)(h+r) + f_j + (b-1) z_j <= M y_j      sizes in whole pages

A partial fill of f tokens takes at most f + b - 1 tokens of whole pages.
"""

from __future__ import annotations

import numpy as np

from optsched.constraints.network.blocks import stacked
from optsched.instance import Instance
from optsched.model.milp import Block
from optsched.model.network import NetworkVariables


def kv_capacity(instance: Instance, variables: NetworkVariables) -> Block:
    """Rows: batches."""
    rows, columns, values = variables.batch_sum(variables.arcs.pages)
    partials, used = variables.partials, variables.used
    limits, ones = instance.limits, np.ones(len(partials))
    parts = [
        (rows, columns, values),
        (partials.batch - 1, partials.tokens, ones),
        (partials.batch - 1, partials.begun, (limits.block_tokens - 1) * ones),
        (np.arange(used.size), used, np.full(used.size, -float(limits.kv_tokens))),
    ]
    return stacked("kv_capacity", parts, used.size, lower=-np.inf, upper=0.0)
