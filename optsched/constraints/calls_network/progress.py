"""Rule ``progress``: every used batch generates a token, and the used batches come first.

sum of tokens generated in batch j      >= y_j >= tokens that one request generates in it
y_j >= y_(j+1)
"""

from __future__ import annotations

import numpy as np

from optsched.constraints.network.blocks import stacked
from optsched.instance import Instance
from optsched.model.calls_network import CallsNetworkVariables
from optsched.model.milp import Block


def progress(instance: Instance, variables: CallsNetworkVariables) -> Block:
    """Rows: one per batch, one per batch and request, then the order of the batches."""
    arcs, used, most = variables.arcs, variables.used, variables.most
    token, every = np.flatnonzero(arcs.generates), np.arange(most)
    ones = np.ones(token.size)
    mine = most + arcs.request[token] * most + arcs.batch[token] - 1
    requests = len(instance)
    order = most * (1 + requests) + every[1:] - 1
    parts = [
        (arcs.batch[token] - 1, token, ones),
        (every, used, -np.ones(most)),
        (mine, token, -ones),
        (most + np.arange(requests * most), np.tile(used, requests), np.ones(requests * most)),
        (order, used[:-1], np.ones(order.size)),
        (order, used[1:], -np.ones(order.size)),
    ]
    return stacked("progress", parts, most * (1 + requests) + order.size, lower=0.0)
