"""The batches in which anything happens, as positions without gaps.

A valid schedule leaves no batch out, and position p is batch p + 1. A broken one may leave out any
number; without them, the sums per batch take memory for what is done, not for what is numbered.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Axis:
    """Maximal intervals of batches, from ``first`` to before ``stop``; ``(intervals,)`` each."""

    first: IntArray
    stop: IntArray

    @property
    def offset(self) -> IntArray:
        """Position of the first batch of each interval."""
        lengths = self.stop - self.first
        offset: IntArray = np.cumsum(lengths) - lengths
        return offset

    @property
    def size(self) -> int:
        """Number of batches in all intervals."""
        return int((self.stop - self.first).sum())

    def position(self, batch: IntArray) -> IntArray:
        """Positions of batches, each of which lies in an interval."""
        if self.first.size == 1:
            return batch - int(self.first[0])
        interval = np.searchsorted(self.first, batch, side="right") - 1
        position: IntArray = self.offset[interval] + (batch - self.first[interval])
        return position

    def batch(self, position: IntArray) -> IntArray:
        """The batches at positions."""
        interval = np.searchsorted(self.offset, position, side="right") - 1
        batch: IntArray = self.first[interval] + (position - self.offset[interval])
        return batch

    def gaps(self, last: int) -> tuple[IntArray, IntArray]:
        """First and number of the batches of each interval of 1 .. ``last`` that is left out."""
        first = np.append(1, self.stop)
        length = np.append(self.first, last + 1) - first
        return first[length > 0], length[length > 0]


def covered(first: IntArray, stop: IntArray) -> Axis:
    """The union of the intervals from ``first`` to before ``stop``, none of them empty."""
    order = np.argsort(first, kind="stable")
    first, reach = first[order], np.maximum.accumulate(stop[order])
    heads = np.flatnonzero(np.append(True, first[1:] > reach[:-1])[: first.size])
    return Axis(first=first[heads], stop=reach[np.append(heads[1:], first.size)[: heads.size] - 1])
