"""Schedulers side by side, and how far each is above the bound."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from optsched.bounds import Bound, lower_bound
from optsched.check import require_valid
from optsched.instance import Instance
from optsched.result import relative_gap
from optsched.schedule import Schedule
from optsched.simulate import Metrics, measure, simulate
from optsched.warmstart import scheduler, schedulers

# Asked for the best schedule known even when the user asks for others: the clairvoyant rules that
# were never far behind the best one on any workload of `benchmarks/`.
STRONG = ("mc-fcfs", "mc-sf", "sarathi-ef", "sarathi-pc-ef", "vllm-hy-ef")


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

    ``finished`` is False if the comparison was interrupted; what it holds is valid all the same.
    """

    candidates: tuple[Candidate, ...]
    best: Candidate | None
    bound: Bound
    wall_s: float
    finished: bool

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
    report: Callable[[str], None] = lambda _: None,
) -> Comparison:
    """Bound ``instance`` and evaluate the schedulers ``names`` beside the ``given`` candidates.

    The best schedule known is the best of those and of the rules in :data:`STRONG`. A keyboard
    interrupt ends the comparison with what there is by then.

    Parameters
    ----------
    report : callable
        Told what is being done now.
    """
    begin = time.perf_counter()
    report("bound")
    bound = lower_bound(instance)
    asked = expand(names)
    found = {candidate.name: candidate for candidate in given}
    shown = list(found)
    finished = True
    try:
        for name in dict.fromkeys([*asked, *STRONG]):
            report(f"scheduler {name}")
            found[name] = evaluate(instance, name)
    except KeyboardInterrupt:
        finished = False
    shown += [name for name in asked if name in found]
    return Comparison(
        candidates=tuple(found[name] for name in shown),
        best=min(found.values(), key=lambda candidate: candidate.value, default=None),
        bound=bound,
        wall_s=time.perf_counter() - begin,
        finished=finished,
    )
