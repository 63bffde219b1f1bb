"""Which slot each batch of a schedule is in: that of the interval in which it starts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from optsched.errors import UnsupportedError
from optsched.model.network_arcs import ArcKind
from optsched.model.network_paths import path

if TYPE_CHECKING:
    from optsched.model.network import NetworkVariables

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


def place_batches(
    variables: NetworkVariables, actions: Sequence[dict[int, tuple[int, int]]], batches: int
) -> IntArray:
    """Slot of every batch, from 1, shape ``(batches,)``; offline its own number.

    Raises
    ------
    UnsupportedError
        More batches start in an interval than it has slots.
    """
    slots = variables.slots
    if slots.levels == 1:
        return np.arange(1, batches + 1)
    duration, arrival = _durations(variables, actions, batches)
    place = np.zeros(batches, dtype=np.int64)
    taken, now = slots.first.copy(), 0.0
    for j in range(batches):
        now = max(now, float(arrival[j]))
        m = int(np.searchsorted(slots.arrivals_s, now, side="right")) - 1
        if taken[m] == slots.first[m + 1]:
            raise UnsupportedError(
                f"batch {j + 1} of the schedule is one too many between two arrivals",
                hint="build the program with a horizon that contains the schedule",
            )
        taken[m] += 1
        place[j] = taken[m]
        now += float(duration[j])
    return place


def _durations(
    variables: NetworkVariables, actions: Sequence[dict[int, tuple[int, int]]], batches: int
) -> tuple[FloatArray, FloatArray]:
    """Duration of every batch of unchunked fills and decodes, and the latest arrival in it."""
    law = variables.instance.cost
    tokens, attention = np.zeros(batches), np.zeros(batches)
    decodes, prefills, arrival = np.zeros(batches), np.zeros(batches), np.zeros(batches)
    for kind in variables.types:
        for request, release in zip(kind.members, kind.releases_s, strict=True):
            for arc, _, batch, cached in path(kind, actions[request], request):
                j = batch - 1
                if arc == ArcKind.DECODE:
                    tokens[j] += 1
                    attention[j] += float(law.decode_time(cached - 1))
                    decodes[j] = 1.0
                elif arc == ArcKind.FILL:
                    tokens[j] += cached
                    attention[j] += float(law.prefill_time(cached, 0))
                    prefills[j] = 1.0
                    arrival[j] = max(arrival[j], release)
    return law.token_time(tokens) + attention + law.d0 * decodes + law.p0 * prefills, arrival
