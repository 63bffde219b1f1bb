"""One stage: build, tighten, solve, decode, check, re-time, and what that proves."""

from __future__ import annotations

import math
import time

from optsched.check import check
from optsched.errors import OptschedError, SolverError, UnsupportedError
from optsched.model.milp import FloatArray
from optsched.schedule import Schedule
from optsched.simulate import objective_value, simulate
from optsched.solve.candidate import assess
from optsched.solve.plan import Stage
from optsched.solve.program import NoScheduleError, Program, program
from optsched.solve.search import Search
from optsched.solvers import solver
from optsched.solvers.outcome import Outcome, Progress, SolverOptions, Termination
from optsched.solvers.tighten import Tightened, tighten

_AGREE = 1e-6  # relative difference of one value summed up in two ways
_TIGHTEN_ROUNDS = 60
_TIGHTEN_SHARE = 1 / 3  # of the stage's time


def run_stage(search: Search, stage: Stage, time_limit_s: float) -> Outcome | None:
    """Solve ``stage`` within the limit and add to ``search`` what it found and proved.

    Returns the solver's outcome, or None if the root relaxation settled it or nothing was solved.
    A stage that does not apply (too large, no horizon) or fails (a solver that contradicts itself)
    is recorded as such: it takes nothing from what is known already.
    """
    begin = time.monotonic()
    try:
        return _run(search, stage, time_limit_s, begin)
    except NoScheduleError as none:
        bound = _take_bound(search, stage, none.cutoff, "limits and horizon")
        search.record(
            stage.name, begin, scope=stage.scope, bound=bound, termination="infeasible",
            note=none.message,
        )  # fmt: skip
        return None
    except (OptschedError, MemoryError) as error:
        note = error.message if isinstance(error, OptschedError) else "out of memory"
        ended = "skipped" if isinstance(error, UnsupportedError) else "failed"
        search.record(stage.name, begin, scope=stage.scope, termination=ended, note=note)
        return None


def _run(search: Search, stage: Stage, time_limit_s: float, begin: float) -> Outcome | None:
    search.tell(f"{stage.name}: building the program")
    ready = program(search, stage)
    tightened = _tighten(search, stage, ready, time_limit_s)
    bound = min(tightened.bound, ready.cutoff) if tightened.bound is not None else None
    outcome = None
    if not tightened.interrupted and not _settled(bound, ready.cutoff):
        left = time_limit_s - (time.monotonic() - begin)
        outcome = _solve(search, stage, ready, tightened, max(left, 0.1))
    value = None
    if outcome is not None:
        bound = _proven(outcome, ready.cutoff, bound)
        value = _take_point(search, stage, ready, outcome)
    name = outcome.solver if outcome else "linear relaxation with hull rows"
    shown = None if bound is None else _take_bound(search, stage, bound, name)
    termination = outcome.termination if outcome else Termination.FINISHED
    if tightened.interrupted:
        termination = Termination.INTERRUPTED
    search.interrupted |= termination is Termination.INTERRUPTED
    note = f"{tightened.milp.rows} rows, {tightened.milp.columns} columns"
    if tightened.kept:
        note += f", {tightened.kept} of them hull rows"
    search.record(
        stage.name, begin, scope=stage.scope, value=value, note=note, bound=shown,
        termination=termination.value,
    )  # fmt: skip
    return outcome


def _take_bound(search: Search, stage: Stage, bound: float, name: str) -> float | None:
    """Take a cost that no schedule of the stage's class is below, infinite if it has none; the
    objective's value that it is, if it is one."""
    if stage.scope == search.scope:
        if math.isfinite(bound):
            search.prove(search.cost(bound), f"{stage.name} formulation, {name}")
        else:
            search.infeasible = True
    return search.cost(bound) if math.isfinite(bound) else None


def _tighten(search: Search, stage: Stage, ready: Program, time_limit_s: float) -> Tightened:
    search.tell(f"{stage.name}: root relaxation")
    return tighten(
        ready.milp, ready.separate or (lambda _: None),
        rounds=_TIGHTEN_ROUNDS if ready.separate else 1,
        time_limit_s=_TIGHTEN_SHARE * time_limit_s, threads=search.options.threads,
        seed=search.options.seed,
    )  # fmt: skip


def _settled(bound: float | None, cutoff: float) -> bool:
    """Whether the relaxation already proves that nothing better than the cutoff exists."""
    return bound is not None and bound >= cutoff * (1 - 1e-9)


def _solve(
    search: Search, stage: Stage, ready: Program, tightened: Tightened, time_limit_s: float
) -> Outcome:
    counts_for_all = stage.scope == search.scope

    def report(progress: Progress) -> None:
        bound = progress.bound if counts_for_all and not stage.relaxed else None
        value = progress.value if not stage.relaxed else None
        search.tell(
            stage.name, value=None if value is None else search.cost(value),
            bound=None if bound is None else search.cost(bound),
        )  # fmt: skip

    return solver(search.options.solver)(
        tightened.milp,
        SolverOptions(
            time_limit_s=time_limit_s, relative_gap=search.options.relative_gap,
            seed=search.options.seed, threads=search.options.threads, report=report,
        ),
        ready.start,
    )  # fmt: skip


def _proven(outcome: Outcome, cutoff: float, relaxation: float | None) -> float | None:
    """Cost that no schedule of the stage's class is below; infinite if it has none."""
    if outcome.termination is Termination.INFEASIBLE:
        return cutoff  # confirmed by the back end: nothing fits in the horizon
    bounds = [b for b in (outcome.bound, relaxation) if b is not None]
    return min(max(bounds), cutoff) if bounds else None


def _take_point(search: Search, stage: Stage, ready: Program, outcome: Outcome) -> float | None:
    """Decode, check and re-time the point; offer its schedule; its value, if it is valid.

    Raises
    ------
    SolverError
        The program's price is not the schedule's cost: formulation and simulator contradict each
        other.
    """
    if outcome.point is None:
        return None
    schedule = ready.decode(outcome.point)
    price = _price(ready, schedule, outcome.point)
    if check(search.instance, schedule):
        if stage.relaxed:
            return None  # rounded pages and limits on requests are not in the relaxation
        raise SolverError(f"{stage.name}: the decoded schedule breaks a rule: this is a bug")
    _require_price(search, ready, stage, schedule, price)
    candidate = assess(search.instance, schedule, stage.name, outcome.wall_s)
    search.offer(candidate)
    return candidate.values[search.objective]


def _price(ready: Program, schedule: Schedule, point: FloatArray) -> float:
    """What the program charges for the schedule: a point may hold it with slack in its times."""
    price = ready.milp.value(point)
    try:
        return min(price, ready.milp.value(ready.encode(schedule)))
    except OptschedError:
        return price  # the schedule costs more than the cutoff: only this point holds it


def _require_price(
    search: Search, ready: Program, stage: Stage, schedule: Schedule, price: float
) -> None:
    """What the program charges is what the schedule costs, or, for a relaxation, at most that.

    An SLO that is missed by less than a solver's tolerance counts as met in the program only. A
    schedule beyond the cutoff may only be held with slack in its times, at a higher price.
    """
    objective = search.objective
    value = objective_value(ready.priced, simulate(ready.priced, schedule), objective)
    takes = search.cost(value)
    size = ready.priced.total_weight if objective.maximised else takes
    low = takes < ready.cutoff and price - takes > _AGREE * size
    high = takes - price > _AGREE * size and not stage.relaxed and not objective.maximised
    if low or high:
        raise SolverError(
            f"{stage.name}: the program prices its schedule at {price!r} {objective.unit}, "
            f"but it costs {takes!r}: this is a bug"
        )
