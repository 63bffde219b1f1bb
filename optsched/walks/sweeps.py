"""One batch of every walk at once: least values after it, by unit moves.

A batch is a chain of evictions, decodes from the last kind to the first, and fills; of a group
first those decode that leave it (``bounds``, ``exact_walks``). One pass over the moves in that
order covers all batches. Works on doubles and on whole numbers alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optsched.walks.contents import IntArray
from optsched.walks.rows import Rows

Values = NDArray[Any]  # doubles or 64-bit integers
_FAR = 2**61  # of whole numbers, which stay below 2 ** 60


@dataclass(frozen=True, kw_only=True, eq=False)
class BatchPrices:
    """What moves cost less what they earn.

    Parameters
    ----------
    first, later : array, shape ``(kinds,)``
        Prices of the events of a group's first stage and of every other one.
    fill : tuple of array
        Per kind and stage: what a fill costs less its price.
    batch : array, shape of :class:`Rows`
        A batch's fixed cost less what its free pages and its offset earn.
    """

    first: Values
    later: Values
    fill: tuple[Values, ...]
    batch: Values


class Relaxation:
    """Least values so far, lowered along moves.

    Parameters
    ----------
    rows : Rows
    values : array
        Values to start from; copied.
    """

    def __init__(self, rows: Rows, values: Values) -> None:
        self.rows = rows
        self.far = np.inf if values.dtype.kind == "f" else _FAR
        self.values = np.where(rows.fits, values, self.far)

    def move(
        self, source: IntArray, target: IntArray, shift: int, cost: float | int, event: int = -1
    ) -> None:
        """From rows ``source`` to ``target``, no two alike, with ``shift`` more offset; ``event``
        is the number of the event that it makes."""
        taken, entered = _columns(self.rows.offsets.size, shift)
        new = np.where(self.rows.fits[target, entered], self.values[source, taken] + cost, self.far)
        self.lower(source, taken, target, entered, new, event)

    def lower(
        self, source: IntArray, taken: slice, target: IntArray, entered: slice, new: Values,
        event: int,
    ) -> None:  # fmt: skip
        """Take the smaller of ``new`` and what ``target`` has."""
        self.values[target, entered] = np.minimum(self.values[target, entered], new)


def _columns(size: int, shift: int) -> tuple[slice, slice]:
    """Columns left and entered when the offset grows by ``shift``."""
    if shift >= 0:
        return slice(0, max(0, size - shift)), slice(min(shift, size), size)
    return slice(min(-shift, size), size), slice(0, max(0, size + shift))


def after_a_batch(rows: Rows, values: Values, prices: BatchPrices) -> Values:
    """Least value before a batch plus what the batch costs less its prices, by what is after it."""
    relaxation = Relaxation(rows, values)
    follow_moves(relaxation, prices)
    return np.asarray(relaxation.values + prices.batch)


def follow_moves(relaxation: Relaxation, prices: BatchPrices) -> None:
    """Lower values along all moves of a batch; events of later stages are numbered after those of
    first stages."""
    rows = relaxation.rows
    kinds = len(rows.widths)
    for level in reversed(rows.levels):
        for kind, (larger, smaller) in level:
            for offset in range(rows.widths[kind]):
                relaxation.move(larger, smaller, -offset, 0)
    for kind in range(kinds - 1, -1, -1):
        last = rows.widths[kind] - 1
        for source, target in rows.onward[kind]:
            relaxation.move(source, target, -last, -prices.first[kind + 1], kind + 1)
        for some in rows.within[kind]:
            relaxation.move(some, some, 1, -prices.later[kind], kinds + kind)
    for level in rows.levels:
        for kind, (larger, smaller) in level:
            for offset, cost in enumerate(prices.fill[kind]):
                relaxation.move(smaller, larger, offset, cost, kinds + kind if offset else kind)
