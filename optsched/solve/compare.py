"""Schedulers side by side, and how far each is above the bound."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from optsched.bounds import BestBound, Bound, best_bound
from optsched.check import require_valid
from optsched.errors import OptschedError
from optsched.instance import Instance
from optsched.result import relative_gap
from optsched.schedule import Schedule
from optsched.simulate import Metrics, measure, simulate
from optsched.warmstart import scheduler, schedulers
from optsched.warmstart.portfolio import PORTFOLIO

# Asked for the best schedule known even when the user asks for others: quickly, the rules that were
# never far behind; else the portfolio of all of them.
_KNOWN = {"quick": ("mc-fcfs", "infermax", "sarathi-pc-ef"), "normal": (PORTFOLIO,)}


@dataclass(frozen=True, kw_only=True, eq=False)
class Candidate:
    """A valid schedule, where it comes from, its makespan and metrics, and the time it took."""

    name: str
    schedule: Schedule
    value: float
    metrics: Metrics
    wall_s: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison:
    """Candidates in the order asked for, the best schedule known, and the bound.

    ``failures`` holds what schedulers that were asked for failed with.
    ``finished`` is False if the comparison was interrupted; what it holds is valid all the same.
    """

    candidates: tuple[Candidate, ...]
    best: Candidate | None
    proven: BestBound
    wall_s: float
    finished: bool
    failures: tuple[OptschedError, ...] = ()

    @property
    def bound(self) -> Bound:
        """The best bound."""
        return self.proven.bound

    def above_bound(self, candidate: Candidate) -> float | None:
        """(value - bound) / bound."""
        return relative_gap(candidate.value, self.bound.value_s)


def assess(instance: Instance, schedule: Schedule, name: str, wall_s: float = 0.0) -> Candidate:
    """Candidate of a schedule, checked and timed.

    Raises
    ------
    ScheduleError
        The schedule breaks a rule.
    """
    require_valid(instance, schedule)
    trace = simulate(instance, schedule)
    metrics = measure(instance, schedule, trace)
    return Candidate(
        name=name, schedule=schedule, value=trace.makespan_s, metrics=metrics, wall_s=wall_s
    )


def evaluate(instance: Instance, name: str) -> Candidate:
    """Run the scheduler ``name`` (or ``file.py:function``); raises as :func:`assess`."""
    rule = scheduler(name)
    begin = time.perf_counter()
    schedule = rule(instance)
    wall_s = time.perf_counter() - begin
    return assess(instance, schedule, name, wall_s)


def expand(names: Iterable[str]) -> list[str]:
    """Scheduler names with ``all`` replaced by every built-in one, each only once."""
    every = [name for asked in names for name in (schedulers() if asked == "all" else [asked])]
    return list(dict.fromkeys(every))


def compare(
    instance: Instance,
    names: Iterable[str],
    *,
    given: Iterable[Candidate] = (),
    effort: str = "normal",
    time_limit_s: float | None = None,
    report: Callable[[str], None] = lambda _: None,
) -> Comparison:
    """Evaluate the schedulers ``names`` beside the ``given`` candidates, and bound ``instance``.

    The best schedule known is the best of those and, by ``effort``, of a few quick rules or of
    the portfolio ``best``. A keyboard interrupt ends the comparison with what there is by then.

    Parameters
    ----------
    effort, time_limit_s
        Of the bound, see :func:`optsched.bounds.best_bound`.
    report : callable
        Told what is being done now.
    """
    begin = time.perf_counter()
    asked = expand(names)
    for name in asked:
        scheduler(name)  # an unknown name is refused before anything is run
    report("bound")
    proven = best_bound(instance, effort="quick")
    found = {candidate.name: candidate for candidate in given}
    shown = list(found)
    known = () if instance.has_calls else _KNOWN.get(effort, _KNOWN["normal"])
    finished, failures = True, []
    try:
        for name in dict.fromkeys([*asked, *known]):
            report(f"scheduler {name}")
            try:
                found[name] = evaluate(instance, name)
            except OptschedError as error:
                failures.append(error)
        least = min((candidate.value for candidate in found.values()), default=None)
        report(f"bound, {effort} effort")
        proven = best_bound(instance, effort=effort, time_limit_s=time_limit_s, target_s=least)
    except KeyboardInterrupt:
        finished = False
    shown += [name for name in asked if name in found]
    return Comparison(
        candidates=tuple(found[name] for name in shown),
        best=min(found.values(), key=lambda candidate: candidate.value, default=None),
        proven=proven,
        wall_s=time.perf_counter() - begin,
        finished=finished,
        failures=tuple(failures),
    )
