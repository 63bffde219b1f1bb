"""Rows of one family from whole index arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optsched.model.milp import Block, FloatArray, IntArray, block

Term = tuple[IntArray, ArrayLike]

_MOST_ENTRIES = 50_000  # of rows that sum over all batches, for one request or arrival


def rows(
    name: str,
    shape: tuple[int, ...],
    *terms: Term,
    lower: ArrayLike = -math.inf,
    upper: ArrayLike = math.inf,
) -> Block:
    """Rows ``lower <= sum of terms <= upper``, one per index of ``shape``.

    A term is (column numbers, coefficients): column numbers of ``shape``, or of ``shape`` with
    further axes, which are summed over; coefficients broadcast against them. Entries of -1 stand
    for no column and count as 0. Rows without any column are left out.
    """
    numbers = np.arange(math.prod(shape)).reshape(shape)
    row_parts, column_parts, value_parts = [], [], []
    for columns, coefficients in terms:
        further = (1,) * (columns.ndim - len(shape))
        at = np.broadcast_to(numbers.reshape(shape + further), columns.shape)
        value = np.broadcast_to(np.asarray(coefficients, dtype=np.float64), columns.shape)
        has = columns >= 0
        row_parts.append(at[has])
        column_parts.append(columns[has])
        value_parts.append(value[has])
    used, row = np.unique(np.concatenate(row_parts), return_inverse=True)
    low, high = (_bound(bound, shape)[used] for bound in (lower, upper))
    return block(name, row, np.concatenate(column_parts), np.concatenate(value_parts), low, high)


def _bound(bound: ArrayLike, shape: tuple[int, ...]) -> FloatArray:
    return np.broadcast_to(np.asarray(bound, dtype=np.float64), shape).ravel()


def join(name: str, blocks: Sequence[Block]) -> Block:
    """The rows of several blocks as one family; there may be none."""
    if not blocks:
        return block(name, [], [], [], np.zeros(0), np.zeros(0))
    shift = np.cumsum([0] + [part.values.size for part in blocks])
    starts = [part.starts[:-1] + s for part, s in zip(blocks, shift, strict=False)]
    return Block(
        name=name,
        lower=np.concatenate([part.lower for part in blocks]),
        upper=np.concatenate([part.upper for part in blocks]),
        starts=np.concatenate([*starts, shift[-1:]]).astype(np.int64),
        columns=np.concatenate([part.columns for part in blocks]),
        values=np.concatenate([part.values for part in blocks]),
    )


def over_requests(index: IntArray) -> IntArray:
    """``(requests, batches)`` or ``(requests, k, batches)`` as ``(batches, all the rest)``, to sum
    over requests."""
    return np.moveaxis(index, -1, 0).reshape(index.shape[-1], -1)


def up_to(index: IntArray, last: IntArray) -> IntArray:
    """``(.., batches)`` as ``(last.size, all the rest x batches)``: the entries of all batches up
    to each of ``last``, to sum over."""
    batches = index.shape[-1]
    before = (np.arange(batches) <= last[:, None])[:, None, :]
    return np.where(before, index.reshape(1, -1, batches), -1).reshape(last.size, -1)


def batches_for_sums(batches: int, columns: int) -> IntArray:
    """For which batches to state what is summed over ``columns`` columns in each batch up to them.

    All of them, if that makes few entries; otherwise some at equal distances, down to the last one.
    """
    most = max(1, min(batches, _MOST_ENTRIES // max(1, batches * columns)))
    found: IntArray = batches - 1 - (np.arange(most)[::-1] * batches) // most
    return found


def only(index: IntArray, where: NDArray[np.bool_]) -> IntArray:
    """The column numbers where ``where`` says so, and no column elsewhere."""
    return np.where(where, index, -1)
