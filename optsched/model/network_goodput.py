"""Columns of goodput: which events are in time, and how many requests meet all objectives.

    in_time_mj    1 only if batch j ends by the m-th of the different deadlines, which are
                  arrival + TTFT SLO for first tokens and arrival + latency SLO for ends
    on_time_kj    events of the k-th (type, milestone) with a deadline that batch j has in time
    met_t         requests of type t that meet all their objectives

and per type with a TPOT SLO, which is one request (:func:`optsched.model.types.request_types`),

    active_ij     1 if it meets its objectives, has a first token and is unfinished before batch j
    pace_ij       active_ij (end_j - end_(j-1)), made linear

TPOT is the one objective that a later first token improves. So with arrivals, where a later first
token need not delay the rest, starts and durations must be exact, not only large enough:

    busy_m        1 if the batch before interval m ends after T_m
    piece_kj      1 if piece k of the batch time gives the excess of batch j
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optsched.model.network_columns import Allocation, Columns
from optsched.model.network_slots import Slots
from optsched.model.types import RequestType

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Goodput:
    """Columns of goodput.

    Parameters
    ----------
    deadlines_s : float array, shape ``(deadlines,)``
        Different deadlines in order, seconds on the schedule's clock.
    in_time : Columns, shape ``(deadlines, slots)``
    event_type, event_deadline : int arrays, shape ``(events,)``
        Type and position of the deadline of each (type, milestone) that has one.
    event_first : bool array, shape ``(events,)``
        Whether the milestone is the first token.
    on_time : Columns, shape ``(events, slots)``
    met : Columns, shape ``(types,)``
    paced_type : int array, shape ``(paced,)``
        Types with a TPOT SLO.
    active, pace : Columns, shape ``(paced, slots)``
    busy : Columns, shape ``(levels - 1,)``
    piece : Columns, shape ``(pieces, slots)``
        Both empty unless a type has a TPOT SLO and not all requests arrive at once.
    """

    deadlines_s: FloatArray
    in_time: Columns
    event_type: IntArray
    event_deadline: IntArray
    event_first: NDArray[np.bool_]
    on_time: Columns
    met: Columns
    paced_type: IntArray
    active: Columns
    pace: Columns
    busy: Columns
    piece: Columns


def goodput_columns(
    types: tuple[RequestType, ...],
    slots: Slots,
    new: Allocation,
    base_s: float,
    pieces: int,
) -> Goodput:
    """Columns for the objectives of ``types``; ``pieces`` is how many the batch time has."""
    events = [
        (t, first, kind.release_s + slo)
        for t, kind in enumerate(types)
        for first, slo in ((True, kind.ttft_slo_s), (False, kind.latency_slo_s))
        if slo < np.inf
    ]
    count, levels = slots.count, slots.levels
    type_ = np.array([t for t, _, _ in events], dtype=np.int64)
    deadlines, position = np.unique([due for _, _, due in events], return_inverse=True)
    requests = np.array([kind.count for kind in types], dtype=np.float64)
    paced = np.flatnonzero([kind.tpot_slo_s < np.inf for kind in types])
    exact = paced.size > 0 and levels > 1
    # A batch of interval m ends after T_m + a.
    possible = deadlines[:, None] >= slots.arrivals_s[slots.interval] + base_s * (1 - 1e-9)
    return Goodput(
        deadlines_s=deadlines,
        in_time=new.add(
            "in_time", (deadlines.size, count), upper=possible.astype(np.float64), integer=True
        ),
        event_type=type_,
        event_deadline=position.astype(np.int64),
        event_first=np.array([first for _, first, _ in events], dtype=np.bool_),
        on_time=new.add("on_time", (len(events), count), upper=requests[type_][:, None]),
        met=new.add("met", len(types), upper=requests, integer=True),
        paced_type=paced,
        active=new.add("active", (paced.size, count), upper=1.0),
        pace=new.add("pace_us", (paced.size, count)),
        busy=new.add("busy", levels - 1 if exact else 0, upper=1.0, integer=True),
        piece=new.add(
            "piece", (pieces if exact and pieces > 1 else 0, count), upper=1.0, integer=True
        ),
    )  # fmt: skip
