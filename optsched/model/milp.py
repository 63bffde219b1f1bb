"""A mixed-integer linear program as arrays: blocks of rows, columns, and a cost to minimise."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Block:
    """Rows of one constraint family: ``lower <= A x <= upper`` with A in CSR form.

    Parameters
    ----------
    name : str
        The feasibility rule or the strengthening that the rows state.
    lower, upper : float arrays, shape ``(rows,)``
        Row bounds; infinities allowed.
    starts : int array, shape ``(rows + 1,)``
        Row r has its entries at ``starts[r]:starts[r + 1]``.
    columns, values : arrays, shape ``(entries,)``
        Column numbers and coefficients.
    """

    name: str
    lower: FloatArray
    upper: FloatArray
    starts: IntArray
    columns: IntArray
    values: FloatArray

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.lower.size)

    def activity(self, point: FloatArray) -> FloatArray:
        """A x, shape ``(rows,)``."""
        return self.row_sums(self.values * point[self.columns])

    def row_sums(self, terms: FloatArray) -> FloatArray:
        """Per row, the sum of ``terms``, shape ``(entries,)``.

        Each row by itself: differences of one running sum would lose digits on large programs.
        """
        sums = np.bincount(self.entry_rows(), weights=terms, minlength=self.rows)
        return np.asarray(sums, dtype=np.float64)

    def entry_rows(self) -> IntArray:
        """Row number of every entry, shape ``(entries,)``."""
        return np.repeat(np.arange(self.rows), np.diff(self.starts))

    def select(self, keep: NDArray[np.bool_]) -> Block:
        """The rows for which ``keep``, shape ``(rows,)``, says so."""
        entries = keep[self.entry_rows()]
        lengths = np.diff(self.starts)[keep]
        return replace(
            self,
            lower=self.lower[keep],
            upper=self.upper[keep],
            starts=np.concatenate(([0], np.cumsum(lengths))).astype(np.int64),
            columns=self.columns[entries],
            values=self.values[entries],
        )

    def violation(self, point: FloatArray) -> float:
        """By how much ``point`` breaks the worst row; 0 if none."""
        if not self.rows:
            return 0.0
        activity = self.activity(point)
        worst = np.maximum(activity - self.upper, self.lower - activity).max()
        return float(max(worst, 0.0))


def block(
    name: str,
    rows: ArrayLike,
    columns: ArrayLike,
    values: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
) -> Block:
    """Block from entries (row, column, value) in any order; equal entries are added up.

    ``lower`` and ``upper`` have one entry per row, or are scalars if every row number from 0 to
    the largest is used.
    """
    row = np.asarray(rows, dtype=np.int64).ravel()
    column = np.asarray(columns, dtype=np.int64).ravel()
    value = np.broadcast_to(np.asarray(values, dtype=np.float64), row.shape).ravel()
    count = max(
        int(row.max()) + 1 if row.size else 0, np.asarray(lower).size * (np.ndim(lower) > 0),
        np.asarray(upper).size * (np.ndim(upper) > 0),
    )  # fmt: skip
    order = np.lexsort((column, row))
    row, column, value = row[order], column[order], value[order]
    if row.size:
        first = np.concatenate(([True], (row[1:] != row[:-1]) | (column[1:] != column[:-1])))
        head = np.flatnonzero(first)
        value = np.add.reduceat(value, head)
        row, column = row[head], column[head]
        keep = value != 0
        row, column, value = row[keep], column[keep], value[keep]
    starts = np.searchsorted(row, np.arange(count + 1))
    return Block(
        name=name,
        lower=np.broadcast_to(np.asarray(lower, dtype=np.float64), (count,)).copy(),
        upper=np.broadcast_to(np.asarray(upper, dtype=np.float64), (count,)).copy(),
        starts=starts.astype(np.int64),
        columns=column,
        values=value,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Milp:
    """Minimise ``offset + cost x`` over ``lower <= x <= upper``, the rows of ``blocks``, and x
    integer where ``integer`` says so. Costs are seconds.

    Column arrays have shape ``(columns,)``; ``column_names`` are unique and free of blanks.
    """

    name: str
    cost: FloatArray
    offset: float
    lower: FloatArray
    upper: FloatArray
    integer: NDArray[np.bool_]
    column_names: tuple[str, ...]
    blocks: tuple[Block, ...]

    @property
    def columns(self) -> int:
        """Number of columns."""
        return int(self.cost.size)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(b.rows for b in self.blocks)

    @property
    def entries(self) -> int:
        """Number of non-zeros."""
        return sum(b.values.size for b in self.blocks)

    def matrix(self) -> Block:
        """All rows in one block, in the order of ``blocks``."""
        if not self.blocks:
            none = np.zeros(0)
            return block(self.name, none, none, none, none, none)
        shift = np.cumsum([0] + [b.values.size for b in self.blocks])
        starts = [b.starts[:-1] + s for b, s in zip(self.blocks, shift, strict=False)]
        return Block(
            name=self.name,
            lower=np.concatenate([b.lower for b in self.blocks]),
            upper=np.concatenate([b.upper for b in self.blocks]),
            starts=np.concatenate([*starts, [shift[-1]]]).astype(np.int64),
            columns=np.concatenate([b.columns for b in self.blocks]).astype(np.int64),
            values=np.concatenate([b.values for b in self.blocks]),
        )

    def value(self, point: FloatArray) -> float:
        """Objective at ``point``, recomputed: never what a solver says."""
        return float(self.offset + self.cost @ point)

    def with_blocks(self, *more: Block) -> Milp:
        """The same program with further rows."""
        return replace(self, blocks=self.blocks + more)
