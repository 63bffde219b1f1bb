"""Rule ``residency``: only what is cached can be decoded, held or evicted.

p[j, g-1] + d[j, g-1] + r[j, g] + h[j, g] = d[j+1, g] + h[j+1, g] + e[j+1, g]
"""

from __future__ import annotations

import numpy as np

from optsched.instance import Instance
from optsched.model.milp import Block, block
from optsched.model.network import NetworkVariables


def residency(instance: Instance, variables: NetworkVariables) -> Block:
    """Rows: resident nodes of every type; inflow = outflow."""
    nodes, arcs = variables.nodes, variables.arcs
    mine = np.zeros(nodes.count, dtype=bool)
    for windows in nodes.resident:
        for window in windows:
            mine[window.base : window.base + window.size] = True
    row = np.cumsum(mine) - 1
    into, out = np.flatnonzero(mine[arcs.head]), np.flatnonzero(mine[arcs.tail])
    rows = np.concatenate([row[arcs.head[into]], row[arcs.tail[out]]])
    values = np.concatenate([np.ones(into.size), -np.ones(out.size)])
    zero = np.zeros(int(mine.sum()))
    return block("residency", rows, np.concatenate([into, out]), values, zero, zero)
