"""Handling of calls: what the path of a request does between the call and its next token.

    preserve + discard + swap = 1                       per call
    discard = sum over batches of evict                 at the stage of the call
    out in batch j <= swap <= sum over batches of out
    hold in batch j <= sum over batches of out          policy ``swap``

The other policies leave out arcs (:mod:`optsched.model.calls_network_arcs`). A request that goes on
in the batch after the call holds nothing in between and satisfies all of them.
"""

from __future__ import annotations

import numpy as np

from optsched.constraints.network.blocks import Part, stacked
from optsched.handling import HANDLINGS
from optsched.instance import Instance
from optsched.model.calls_network import CallsNetworkVariables
from optsched.model.calls_network_arcs import Move
from optsched.model.milp import Block

_DISCARD, _SWAP = HANDLINGS.index("discard"), HANDLINGS.index("swap")


def handling(instance: Instance, variables: CallsNetworkVariables) -> Block:
    """Rows: three per call and one per arc ``out`` at a call."""
    arcs, parts = variables.arcs, list[Part]()
    lower, upper = list[float](), list[float]()

    def add(columns: list[int], values: list[float], low: float, high: float) -> None:
        row = np.full(len(columns), len(lower))
        parts.append((row, np.array(columns, dtype=np.int64), np.array(values)))
        lower.append(low)
        upper.append(high)

    evicts, outs = arcs.of(Move.EVICT), arcs.of(Move.OUT)
    for columns, (request, stage) in zip(variables.handling.tolist(), variables.calls, strict=True):
        here = (arcs.request == request) & (arcs.stage == stage)
        evict, out = (np.flatnonzero(here & each).tolist() for each in (evicts, outs))
        add(columns, [1.0, 1.0, 1.0], 1.0, 1.0)
        add([columns[_DISCARD], *evict], [1.0, *[-1.0] * len(evict)], 0.0, 0.0)
        add([columns[_SWAP], *out], [-1.0, *[1.0] * len(out)], 0.0, np.inf)
        for arc in out:
            add([columns[_SWAP], arc], [1.0, -1.0], 0.0, np.inf)
    return stacked("handling", parts, len(lower), lower=np.array(lower), upper=np.array(upper))


def fixed_swap(instance: Instance, variables: CallsNetworkVariables) -> Block:
    """Rows: arcs ``hold`` at calls whose KV must be swapped."""
    arcs, parts, rows = variables.arcs, list[Part](), 0
    for request, stage in variables.swap_calls:
        here = (arcs.request == request) & (arcs.stage == stage)
        hold, out = (np.flatnonzero(here & arcs.of(move)) for move in (Move.HOLD, Move.OUT))
        row = rows + np.arange(hold.size)
        parts += [
            (row, hold, np.ones(hold.size)),
            (np.repeat(row, out.size), np.tile(out, hold.size), -np.ones(out.size * hold.size)),
        ]
        rows += hold.size
    return stacked("swap", parts, rows, upper=0.0)
