"""The cut loop keeps the optimum, raises the bound and drops rows that lie slack."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

from optsched.errors import InvalidInputError
from optsched.model.milp import Block, FloatArray, Milp, block
from optsched.solvers.lp import LinearProgram, solve_lp
from optsched.solvers.outcome import SolverOptions, Termination
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


def interrupt() -> bool:
    os.kill(os.getpid(), signal.SIGINT)
    return False


def test_ctrl_c_between_two_relaxations_is_not_lost() -> None:
    def separate(point: FloatArray) -> Block | None:
        interrupt()
        return covers(point)

    done = tighten(MILP, separate, rounds=30)
    assert done.interrupted
    assert done.rounds == 1
    assert done.bound == done.before


def test_ctrl_c_while_rows_are_priced_is_not_lost() -> None:
    def separate(point: FloatArray) -> Block | None:
        interrupt()
        assert solve_lp(MILP).point is not None  # not the wish of this program alone
        return None

    assert tighten(MILP, separate, rounds=30).interrupted


def test_ctrl_c_during_a_relaxation_that_ends_at_once_is_not_lost() -> None:
    # The wish comes with the first question whether there is one, and the answer is no.
    done = tighten(MILP, covers, rounds=30, stop=interrupt)
    assert done.interrupted
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupted_linear_program_says_so_and_keeps_its_optimum() -> None:
    asked: list[int] = []

    def stop() -> bool:
        asked.append(1)
        return len(asked) > 1  # after the only question that a short run asks

    answer = LinearProgram(MILP).solve(SolverOptions(stop=stop))
    assert answer.termination is Termination.INTERRUPTED
    assert answer.bound is None or answer.bound <= optimum(MILP) + 1e-9


def test_without_a_wish_nothing_is_interrupted() -> None:
    assert not tighten(MILP, covers, rounds=30).interrupted
    assert not tighten(MILP, covers, rounds=30, stop=lambda: False).interrupted


def test_more_threads_than_processors_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="threads: got 100000"):
        tighten(MILP, covers, rounds=1, threads=100_000)
