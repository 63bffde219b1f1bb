"""A back end that errs is caught: its second answer is used, or nothing."""

from __future__ import annotations

import numpy as np
import pytest

from optsched.errors import SolverError
from optsched.model.milp import FloatArray
from optsched.solvers.outcome import Outcome, SolverOptions, Termination
from optsched.solvers.verify import Answer, broken_rule, settle
from tests.solvers.programs import INFINITY, dense, program

MILP = program([-10, -13, -7], dense([[3, 4, 2]], -INFINITY, 6, name="memory"))
BEST = np.array([0.0, 1.0, 1.0])
TRUTH = Answer(termination=Termination.FINISHED, point=BEST, value=-20.0, bound=-20.0)


def settled(
    first: Answer, second: Answer = TRUTH, start: FloatArray | None = None
) -> tuple[Outcome, int]:
    asked = []

    def careful(options: SolverOptions) -> Answer:
        asked.append(options)
        return second

    outcome = settle(MILP, SolverOptions(), start, "fake", lambda options: first, careful)
    return outcome, len(asked)


def test_a_true_answer_is_passed_on() -> None:
    outcome, asked = settled(TRUTH)
    assert asked == 0
    assert outcome.termination is Termination.FINISHED
    assert np.array_equal(outcome.point, BEST)
    assert outcome.bound == -20


LIES = {
    "objective": Answer(termination=Termination.FINISHED, point=BEST, value=-21.0, bound=-21.0),
    "rows": Answer(termination=Termination.FINISHED, point=np.ones(3), value=-30.0, bound=-30.0),
    "bounds": Answer(termination=Termination.FINISHED, point=np.array([2.0, 0, 0]), bound=-20.0),
    "bound": Answer(termination=Termination.FINISHED, point=BEST, value=-20.0, bound=-19.0),
    "infeasible": Answer(termination=Termination.INFEASIBLE),
    "failed": Answer(termination=Termination.FAILED, message="numerical trouble"),
    "length": Answer(termination=Termination.FINISHED, point=np.array([0.0, 1, np.nan])),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_asked_again(lie: str) -> None:
    outcome, asked = settled(LIES[lie])
    assert asked == 1
    assert np.array_equal(outcome.point, BEST)
    assert outcome.bound == -20
    assert "second answer" in outcome.message


@pytest.mark.parametrize("lie", ["objective", "rows", "bounds", "bound", "length"])
def test_two_lies_are_an_error(lie: str) -> None:
    with pytest.raises(SolverError, match="cannot be trusted"):
        settled(LIES[lie], LIES[lie])


def test_infeasible_needs_two_votes() -> None:
    outcome, asked = settled(LIES["infeasible"], LIES["infeasible"])
    assert asked == 1
    assert outcome.termination is Termination.INFEASIBLE


def test_infeasible_with_a_feasible_start_is_a_lie() -> None:
    with pytest.raises(SolverError, match="feasible start"):
        settled(LIES["infeasible"], LIES["infeasible"], start=np.zeros(3))


def test_a_start_is_never_lost() -> None:
    nothing = Answer(termination=Termination.TIME_LIMIT, bound=-25.0)
    outcome, _ = settled(nothing, start=BEST)
    assert np.array_equal(outcome.point, BEST)
    worse = Answer(termination=Termination.TIME_LIMIT, point=np.zeros(3), value=0.0, bound=-25.0)
    outcome, _ = settled(worse, start=BEST)
    assert np.array_equal(outcome.point, BEST)
    assert outcome.bound == -25
    assert outcome.termination is Termination.TIME_LIMIT


def test_a_start_refutes_a_bound() -> None:
    wrong = Answer(termination=Termination.FINISHED, point=np.zeros(3), value=0.0, bound=0.0)
    outcome, asked = settled(wrong, start=BEST)
    assert asked == 1
    assert outcome.bound == -20


def test_a_gap_that_remains_is_named() -> None:
    loose = Answer(termination=Termination.FINISHED, point=BEST, value=-20.0, bound=-20.5)
    outcome, _ = settled(loose)
    assert outcome.termination is Termination.GAP_REACHED


def test_nearly_integer_points_are_rounded() -> None:
    near = Answer(
        termination=Termination.FINISHED, point=BEST + 1e-7, value=-20.000003, bound=-20.000003
    )
    outcome, asked = settled(near)
    assert asked == 0
    assert np.array_equal(outcome.point, BEST)


def test_rounding_that_breaks_a_row_is_repaired_by_the_continuous_columns() -> None:
    milp = program(
        [1, 1000.0], dense([[1, -1e6]], -INFINITY, 0), upper=[10, 1], integer=[False, True],
        lower=[0.5, 0],
    )  # fmt: skip
    cheat = Answer(termination=Termination.FINISHED, point=np.array([0.5, 5e-7]), bound=0.5)
    truth = Answer(termination=Termination.FINISHED, point=np.array([0.5, 1.0]), bound=1000.5)
    outcome = settle(milp, SolverOptions(), None, "fake", lambda o: cheat, lambda o: truth)
    assert np.array_equal(outcome.point, [0.5, 1.0])


def test_broken_rule_names_the_worst() -> None:
    assert broken_rule(MILP, BEST) is None
    assert broken_rule(MILP, np.ones(3)) == "row 0 of memory broken by 3"
    assert broken_rule(MILP, np.array([0.0, -2, 0])) == "bounds of column x_1 broken by 2"
