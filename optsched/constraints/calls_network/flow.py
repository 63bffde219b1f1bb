"""Rules ``completion`` and ``residency``: every request takes one path from its prompt to its end.

inflow = outflow at every node, one unit from each source to each end
e_(j+1)g <= token g in batch j        only fresh KV is evicted
"""

from __future__ import annotations

import numpy as np

from optsched.constraints.network.blocks import stacked
from optsched.instance import Instance
from optsched.model.calls_network import CallsNetworkVariables
from optsched.model.calls_network_arcs import Move
from optsched.model.milp import Block


def flow(instance: Instance, variables: CallsNetworkVariables) -> Block:
    """Rows: nodes."""
    arcs = variables.arcs
    demand = np.zeros(arcs.nodes)
    demand[arcs.sources] -= 1.0
    demand[arcs.ends] += 1.0
    every, ones = np.arange(len(arcs)), np.ones(len(arcs))
    parts = [(arcs.head, every, ones), (arcs.tail, every, -ones)]
    return stacked("completion", parts, arcs.nodes, lower=demand, upper=demand)


def fresh(instance: Instance, variables: CallsNetworkVariables) -> Block:
    """Rows: evictions."""
    arcs = variables.arcs
    evict, token = np.flatnonzero(arcs.of(Move.EVICT)), np.flatnonzero(arcs.generates)
    # Evictions and tokens that share a node: the one where the token leads to.
    row = np.full(arcs.nodes, -1)
    row[arcs.tail[evict]] = np.arange(evict.size)
    mine = token[row[arcs.head[token]] >= 0]
    parts = [
        (np.arange(evict.size), evict, np.ones(evict.size)),
        (row[arcs.head[mine]], mine, -np.ones(mine.size)),
    ]
    return stacked("fresh", parts, evict.size, upper=0.0)
