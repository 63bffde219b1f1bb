"""The cut loop keeps the optimum, raises the bound and drops rows that lie slack."""

from __future__ import annotations

import numpy as np
import pytest

from optsched.model.milp import Block, FloatArray, Milp, block
from optsched.solvers.tighten import near_tight, tighten
from tests.solvers.programs import INFINITY, dense, optimum, program

WEIGHTS = np.array([5.0, 5, 5, 7, 7, 9, 11, 11])
CAPACITY = 21.0
MILP = program(
    [-6, -5.5, -5, -8, -8.5, -10, -11, -12.5], dense([WEIGHTS.tolist()], -INFINITY, CAPACITY)
)


def covers(point: FloatArray) -> Block | None:
    """Violated minimal cover: the items of largest x, sum over C of x <= |C| - 1."""
    order = np.argsort(-point, kind="stable")
    count = int(np.searchsorted(np.cumsum(WEIGHTS[order]), CAPACITY, side="right")) + 1
    cover = order[:count]
    if point[cover].sum() <= count - 1 + 1e-6:
        return None
    return block("cover", np.zeros(count), cover, np.ones(count), [-INFINITY], [count - 1.0])


def useless(point: FloatArray) -> Block | None:
    """A violated cover and a row that is always slack."""
    cut = covers(point)
    if cut is None:
        return None
    slack = block("slack", np.zeros(8), np.arange(8), np.ones(8), [-INFINITY], [50.0])
    return block(
        "both",
        [*[0] * cut.columns.size, *[1] * 8],
        [*cut.columns, *slack.columns],
        [*cut.values, *slack.values],
        [-INFINITY] * 2,
        [cut.upper[0], 50.0],
    )


def test_bound_rises_and_the_optimum_stays() -> None:
    best = optimum(MILP)
    done = tighten(MILP, covers, rounds=30)
    assert done.before is not None
    assert done.bound is not None
    assert done.before < done.bound <= best + 1e-9
    assert done.kept > 0
    assert optimum(done.milp) == best
    assert done.milp.rows == MILP.rows + done.kept


def test_slack_rows_are_dropped() -> None:
    done = tighten(MILP, useless, rounds=30)
    assert done.separated >= 2 * (done.kept or 1)
    assert all(50.0 not in rows.upper for rows in done.milp.blocks[1:])


def test_rounds_are_limited_and_zero_changes_nothing() -> None:
    assert tighten(MILP, covers, rounds=1).rounds == 1
    nothing = tighten(MILP, covers, rounds=0)
    assert nothing.milp.rows == MILP.rows
    assert nothing.bound is None


def test_a_separator_that_stalls_is_stopped() -> None:
    calls = []

    def stubborn(point: FloatArray) -> Block:
        calls.append(1)
        return block("again", [0], [0], [1.0], [-INFINITY], [1.0])

    done = tighten(MILP, stubborn, rounds=1000)
    assert done.rounds == len(calls) + 1 == 4
    assert done.bound == pytest.approx(done.before)


def test_an_infeasible_relaxation_is_told() -> None:
    milp: Milp = program([1, 1], dense([[1, 1]], 3, 3))
    done = tighten(milp, lambda point: None, rounds=5)
    assert done.infeasible
    assert done.bound is None


def test_near_tight_keeps_violated_and_tight_rows() -> None:
    cut = dense([[1, 0], [0, 1], [1, 1]], -INFINITY, [1, 0.5, 3])
    assert near_tight(cut, np.array([1.0, 1.0])).upper.tolist() == [1, 0.5]
