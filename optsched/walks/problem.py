"""Prices of closed walks: what there is to price, and what moves cost under given prices."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from optsched.walks.contents import IntArray
from optsched.walks.rows import Rows
from optsched.walks.sweeps import BatchPrices

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class WalkPrices:
    """Seconds per event of the first stage of each group, of every other stage of it, of each
    small stage, and per page of offset."""

    first: FloatArray
    later: FloatArray
    small: FloatArray
    growth: float


@dataclass(frozen=True, kw_only=True, eq=False)
class WalkProblem:
    """The events that prices can be put on.

    Parameters
    ----------
    rows : Rows
    requests : int array, shape ``(kinds,)``
        Requests that pass each group.
    refill_s : tuple of float array
        Per kind and stage: what a fill costs beyond the decode that it replaces.
    batch_s : float
        Fixed time of a batch.
    small : tuple of (int, int)
        Pages and number of events of each small stage.
    """

    rows: Rows
    requests: IntArray
    refill_s: tuple[FloatArray, ...]
    batch_s: float
    small: tuple[tuple[int, int], ...]

    @property
    def cap(self) -> int:
        """Pages of memory."""
        return int(self.rows.contents.free[0])

    @cached_property
    def events(self) -> FloatArray:
        """Number of events of each price, in the order of :meth:`split`."""
        width = np.array(self.rows.widths)
        small = np.array([count for _, count in self.small], dtype=np.float64)
        growth = (self.requests * (width * (width - 1) // 2)).sum()
        return np.concatenate((self.requests, self.requests * (width - 1), small, [growth]))

    @cached_property
    def by_area(self) -> FloatArray:
        """Prices under which every page of memory earns the same and a full batch its cost."""
        pages = self._pages
        small = np.array([pages for pages, _ in self.small], dtype=np.float64)
        return np.concatenate((pages, pages, small, [1.0])) * (self.batch_s / self.cap)

    @property
    def _pages(self) -> IntArray:
        """Of the first stage of each kind: the contents of one item, by kind."""
        starts = self.rows.contents.level_starts
        return self.cap - self.rows.contents.free[starts[1] : starts[2]]

    def split(self, vector: FloatArray) -> WalkPrices:
        """Prices from a vector."""
        kinds = len(self.rows.widths)
        first, later, small, growth = np.split(vector, [kinds, 2 * kinds, vector.size - 1])
        return WalkPrices(first=first, later=later, small=small, growth=float(growth[0]))

    def moves(self, prices: WalkPrices) -> BatchPrices:
        """Costs of moves under ``prices``."""
        fill = []
        for refill, own, others in zip(self.refill_s, prices.first, prices.later, strict=True):
            less = refill - others
            less[0] = refill[0] - own
            fill.append(less)
        best, _ = self.packed(prices.small)
        return BatchPrices(
            first=prices.first, later=prices.later, fill=tuple(fill),
            batch=self.batch_s - best[self.rows.free] - prices.growth * self.rows.offsets,
        )  # fmt: skip

    def packed(self, prices: FloatArray) -> tuple[FloatArray, list[int]]:
        """The most that each number of free pages earns with small stages, and the last stage
        taken for it, -1 for a page left free."""
        best, last = np.zeros(self.cap + 1), [-1] * (self.cap + 1)
        kept = [
            (pages, price, k)
            for k, ((pages, _), price) in enumerate(zip(self.small, prices.tolist(), strict=True))
            if price > 0
        ]
        earned = best.tolist()
        for free in range(1, self.cap + 1 if kept else 0):
            earned[free] = earned[free - 1]
            for pages, price, k in kept:
                if pages <= free and earned[free - pages] + price > earned[free]:
                    earned[free], last[free] = earned[free - pages] + price, k
        return np.array(earned), last
