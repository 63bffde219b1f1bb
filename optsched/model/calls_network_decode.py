"""From a point of the network with calls to a schedule, and how it handles each call.

Nothing is repaired: a point is taken at its word, so one that breaks a row shows as a violation in
the check of its schedule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from optsched.handling import HANDLINGS
from optsched.model.calls_network_arcs import GENERATES, Move
from optsched.schedule import Kind, Schedule, from_steps

if TYPE_CHECKING:
    from optsched.model.calls_network import CallsNetworkVariables

FloatArray = NDArray[np.float64]

_KINDS = {
    Move.BACK: Kind.SWAP_IN, Move.IN: Kind.SWAP_IN, Move.OUT: Kind.SWAP_OUT,
    Move.EVICT: Kind.EVICT,
}  # fmt: skip


def decode(variables: CallsNetworkVariables, point: FloatArray) -> Schedule:
    """The schedule of ``point``."""
    arcs = variables.arcs
    steps: list[tuple[int, int, int, int]] = []
    for a in np.flatnonzero(np.rint(point[: len(arcs)])).tolist():
        move, request, batch = Move(arcs.move[a]), int(arcs.request[a]), int(arcs.batch[a])
        if move in _KINDS:
            steps.append((request, _KINDS[move], batch, 0))
        if move in GENERATES:
            steps.append((request, Kind.PROCESS, batch, int(arcs.tokens[a])))
    return from_steps(steps)


def handlings(variables: CallsNetworkVariables, point: FloatArray) -> tuple[tuple[str, ...], ...]:
    """Per request, how each of its calls is handled, in order."""
    chosen = point[variables.handling].argmax(axis=1) if variables.calls else []
    found: list[list[str]] = [[] for _ in variables.stages]
    for (request, _), k in zip(variables.calls, chosen, strict=True):
        found[request].append(HANDLINGS[int(k)])
    return tuple(tuple(each) for each in found)
