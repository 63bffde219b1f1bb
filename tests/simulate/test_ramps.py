from __future__ import annotations

import numpy as np

from optsched.simulate.ramps import constant, linear, periodic


def test_constant_adds_a_value_to_the_batches_of_each_run() -> None:
    sums = constant(np.array([0, 1]), np.array([2, 3]), np.array([5, 7]), 5)
    assert sums.tolist() == [5, 12, 7, 7, 0]


def test_linear_grows_within_each_run() -> None:
    first, batches = np.array([1, 2]), np.array([3, 2])
    sums = linear(first, batches, np.array([10, 100]), np.array([1, 5]), 4)
    assert sums.tolist() == [0, 10, 11 + 100, 12 + 105]


def test_periodic_marks_every_so_many_batches() -> None:
    marks = periodic(np.array([1, 2, 4]), np.array([3, 2, 1]), 2, 7)
    assert marks.tolist() == [0, 1, 1, 1, 2, 1, 0]


def test_sums_over_no_runs_are_zero() -> None:
    none = np.zeros(0, dtype=np.int64)
    assert linear(none, none, none, none, 3).tolist() == [0, 0, 0]
    assert periodic(none, none, 4, 3).tolist() == [0, 0, 0]
