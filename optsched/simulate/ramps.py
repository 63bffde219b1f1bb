"""Sums over runs for every batch, by difference arrays.

A run marks its value where it begins and takes it back after its end; the cumulative sum of the
marks is then the sum over all runs that cover a batch. Batches are counted from 0 here.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]


def constant(first: IntArray, batches: IntArray, value: IntArray, size: int) -> IntArray:
    """Sum of ``value`` over the runs that cover each batch, shape ``(size,)``."""
    marks = np.zeros(size + 1, dtype=np.int64)
    np.add.at(marks, first, value)
    np.subtract.at(marks, first + batches, value)
    return np.cumsum(marks[:-1])


def linear(
    first: IntArray, batches: IntArray, value: IntArray, slope: IntArray, size: int
) -> IntArray:
    """Sum of ``value + slope * (batch - first)`` over the runs that cover each batch."""
    intercept = constant(first, batches, value - slope * first, size)
    return intercept + np.arange(size) * constant(first, batches, slope, size)


def periodic(first: IntArray, count: IntArray, period: int, size: int) -> IntArray:
    """Number of runs that mark each batch, when a run marks first, first + period, ...,
    ``count`` times; shape ``(size,)``."""
    rows = -(-size // period) + 1
    marks = np.zeros((rows + 1) * period, dtype=np.int64)
    np.add.at(marks, first, 1)
    np.subtract.at(marks, first + count * period, 1)
    return marks.reshape(-1, period).cumsum(axis=0).ravel()[:size]
