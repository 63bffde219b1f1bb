"""Slots: where in time the batches of a schedule can be, relative to the arrivals.

Offline, slot j is batch j, and unused slots come last. With arrivals T_0 = 0 < T_1 < ... the slots
are divided among the intervals [T_m, T_(m+1)), the last one without end. A batch is in a slot of
the interval in which it starts, the used slots of an interval come first, and so a request of
arrival T_m has its slots from those of interval m on, which no row needs to say.

Batches that start in one interval start at least a apart, a the least duration of any batch, so
interval m has at most 1 + floor((T_(m+1) - T_m) / a) of them; unchunked, also no more than its
requests and earlier ones have tokens. The last interval has as many slots as the schedule may have
batches in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optsched.instance import Instance
from optsched.model.batch_durations import least_duration_s
from optsched.model.types import RequestType

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Slots:
    """Slots by interval.

    Parameters
    ----------
    arrivals_s : float array, shape ``(levels,)``
        Different arrivals in order; the first is 0.
    level : int array, shape ``(types,)``
        Which of them is the earliest of a type.
    supply : int array, shape ``(types, levels)``
        How many requests of each type arrive then.
    first : int array, shape ``(levels + 1,)``
        Interval m has the slots first[m] .. first[m + 1] - 1, from 0.
    """

    arrivals_s: FloatArray
    level: IntArray
    supply: IntArray
    first: IntArray

    @property
    def count(self) -> int:
        """Number of slots."""
        return int(self.first[-1])

    @property
    def levels(self) -> int:
        """Number of intervals; 1 if all requests arrive at once."""
        return int(self.arrivals_s.size)

    @property
    def interval(self) -> IntArray:
        """The interval of every slot, shape ``(slots,)``."""
        return np.repeat(np.arange(self.levels), np.diff(self.first))

    @property
    def last(self) -> NDArray[np.bool_]:
        """Which slots are of the last interval: unused ones come after the end; ``(slots,)``."""
        last: NDArray[np.bool_] = np.arange(self.count) >= self.first[-2]
        return last

    @property
    def before(self) -> IntArray:
        """Per type, how many slots are before its first one, shape ``(types,)``."""
        return self.first[self.level]


def network_slots(
    instance: Instance, types: Sequence[RequestType], batches: int, late: int
) -> Slots:
    """Slots for unchunked schedules of at most ``batches`` batches, at most ``late`` of them from
    the last arrival on; or offline for any schedules of ``batches`` batches."""
    late = late if np.unique(instance.release_s).size > 1 else batches
    arrivals = np.unique(instance.release_s)
    supply = np.zeros((len(types), arrivals.size), dtype=np.int64)
    for t, kind in enumerate(types):
        np.add.at(supply[t], np.searchsorted(arrivals, kind.releases_s), 1)
    outputs = np.array([kind.output_tokens for kind in types])
    tokens = np.cumsum(outputs @ supply)
    batches_between = np.floor(np.diff(arrivals) / least_duration_s(instance) * (1 + 1e-9)) + 1
    sizes = np.minimum(np.minimum(batches_between, tokens[:-1]), batches)
    return Slots(
        arrivals_s=arrivals,
        level=(supply > 0).argmax(axis=1),
        supply=supply,
        first=np.cumsum([0, *sizes.tolist(), late]).astype(np.int64),
    )
