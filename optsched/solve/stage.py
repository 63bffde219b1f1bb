"""One stage: build, tighten, solve, decode, check, re-time, and what that proves."""

from __future__ import annotations

import time

from optsched.check import check
from optsched.errors import OptschedError, SolverError
from optsched.schedule import Schedule
from optsched.simulate import simulate
from optsched.solve.compare import assess
from optsched.solve.plan import Stage
from optsched.solve.program import Program, program
from optsched.solve.search import Search
from optsched.solvers import solver
from optsched.solvers.outcome import Outcome, Progress, SolverOptions, Termination
from optsched.solvers.tighten import Tightened, tighten

_AGREE = 1e-6  # relative difference of one makespan summed up in two ways
_TIGHTEN_ROUNDS = 60
_TIGHTEN_SHARE = 1 / 3  # of the stage's time


def run_stage(search: Search, stage: Stage, time_limit_s: float) -> Outcome | None:
    """Solve ``stage`` within the limit and add to ``search`` what it found and proved.

    Returns the solver's outcome, or None if the root relaxation settled it or nothing was solved.
    A stage that fails (too large, or a solver that contradicts itself) is recorded as such: it
    takes nothing from what is known already.
    """
    begin = time.monotonic()
    try:
        return _run(search, stage, time_limit_s, begin)
    except (OptschedError, MemoryError) as error:
        note = error.message if isinstance(error, OptschedError) else "out of memory"
        search.record(stage.name, begin, scope=stage.scope, termination="failed", note=note)
        return None


def _run(search: Search, stage: Stage, time_limit_s: float, begin: float) -> Outcome | None:
    search.tell(f"{stage.name}: building the program")
    ready = program(search, stage)
    tightened = _tighten(search, stage, ready, time_limit_s)
    bound = min(tightened.bound, ready.cutoff_s) if tightened.bound is not None else None
    outcome = None
    if not tightened.interrupted and not _settled(bound, ready.cutoff_s):
        left = time_limit_s - (time.monotonic() - begin)
        outcome = _solve(search, stage, ready, tightened, max(left, 0.1))
    value = None
    if outcome is not None:
        bound = _proven(outcome, ready.cutoff_s, bound)
        value = _take_point(search, stage, ready, outcome)
    if bound is not None and stage.scope == search.scope:
        name = outcome.solver if outcome else "linear relaxation with hull rows"
        search.prove(bound, f"{stage.name} formulation, {name}")
    search.interrupted |= tightened.interrupted or (
        outcome is not None and outcome.termination is Termination.INTERRUPTED
    )
    note = f"{tightened.milp.rows} rows, {tightened.milp.columns} columns"
    if tightened.kept:
        note += f", {tightened.kept} of them hull rows"
    search.record(
        stage.name, begin, scope=stage.scope, value=value, bound=bound, note=note,
        termination=outcome.termination.value if outcome else "finished",
    )  # fmt: skip
    return outcome


def _tighten(search: Search, stage: Stage, ready: Program, time_limit_s: float) -> Tightened:
    search.tell(f"{stage.name}: root relaxation")
    return tighten(
        ready.milp, ready.separate or (lambda _: None),
        rounds=_TIGHTEN_ROUNDS if ready.separate else 1,
        time_limit_s=_TIGHTEN_SHARE * time_limit_s, threads=search.options.threads,
        seed=search.options.seed,
    )  # fmt: skip


def _settled(bound: float | None, cutoff_s: float) -> bool:
    """Whether the relaxation already proves that nothing better than the cutoff exists."""
    return bound is not None and bound >= cutoff_s * (1 - 1e-9)


def _solve(
    search: Search, stage: Stage, ready: Program, tightened: Tightened, time_limit_s: float
) -> Outcome:
    counts_for_all = stage.scope == search.scope

    def report(progress: Progress) -> None:
        bound = progress.bound if counts_for_all and not stage.relaxed else None
        value = progress.value if not stage.relaxed else None
        search.tell(stage.name, value=value, bound=bound)

    return solver(search.options.solver)(
        tightened.milp,
        SolverOptions(
            time_limit_s=time_limit_s, relative_gap=search.options.relative_gap,
            seed=search.options.seed, threads=search.options.threads, report=report,
        ),
        ready.start,
    )  # fmt: skip


def _proven(outcome: Outcome, cutoff_s: float, relaxation: float | None) -> float | None:
    """Bound over the stage's class: no schedule in it is shorter."""
    if outcome.termination is Termination.INFEASIBLE:
        return cutoff_s  # confirmed by the back end: nothing fits in the horizon
    bounds = [b for b in (outcome.bound, relaxation) if b is not None]
    return min(max(bounds), cutoff_s) if bounds else None


def _take_point(search: Search, stage: Stage, ready: Program, outcome: Outcome) -> float | None:
    """Decode, check and re-time the point; offer its schedule; its makespan, if it is valid.

    Raises
    ------
    SolverError
        The program's price is not the makespan: formulation and simulator contradict each other.
    """
    if outcome.point is None:
        return None
    schedule = ready.decode(outcome.point)
    price = ready.milp.value(outcome.point)
    if check(search.instance, schedule):
        if stage.relaxed:
            return None  # rounded pages and limits on requests are not in the relaxation
        raise SolverError(f"{stage.name}: the decoded schedule breaks a rule: this is a bug")
    _require_price(ready, stage, schedule, price)
    candidate = assess(search.instance, schedule, stage.name, outcome.wall_s)
    search.offer(candidate)
    return candidate.value


def _require_price(ready: Program, stage: Stage, schedule: Schedule, price: float) -> None:
    """What the program charges is what the schedule takes, or, for a relaxation, at most that."""
    takes = simulate(ready.priced, schedule).makespan_s
    low = price - takes > _AGREE * takes
    high = takes - price > _AGREE * takes and not stage.relaxed
    if low or high:
        raise SolverError(
            f"{stage.name}: the program prices its schedule at {price!r} s, "
            f"but it takes {takes!r} s: this is a bug"
        )
