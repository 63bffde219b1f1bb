"""Waiting requests in order of rank, as far as they have arrived."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optsched.instance import Instance, IntArray

FloatArray = NDArray[np.float64]


class ArrivalOrder:
    """Requests by arrival, each let in once."""

    def __init__(self, release_s: FloatArray) -> None:
        self._order = np.argsort(release_s, kind="stable")
        self._release: FloatArray = release_s[self._order]
        self._count = 0

    @property
    def next_s(self) -> float:
        """When the next request arrives; infinity if all have."""
        if self._count == self._release.size:
            return float("inf")
        return float(self._release[self._count])

    def until(self, now_s: float) -> IntArray:
        """Those that have arrived since the last time, in order."""
        first = self._count
        self._count = max(first, int(np.searchsorted(self._release, now_s, side="right")))
        return self._order[first : self._count]


class RankedQueue:
    """Who has arrived and waits, lowest rank first; ties by arrival, then by place.

    Parameters
    ----------
    instance : Instance
    rank : float array, shape ``(requests,)``

    Attributes
    ----------
    waiting : int array
        Positions of the requests that have arrived and wait, in order.
    left : int
        Requests that wait or are still to arrive.
    """

    def __init__(self, instance: Instance, rank: FloatArray) -> None:
        release = instance.release_s
        order = np.lexsort((release, rank))
        self._place = np.empty_like(order)
        self._place[order] = np.arange(order.size)
        self._order = order
        self._arrivals = ArrivalOrder(release)
        self._places: IntArray = np.zeros(0, dtype=np.int64)
        self.waiting: IntArray = np.zeros(0, dtype=np.int64)
        self.left = len(instance)

    @property
    def next_arrival_s(self) -> float:
        """When the next request arrives; infinity if all have."""
        return self._arrivals.next_s

    def arrive(self, now_s: float) -> None:
        """Take in everything that has arrived."""
        if self.next_arrival_s > now_s:
            return
        new = self._place[self._arrivals.until(now_s)]
        self._set(np.sort(np.concatenate([self._places, new])))

    def take(self, request: int) -> None:
        """Take out a request that waits."""
        index = int(np.searchsorted(self._places, self._place[request]))
        self.left -= 1
        self._set(np.delete(self._places, index))

    def begin(self, request: int) -> None:
        """Whoever waits stays, so nothing changes."""

    def _set(self, places: IntArray) -> None:
        self._places = places
        self.waiting = self._order[places]
