"""From a point of the network formulation to a schedule of named requests.

The flow of a type is peeled batch by batch: every unit on an arc is given to a request that is
where the arc begins, a partially filled one first (first in, first out), then the one that
arrived first. Nothing is repaired: a point is taken at its word, so one that breaks a row shows
as a violation in the check of its schedule.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from optsched.model.network_arcs import ArcKind
from optsched.schedule import Kind, Schedule, from_steps

if TYPE_CHECKING:
    from optsched.model.network import NetworkVariables

FloatArray = NDArray[np.float64]

# Within a batch restores come before fills: a partial fill that lacks only its last token is then
# completed by the restore, which has nothing left to process, and keeps that token for a decode.
_ORDER = (ArcKind.EVICT, ArcKind.DECODE, ArcKind.RESTORE, ArcKind.FILL)


@dataclass
class _Request:
    """Where a request is: tokens generated, tokens cached, and the last batch it acted in."""

    position: int
    rank: int
    stage: int = 0
    cached: int = 0
    resident: bool = False
    acted: int = 0


def decode(variables: NetworkVariables, point: FloatArray) -> Schedule:
    """The schedule of ``point``; its steps in each batch are those of the arcs with flow."""
    flow = np.rint(point).astype(np.int64)
    arcs, partials = variables.arcs, variables.partials
    requests = [
        [_Request(i, rank) for rank, i in enumerate(kind.members)] for kind in variables.types
    ]
    steps: list[tuple[int, int, int, int]] = []

    rank = np.full(len(ArcKind), len(_ORDER))
    rank[list(_ORDER)] = range(len(_ORDER))
    busy = np.flatnonzero((flow[: len(arcs)] > 0) & (rank[arcs.kind] < len(_ORDER)))
    partial = np.flatnonzero(flow[partials.begun] > 0)
    moves = [(int(arcs.batch[a]), int(rank[arcs.kind[a]]), int(a)) for a in busy]
    moves += [(int(partials.batch[k]), len(_ORDER), int(k)) for k in partial]
    for batch, order, at in sorted(moves):
        if order == len(_ORDER):
            kind, stage = ArcKind.WAIT, int(partials.stage[at])
            type_, cached, units = int(partials.type[at]), int(flow[partials.tokens[at]]), 1
        else:
            kind, stage = ArcKind(arcs.kind[at]), int(arcs.stage[at])
            type_, cached, units = int(arcs.type[at]), int(arcs.cached[at]), int(flow[at])
        resident = kind in (ArcKind.EVICT, ArcKind.DECODE)
        for request in _choose(requests[type_], stage, resident, batch, units):
            if kind is ArcKind.EVICT:
                steps.append((request.position, Kind.EVICT, batch, 0))
            elif cached > request.cached:
                tokens = 1 if kind is ArcKind.DECODE else cached - request.cached
                steps.append((request.position, Kind.PROCESS, batch, tokens))
            generates = kind in (ArcKind.FILL, ArcKind.DECODE)
            request.stage = stage + generates
            request.cached = cached
            request.resident = generates or kind is ArcKind.RESTORE
            request.acted = batch
    return from_steps(_without_idle_slots(steps))


def _without_idle_slots(steps: list[tuple[int, int, int, int]]) -> list[tuple[int, int, int, int]]:
    """The steps with slots numbered anew: only those with steps are batches.

    A used batch has a step; so only slots that are idle are left out.
    """
    numbers = {slot: j + 1 for j, slot in enumerate(sorted({step[2] for step in steps}))}
    return [(request, kind, numbers[slot], tokens) for request, kind, slot, tokens in steps]


def _choose(
    requests: list[_Request], stage: int, resident: bool, batch: int, units: int
) -> list[_Request]:
    """``units`` requests that have not acted in ``batch``, those at the arc's tail first."""
    free = [request for request in requests if request.acted < batch]
    free.sort(key=lambda r: (r.stage != stage, r.resident != resident, -r.cached, r.rank))
    return free[:units]
