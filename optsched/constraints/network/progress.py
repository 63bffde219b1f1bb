"""Rule ``progress``: every used batch processes a token, and the used batches come first.

sum (p + d) >= y_j  (with chunks: tokens processed >= y_j),   y_j >= y_(j+1)
"""

from __future__ import annotations

import numpy as np

from optsched.constraints.network.blocks import stacked
from optsched.instance import Instance
from optsched.model.milp import Block
from optsched.model.network import NetworkVariables


def progress(instance: Instance, variables: NetworkVariables) -> Block:
    """Rows: one per batch, then the order of the batches that may be unused."""
    arcs, used, most = variables.arcs, variables.used, variables.most
    # Without chunks a batch processes tokens iff it generates one, and the row with coefficients
    # 1 is the tighter of the two.
    of_arcs = arcs.tokens if variables.chunking else arcs.generates.astype(np.int64)
    free = np.arange(variables.least, most)
    order, ones = most + np.arange(free.size), np.ones(free.size)
    parts = [
        variables.batch_sum(of_arcs, of_partials=True),
        (np.arange(most), used, -np.ones(most)),
        (order, used[free - 1], ones),
        (order, used[free], -ones),
    ]
    return stacked("progress", parts, most + free.size, lower=0.0)
