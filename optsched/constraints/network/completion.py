"""Rule ``completion``: every request starts once, waits where it was, and finishes.

in + (those that arrive there) = out at every waiting node,   sum_j (p + d)[j, O-1] = count
"""

from __future__ import annotations

import numpy as np

from optsched.instance import Instance
from optsched.model.milp import Block, block
from optsched.model.network import NetworkVariables


def completion(instance: Instance, variables: NetworkVariables) -> Block:
    """Rows: waiting nodes and sinks of every type; inflow - outflow = demand."""
    nodes, arcs, slots = variables.nodes, variables.arcs, variables.slots
    demand = np.zeros(nodes.count)
    mine = np.zeros(nodes.count, dtype=bool)
    for t, kind in enumerate(variables.types):
        for window in nodes.waiting[t]:
            mine[window.base : window.base + window.size] = True
        for level in np.flatnonzero(slots.supply[t]):
            demand[nodes.source(t, int(slots.first[level]))] -= slots.supply[t, level]
        mine[nodes.sink[t]] = True
        demand[nodes.sink[t]] += kind.count
    row = np.cumsum(mine) - 1
    into, out = np.flatnonzero(mine[arcs.head]), np.flatnonzero(mine[arcs.tail])
    rows = np.concatenate([row[arcs.head[into]], row[arcs.tail[out]]])
    values = np.concatenate([np.ones(into.size), -np.ones(out.size)])
    demand = demand[mine]
    return block("completion", rows, np.concatenate([into, out]), values, demand, demand)
