"""A schedule with what it is worth: checked, timed and measured."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from optsched.check import require_valid
from optsched.instance import Instance
from optsched.objective import Objective
from optsched.schedule import Schedule
from optsched.simulate import Metrics, measure, objective_value, simulate
from optsched.solve.known import PORTFOLIOS
from optsched.warmstart import scheduler
from optsched.warmstart.clock_portfolio import best_for
from optsched.warmstart.portfolio import LookAheadScheduler


@dataclass(frozen=True, kw_only=True, eq=False)
class Candidate:
    """A valid schedule, where it comes from, its value by every objective, its metrics, and the
    time it took."""

    name: str
    schedule: Schedule
    values: Mapping[Objective, float]
    metrics: Metrics
    wall_s: float

    @property
    def makespan_s(self) -> float:
        """End of the last batch, seconds from the earliest arrival."""
        return self.values[Objective.MAKESPAN]


def assess(instance: Instance, schedule: Schedule, name: str, wall_s: float = 0.0) -> Candidate:
    """Candidate of a schedule, checked and timed.

    Raises
    ------
    ScheduleError
        The schedule breaks a rule.
    """
    require_valid(instance, schedule)
    trace = simulate(instance, schedule)
    return Candidate(
        name=name, schedule=schedule, wall_s=wall_s, metrics=measure(instance, schedule, trace),
        values={objective: objective_value(instance, trace, objective) for objective in Objective},
    )  # fmt: skip


def evaluate(instance: Instance, name: str, time_limit_s: float | None = None) -> Candidate:
    """Run the scheduler ``name`` (or ``file.py:function``, or a portfolio of an objective); raises
    as :func:`assess`.

    Parameters
    ----------
    time_limit_s : float, optional
        Of a scheduler that tries many schedules.
    """
    begin = time.perf_counter()
    if name in PORTFOLIOS:
        deadline = None if time_limit_s is None else time.monotonic() + time_limit_s
        schedule = best_for(instance, PORTFOLIOS[name], deadline=deadline)
        return assess(instance, schedule, name, time.perf_counter() - begin)
    rule = scheduler(name)
    if isinstance(rule, LookAheadScheduler):
        schedule = rule(instance, time_limit_s=time_limit_s)
    else:
        schedule = rule(instance)
    wall_s = time.perf_counter() - begin
    return assess(instance, schedule, name, wall_s)


def best_of(candidates: Iterable[Candidate], objective: Objective) -> Candidate | None:
    """The candidate with the best value; the first of equally good ones."""
    return min(candidates, key=lambda c: objective.loss(c.values[objective]), default=None)
