"""Schedulers side by side, and how far each is from the bound, by every objective."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from optsched.errors import OptschedError
from optsched.instance import Instance
from optsched.objective import Objective
from optsched.result import relative_gap
from optsched.solve.candidate import Candidate, assess, best_of, evaluate
from optsched.solve.known import known_schedules
from optsched.solve.proven import Proven, prove
from optsched.warmstart import scheduler, schedulers
from optsched.warmstart.portfolio import StoppedEarly


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison:
    """Candidates in the order asked for, the best schedule known, and the bounds.

    Parameters
    ----------
    objective : Objective
        What ``best`` is the best by.
    proven : dict of Objective to Proven
        Bounds of every objective: of ``objective`` with the effort asked for, of others quick.
    failures : tuple of OptschedError
        What schedulers that were asked for failed with.
    finished : bool
        False if the comparison was interrupted; what it holds is valid all the same.
    """

    objective: Objective
    candidates: tuple[Candidate, ...]
    best: Candidate | None
    proven: Mapping[Objective, Proven]
    wall_s: float
    finished: bool
    failures: tuple[OptschedError, ...] = ()

    @property
    def bound(self) -> Proven:
        """The bound of the objective."""
        return self.proven[self.objective]

    def gap(self, candidate: Candidate, objective: Objective | None = None) -> float | None:
        """How far a candidate is from the bound, see :func:`optsched.result.relative_gap`."""
        by = objective or self.objective
        if by not in self.proven:
            return None
        return relative_gap(candidate.values[by], self.proven[by].value, by)


def expand(names: Iterable[str]) -> list[str]:
    """Scheduler names with ``all`` replaced by every built-in one, each only once."""
    every = [name for asked in names for name in (schedulers() if asked == "all" else [asked])]
    return list(dict.fromkeys(every))


def compare(
    instance: Instance,
    names: Iterable[str],
    *,
    objective: Objective = Objective.MAKESPAN,
    given: Iterable[Candidate] = (),
    effort: str = "normal",
    time_limit_s: float | None = None,
    report: Callable[[str], None] = lambda _: None,
) -> Comparison:
    """Evaluate the schedulers ``names`` beside the ``given`` candidates, and bound ``instance``.

    The best schedule known is the best of those and, by ``effort``, of a few quick rules or of
    every one that is known to be good for the objective. A keyboard interrupt ends the comparison
    with what there is by then.

    Parameters
    ----------
    effort, time_limit_s
        Of the bound, see :func:`optsched.bounds.best_bound`; as much time again for a scheduler
        that tries many schedules.
    report : callable
        Told what is being done now.
    """
    begin = time.perf_counter()
    asked = expand(names)
    for name in asked:
        scheduler(name)  # an unknown name is refused before anything is run
    report("bound")
    proven = {objective: prove(instance, objective, effort="quick")}
    found = {candidate.name: candidate for candidate in given}
    shown = list(found)
    finished, failures = True, []
    try:
        for name in dict.fromkeys([*asked, *known_schedules(instance, objective, effort)]):
            report(f"scheduler {name}")
            try:
                found[name] = evaluate(instance, name, time_limit_s)
            except OptschedError as error:
                failures.append(error)
            except StoppedEarly as stopped:
                found[name] = assess(instance, stopped.schedule, name)
                raise
        best = best_of(found.values(), objective)
        report(f"bound, {effort} effort")
        proven[objective] = prove(
            instance, objective, effort=effort, time_limit_s=time_limit_s,
            target=best.values[objective] if best else None,
        )  # fmt: skip
        for other in Objective:
            if other is not objective:
                report(f"bound on {other.value}")
                proven[other] = prove(instance, other, effort="quick")
    except KeyboardInterrupt:
        finished = False
    shown += [name for name in asked if name in found]
    return Comparison(
        objective=objective,
        candidates=tuple(found[name] for name in shown),
        best=best_of(found.values(), objective),
        proven=proven,
        wall_s=time.perf_counter() - begin,
        finished=finished,
        failures=tuple(failures),
    )
