"""Cheapest paths under prices of time, and where they use the machine, in floating point.

The recursion of ``optsched/bounds/verify/clock/time_prices.py`` on fewer classes and cells, with
the paths traced back, so that prices can be moved towards where the machine is asked for more than
there is. Its value guides the search and is no bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from optsched.bounds.verify.clock.paces import UNITS, Paces, block_charge
from optsched.bounds.verify.clock.time_prices import ahead
from optsched.instance import IntArray

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class PathClass:
    """Requests that are followed as one.

    Parameters
    ----------
    final : int
        Row of their I + O - 1.
    decodes : int
        O - 1.
    fill_cells, fill_charge_s : int, float
        Cells that the fill takes, and its charge at a price of 1.
    arrivals : int array, shape ``(cells + 1,)``
        How many arrive in each cell.
    """

    final: int
    decodes: int
    fill_cells: int
    fill_charge_s: float
    arrivals: IntArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Choice:
    """What is best in each cell: until when to wait, and then which stretch to take.

    ``until`` and ``option`` have shape ``(finals, cells + 1)``.
    """

    until: IntArray
    option: IntArray
    cells: IntArray
    charges_s: FloatArray


class PricePaths:
    """Paths of ``classes`` on a timeline of ``cells`` cells of ``cell_s`` seconds.

    Parameters
    ----------
    paces : Paces
    finals : int array, shape ``(finals,)``
    blocks : tuple of int
        Decodes left at the ends of blocks, from 0.
    first, whole : float
        What a second costs until the first token, and until the end.
    """

    def __init__(
        self, paces: Paces, cell_s: float, cells: int, finals: IntArray, blocks: tuple[int, ...],
        classes: list[PathClass], *, first: float = 0.0, whole: float = 1.0,
    ) -> None:  # fmt: skip
        self.cell_s, self.cells = cell_s, cells
        self.paces, self.finals = paces, finals
        self.classes = sorted(classes, key=lambda c: c.decodes)
        # What a cell costs after the first token, and before it; and so many of them.
        self.later, self.sooner = whole * cell_s, (first + whole) * cell_s
        self.stayed, self.waited = (np.arange(cells + 1) * x for x in (self.later, self.sooner))
        self.price: FloatArray = np.zeros(cells + 1)
        decodes = sorted({c.decodes for c in classes})
        chain = [b for b in blocks if b <= decodes[-1]]
        self.blocks = [self._options(a, b) for a, b in pairwise(chain)]
        self.last: dict[int, tuple[int, tuple[IntArray, FloatArray] | None]] = {}
        for n in decodes:
            level = int(np.searchsorted(chain, n, side="right")) - 1
            options = self._options(chain[level], n) if n > chain[level] else None
            self.last[n] = (level, options)

    def _options(self, left: int, end: int) -> tuple[IntArray, FloatArray]:
        """Stretches of a block: cells, and charges of shape ``(finals, stretches)``."""
        tokens, unit = end - left, int(self.cell_s * UNITS)
        starts = sorted({max(0, -(-tokens * t // unit) - 1) for t in self.paces.from_units})
        charges = []
        for final in self.finals.tolist():
            segments = self.paces.segments(final - end + 1, final - left)
            until = [s * unit for s in starts[1:]]
            charges.append([block_charge(segments, tokens, u) / UNITS for u in [*until, None]])
        return np.array(starts), np.array(charges)

    def value_and_use(self, price: FloatArray) -> tuple[float, FloatArray]:
        """Sum of path costs at ``price`` per cell, shape ``(cells + 1,)`` with 0 at the end, and
        the seconds that the paths ask for in each cell."""
        self.price = price
        after = [np.zeros((self.finals.size, self.cells + 1))]
        choices = []
        for block in self.blocks:
            cost, taken = self._block(after[-1], block)
            after.append(cost)
            choices.append(taken)
        use = np.zeros(self.cells + 2)
        mass = np.zeros_like(after[0])
        total, level = 0.0, len(self.blocks)
        for n in sorted(self.last, reverse=True):
            own, options = self.last[n]
            while level > own:
                level -= 1
                mass = self._move(mass, choices[level], use)
            cost = after[own]
            choice: Choice | None = None
            if options is not None:
                cost, choice = self._block(cost, options)
            started = np.zeros_like(mass)
            for c in self.classes:
                if c.decodes == n:
                    total += self._fill(c, cost[c.final], started[c.final], use)
            mass += started if choice is None else self._move(started, choice, use)
        while level:
            level -= 1
            mass = self._move(mass, choices[level], use)
        return total, np.cumsum(use)[:-1]

    def _least(self, cells: int) -> FloatArray:
        """Lowest price of the cells a to a + ``cells``."""
        done, least = 1, self.price
        while done < cells + 1:
            step = min(done, cells + 1 - done)
            least = np.minimum(least, ahead(least, step))
            done += step
        return least

    def _block(
        self, after: FloatArray, options: tuple[IntArray, FloatArray]
    ) -> tuple[FloatArray, Choice]:
        stretches, charges = options
        best = np.full(after.shape, np.inf)
        option = np.zeros(after.shape, dtype=np.int64)
        for k, cells in enumerate(stretches.tolist()):
            cost = charges[:, k, None] * self._least(cells)
            cost += ahead(after, cells) + cells * self.later
            better = cost < best
            best[better] = cost[better]
            option[better] = k
        best += self.stayed
        until = _argmin_from(best)
        cost = np.take_along_axis(best, until, axis=1) - self.stayed
        return cost, Choice(until=until, option=option, cells=stretches, charges_s=charges)

    def _move(self, mass: FloatArray, choice: Choice, use: FloatArray) -> FloatArray:
        """Where requests that start a block in each cell end it; adds what they use to ``use``."""
        row, cell = np.nonzero(mass)
        amount = mass[row, cell]
        start = choice.until[row, cell]
        option = choice.option[row, start]
        cells = choice.cells[option]
        end = np.minimum(start + cells, self.cells)
        _add(use, start, end, amount * choice.charges_s[row, option])
        moved = np.zeros_like(mass)
        np.add.at(moved, (row, end), amount)
        return moved

    def _fill(self, c: PathClass, after: FloatArray, started: FloatArray, use: FloatArray) -> float:
        cost = c.fill_charge_s * self._least(c.fill_cells) + ahead(after, c.fill_cells)
        cost += self.waited + c.fill_cells * self.sooner
        until = _argmin_from(cost[None])[0]
        cell = np.flatnonzero(c.arrivals)
        amount = c.arrivals[cell].astype(np.float64)
        start = until[cell]
        end = np.minimum(start + c.fill_cells, self.cells)
        _add(use, start, end, amount * c.fill_charge_s)
        np.add.at(started, end, amount)
        return float((amount * (cost[start] - self.waited[cell])).sum())


def _add(use: FloatArray, start: IntArray, end: IntArray, amount: FloatArray) -> None:
    """Spread ``amount`` evenly over the cells from ``start`` to ``end``, as differences."""
    each = amount / (end - start + 1)
    np.add.at(use, start, each)
    np.subtract.at(use, end + 1, each)


def _argmin_from(values: FloatArray) -> IntArray:
    """Position of the least entry from each one on, the first of equals; along the last axis."""
    least = np.minimum.accumulate(values[:, ::-1], axis=1)[:, ::-1]
    here = np.where(values <= least, np.arange(values.shape[1]), values.shape[1])
    return np.asarray(np.minimum.accumulate(here[:, ::-1], axis=1)[:, ::-1])
