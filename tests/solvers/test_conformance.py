"""What every installed back end must do."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import numpy as np
import pytest

from optsched.errors import OptschedError, SolverError
from optsched.model.milp import Milp
from optsched.solvers import available, cbc, solver
from optsched.solvers.outcome import Outcome, Progress, SolverOptions, Termination
from tests.solvers.programs import (
    INFINITY,
    batch_times,
    dense,
    market_split,
    optimum,
    program,
    random_integer_program,
)

INSTALLED = [name for name, version in available().items() if not version.startswith("not ")]
# Each run of these costs a process or a licence check, so they get fewer random programs.
SLOW = {"cpsat": 8, "pulp:CBC": 60, "pulp:GUROBI": 60}
INTERRUPTIBLE = [
    n
    for n in INSTALLED
    if n in ("highs", "cpsat", *(f"pulp:{f}" for f in ("CBC", "GUROBI", "HiGHS")))
]


@pytest.fixture(params=INSTALLED)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def solved(name: str, milp: Milp, **options: object) -> Outcome:
    return solver(name)(milp, SolverOptions(**options))  # type: ignore[arg-type]


def assert_optimal(milp: Milp, outcome: Outcome, best: float) -> None:
    # Solvers with relative feasibility tolerances leave a gap of some 1e-6.
    assert outcome.termination in (Termination.FINISHED, Termination.GAP_REACHED)
    assert outcome.point is not None
    assert all(rows.violation(outcome.point) <= 1e-6 for rows in milp.blocks)
    assert np.array_equal(outcome.point[milp.integer], np.rint(outcome.point[milp.integer]))
    assert np.all((outcome.point >= milp.lower) & (outcome.point <= milp.upper))
    size = abs(milp.offset) + np.abs(milp.cost) @ np.abs(outcome.point)
    assert milp.value(outcome.point) == pytest.approx(best, rel=1e-6, abs=1e-6 * size)
    if outcome.bound is not None:
        assert outcome.bound <= best + 1e-6 * size
        assert outcome.bound >= best - 3e-6 * size


def test_default_back_ends_are_installed() -> None:
    assert {"highs", "pulp:CBC"} <= set(INSTALLED)


def test_knapsack(name: str) -> None:
    milp = program([-10, -13, -7, -8], dense([[3, 4, 2, 3]], -INFINITY, 7), name="knapsack")
    assert_optimal(milp, solved(name, milp), -23)


def test_set_cover_with_a_solver_that_reports_a_bound(name: str) -> None:
    sets = [[1, 0, 1, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 0, 1]]
    milp = program([2, 3, 2.5, 1], dense(sets, 1, INFINITY))
    outcome = solved(name, milp)
    assert_optimal(milp, outcome, 5.5)
    if name in INTERRUPTIBLE:
        assert outcome.bound is not None


def test_equality_flow(name: str) -> None:
    # Two units from node 0 to node 3; arcs 01, 02, 12, 13, 23.
    balance = [[1, 1, 0, 0, 0], [-1, 0, 1, 1, 0], [0, -1, -1, 0, 1], [0, 0, 0, -1, -1]]
    milp = program(
        [1, 4, 1, 5, 1], dense(balance, [2, 0, 0, -2], [2, 0, 0, -2]), upper=[2, 2, 1, 2, 2]
    )
    assert_optimal(milp, solved(name, milp), 3 + 5)


def test_continuous_columns_without_bounds(name: str) -> None:
    # x_1 = |x_0 - 2.5| + ... : the nearest integers are 0.5 away; x_1 has no upper bound.
    milp = program(
        [0, 1],
        dense([[1, 1], [-1, 1]], [2.5, -2.5], INFINITY),
        lower=[0, -INFINITY],
        upper=[9, INFINITY],
        integer=[True, False],
    )
    outcome = solved(name, milp)
    assert_optimal(milp, outcome, 0.5)


def test_no_integer_columns(name: str) -> None:
    rows = dense([[1, 2], [3, 1]], -INFINITY, [4, 6])
    milp = program([-1, -1], rows, upper=9, integer=False, offset=1)
    assert_optimal(milp, solved(name, milp), 1 - 2.8)


def test_negative_integers_and_offset(name: str) -> None:
    milp = program([1.5, -1], dense([[1, -1]], -4, INFINITY), lower=-5, upper=5, offset=100.25)
    assert_optimal(milp, solved(name, milp), 100.25 - 7.5 + 1)


def test_two_sided_and_empty_rows(name: str) -> None:
    rows = dense([[2, 3], [0, 0], [1, -1]], [7, -1, -1], [8, 0, 1], name="ranges")
    milp = program([1, 1], rows, upper=9)
    assert_optimal(milp, solved(name, milp), 3)


def test_no_rows(name: str) -> None:
    milp = program([1, -2], upper=[3, 4])
    assert_optimal(milp, solved(name, milp), -8)


def test_infeasible_by_parity(name: str) -> None:
    milp = program([1, 1], dense([[2, 2]], 3, 3), upper=9)
    outcome = solved(name, milp)
    assert outcome.termination is Termination.INFEASIBLE
    assert outcome.point is None
    assert outcome.bound is None
    assert "second answer" in outcome.message
    if name != "highs":
        assert "then HiGHS" in outcome.solver


def test_infeasible_by_an_empty_row(name: str) -> None:
    milp = program([1, 1], dense([[1, 1], [0, 0]], 1, 2))
    assert solved(name, milp).termination is Termination.INFEASIBLE


def test_unbounded_is_refused(name: str) -> None:
    milp = program([-1, 1], dense([[1, -1]], -INFINITY, INFINITY), upper=INFINITY)
    with pytest.raises(OptschedError, match=r"no optimum|no finite bounds"):
        solved(name, milp)


def test_one_column_only(name: str) -> None:
    milp = program([2], dense([[3]], 4, INFINITY), upper=5)
    assert_optimal(milp, solved(name, milp), 4)


def test_stops_at_the_gap(name: str) -> None:
    rng = np.random.default_rng(2)
    weights = rng.integers(1, 90, (6, 40)).astype(float)
    milp = program(
        (-rng.integers(10, 99, 40)).tolist(),
        dense(weights.tolist(), -INFINITY, weights.sum(1) // 3),
    )
    outcome = solved(name, milp, relative_gap=0.2)
    assert outcome.termination in (Termination.FINISHED, Termination.GAP_REACHED)
    assert outcome.point is not None
    assert all(rows.violation(outcome.point) == 0 for rows in milp.blocks)
    if name in INTERRUPTIBLE:
        assert outcome.bound is not None
        value = milp.value(outcome.point)
        assert outcome.bound <= value <= outcome.bound + 0.2 * abs(value) + 1e-6


def test_start_survives_the_time_limit(name: str) -> None:
    milp, start = market_split()
    outcome = solver(name)(milp, SolverOptions(time_limit_s=0.2), start)
    assert outcome.termination is Termination.TIME_LIMIT
    assert outcome.point is not None
    assert milp.value(outcome.point) <= milp.value(start)
    assert outcome.bound is None or outcome.bound <= milp.value(outcome.point)


def test_optimal_start_is_accepted(name: str) -> None:
    milp = program([-10, -13, -7, -8], dense([[3, 4, 2, 3]], -INFINITY, 7))
    outcome = solver(name)(milp, SolverOptions(), np.array([1.0, 1.0, 0.0, 0.0]))
    assert_optimal(milp, outcome, -23)


def test_infeasible_start_is_refused(name: str) -> None:
    milp = program([-10, -13], dense([[3, 4]], -INFINITY, 5, name="memory"))
    with pytest.raises(SolverError, match="row 0 of memory broken by 2"):
        solver(name)(milp, SolverOptions(), np.array([1.0, 1.0]))


def test_same_seed_same_point(name: str) -> None:
    milp = random_integer_program(np.random.default_rng(3))
    first, second = (solved(name, milp, seed=5) for _ in range(2))
    assert np.array_equal(first.point, second.point)
    assert first.bound == second.bound


def test_random_integer_programs(name: str) -> None:
    rng = np.random.default_rng(20)
    without = 0
    for _ in range(SLOW.get(name, 250)):
        milp = random_integer_program(rng)
        best, outcome = optimum(milp), solved(name, milp)
        if best is None:
            without += 1
            assert outcome.termination is Termination.INFEASIBLE
        else:
            assert_optimal(milp, outcome, best)
    assert without > 0 or name in SLOW


def test_random_batch_times(name: str) -> None:
    rng = np.random.default_rng(21)
    for _ in range(min(SLOW.get(name, 60), 60)):
        milp, best = batch_times(rng)
        assert_optimal(milp, solved(name, milp), best)


@pytest.mark.parametrize("name", INTERRUPTIBLE)
def test_stop_returns_the_best_found(name: str) -> None:
    milp, start = market_split()
    begun = threading.Event()
    threading.Timer(0.5, begun.set).start()
    options = SolverOptions(stop=begun.is_set, time_limit_s=120)
    outcome = solver(name)(milp, options, start)
    assert outcome.termination is Termination.INTERRUPTED
    assert outcome.point is not None
    assert milp.value(outcome.point) <= milp.value(start)
    assert outcome.bound is None or outcome.bound <= milp.value(outcome.point)


@pytest.mark.parametrize("name", INTERRUPTIBLE)
def test_ctrl_c_returns_the_best_found(name: str) -> None:
    milp, start = market_split()
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    outcome = solver(name)(milp, SolverOptions(time_limit_s=120), start)
    assert outcome.termination is Termination.INTERRUPTED
    assert outcome.point is not None


def test_ctrl_c_during_a_run_that_ends_at_once_is_not_lost(name: str) -> None:
    def stop() -> bool:
        os.kill(os.getpid(), signal.SIGINT)
        return False

    milp = program([-10, -13, -7, -8], dense([[3, 4, 2, 3]], -INFINITY, 7))
    outcome = solver(name)(milp, SolverOptions(stop=stop), np.zeros(4))
    assert outcome.termination is Termination.INTERRUPTED
    assert outcome.point is not None
    assert milp.value(outcome.point) <= 0
    assert outcome.bound is None or outcome.bound <= -23 + 1e-6


@pytest.mark.parametrize("name", [n for n in INTERRUPTIBLE if n != "pulp:HiGHS"])
def test_progress_is_told_in_the_callers_thread(name: str) -> None:
    milp, _ = market_split(columns=20, rows=2)
    told: list[tuple[Progress, int]] = []
    options = SolverOptions(
        report=lambda progress: told.append((progress, threading.get_ident())), time_limit_s=30
    )
    outcome = solver(name)(milp, options)
    assert outcome.point is not None
    assert {thread for _, thread in told} == {threading.get_ident()}
    values = [progress.value for progress, _ in told if progress.value is not None]
    assert values
    assert min(values) >= milp.value(outcome.point) - 1e-6
    for progress, _ in told:
        if progress.point is not None:
            assert progress.value == pytest.approx(milp.value(progress.point), abs=1e-6)
        if progress.bound is not None:
            assert progress.bound <= milp.value(outcome.point) + 1e-6


def test_a_cbc_that_does_not_look_at_the_clock_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deaf = tmp_path / "cbc"
    deaf.write_text("#!/bin/sh\ntest $1 = -exit && exit\ntrap '' INT\nexec sleep 600\n")
    deaf.chmod(0o755)
    monkeypatch.setattr(cbc, "GRACE_S", 0.1)
    milp, start = market_split(columns=6, rows=1)
    outcome = cbc.cbc(str(deaf), milp, SolverOptions(time_limit_s=0.1), start)
    assert outcome.termination is Termination.TIME_LIMIT
    assert outcome.point is not None
    assert outcome.bound is None


def test_what_report_raises_reaches_the_caller() -> None:
    def report(progress: Progress) -> None:
        raise RuntimeError("the caller's own")

    milp, _ = market_split()
    with pytest.raises(RuntimeError, match="the caller's own"):
        solver("highs")(milp, SolverOptions(report=report, time_limit_s=60))


def test_threads_may_change_between_runs() -> None:
    milp = random_integer_program(np.random.default_rng(3))
    most = min(2, os.cpu_count() or 1)
    values = {milp.value(solved("highs", milp, threads=k).point) for k in (1, most, 1)}
    assert len(values) == 1
