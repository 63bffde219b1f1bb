"""Look-ahead schedulers as a whole: each tries its settings and keeps the shortest schedule."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from optsched.instance import Instance, require_feasible
from optsched.objective import Objective
from optsched.schedule import Schedule
from optsched.simulate import simulate
from optsched.warmstart import families
from optsched.warmstart.budget import Budget, backward_s, batches_about, levelled_s
from optsched.warmstart.calls_search import search_with_calls
from optsched.warmstart.improve import improvements
from optsched.warmstart.loop import run
from optsched.warmstart.refusal import require_no_calls
from optsched.warmstart.searched import searched
from optsched.warmstart.settings import settings
from optsched.warmstart.table import RULES

PORTFOLIO = "portfolio"
_FEW = 3
_IMPROVED = -1  # in place of the number of a family
_RULES = ("sarathi", "sarathi-pc-ef", "mc-fcfs", "mc-sf", "vllm", "pair")
_RULES_WITH_ARRIVALS = ("sarathi-pc-ef", "infermax", "sarathi")


class StoppedEarly(KeyboardInterrupt):
    """A keyboard interrupt, with the best schedule that was found before it.

    Parameters
    ----------
    schedule : Schedule
    """

    def __init__(self, schedule: Schedule) -> None:
        super().__init__("interrupted")
        self.schedule = schedule


def best_with_calls(
    instance: Instance, objective: Objective, *, deadline: float | None = None, seed: int = 0
) -> Schedule:
    """The best schedule that the look-ahead with calls finds.

    Parameters
    ----------
    deadline : float, optional
        On the monotonic clock. Without it the result depends on the instance and ``seed`` alone.

    Raises
    ------
    InfeasibleError
        A request cannot run even alone.
    StoppedEarly
        A keyboard interrupt.
    """
    require_feasible(instance)
    found = search_with_calls(instance, objective, seed=seed, deadline=deadline)
    if found.interrupted:
        raise StoppedEarly(found.schedule)
    return found.schedule


@dataclass(frozen=True, kw_only=True)
class Member:
    """A family of schedules in the portfolio.

    Parameters
    ----------
    family : callable
        Yields schedules.
    each_s : float
        Seconds that one of them takes, about, on a usual machine.
    """

    family: Callable[[Instance], Iterator[Schedule]]
    each_s: float


@dataclass(frozen=True)
class LookAheadScheduler:
    """Families of schedules as a :class:`Scheduler`: the one with the least makespan.

    Parameters
    ----------
    name, summary : str
        As the command line shows them.
    members : callable
        The families for an instance, in the order in which they are tried; the first yields at
        least one schedule.
    improves : bool
        Whether the best schedules of different families are then improved locally.
    """

    name: str
    summary: str
    members: Callable[[Instance], list[Member]]
    improves: bool = False

    def __call__(self, instance: Instance, /, *, time_limit_s: float | None = None) -> Schedule:
        """The shortest schedule of the families; the first of equals.

        Parameters
        ----------
        time_limit_s : float, optional
            No schedule but the first is begun that is expected to take longer than what is left.
            Without it the result depends on the instance alone.

        Raises
        ------
        UnsupportedError
            A request makes calls, and this is not the portfolio.
        InfeasibleError
            A request cannot run even alone.
        StoppedEarly
            A keyboard interrupt, after the first schedule.
        """
        if self.improves and instance.has_calls:
            deadline = None if time_limit_s is None else time.monotonic() + time_limit_s
            return best_with_calls(instance, Objective.MAKESPAN, deadline=deadline)
        require_no_calls(instance, self.name)
        require_feasible(instance)
        budget, found = Budget(time_limit_s), _Found(instance)
        try:
            for number, schedule in within(budget, self.members(instance), instance):
                found.offer(number, schedule)
            if self.improves:
                for schedule in improvements(instance, found.few(), budget):
                    found.offer(_IMPROVED, schedule)
        except KeyboardInterrupt:
            if not found.best:
                raise
            raise StoppedEarly(found.few()[0]) from None
        return found.few()[0]


class _Found:
    """The shortest schedule of each family."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.best: dict[int, tuple[float, Schedule]] = {}

    def offer(self, family: int, schedule: Schedule) -> None:
        """Keep ``schedule`` if it is shorter than the best of its family."""
        makespan_s = simulate(self.instance, schedule).makespan_s
        if family not in self.best or makespan_s < self.best[family][0]:
            self.best[family] = (makespan_s, schedule)

    def few(self) -> list[Schedule]:
        """The best schedules, shortest first, of different makespans."""
        different: dict[float, Schedule] = {}
        for makespan_s, schedule in sorted(self.best.values(), key=lambda pair: pair[0]):
            different.setdefault(makespan_s, schedule)
        return list(different.values())[: 1 if settings(self.instance).large else _FEW]


def within(
    budget: Budget, members: list[Member], instance: Instance
) -> Iterator[tuple[int, Schedule]]:
    """Numbers of members and schedules of them while time allows; of the first at least one."""
    first = True
    for number, member in enumerate(members):
        own = member.family(instance)
        while first or budget.allows(member.each_s):
            with budget.timed(member.each_s):
                schedule = next(own, None)
            if schedule is None:
                break
            yield number, schedule
            first = False


def _alone(family: Callable[[Instance], Iterator[Schedule]]) -> Callable[[Instance], list[Member]]:
    return lambda instance: [Member(family=family, each_s=0.0)]


def _everything(instance: Instance) -> list[Member]:
    """The portfolio: the cheap and the promising first."""
    tried = settings(instance)
    requests, batches = len(instance), batches_about(instance)
    rule_s = 5e-6 * batches + (5e-5 if tried.large else 5e-4) * requests
    # With arrivals a first placement gives the clock to the others.
    chain_s = backward_s(instance) * (1 if instance.offline else 2)
    level_s = levelled_s(instance)
    search_s = 3.0 + 5e-4 * float(instance.output_tokens.sum())
    levels = Member(family=families.levelled_schedules, each_s=level_s)
    chunks = [Member(family=families.chunked_schedules, each_s=chain_s)]
    if not tried.levels:
        chunks = [Member(family=families.backward_schedules, each_s=chain_s)]
    chunks.append(Member(family=families.lp_guided_schedules, each_s=chain_s + 0.5))
    if tried.patience:
        chunks.append(Member(family=families.gated_schedules, each_s=chain_s))
    if tried.large:
        rules = ("sarathi-pc-ef",) if instance.offline else _RULES_WITH_ARRIVALS
        return [*(Member(family=_rule(name), each_s=rule_s) for name in rules), *chunks]
    return [
        levels, *chunks,
        Member(family=families.rounds_schedules, each_s=level_s),
        Member(family=families.capped_schedules, each_s=chain_s),
        Member(family=families.look_ahead_schedules, each_s=chain_s),
        Member(family=families.staggered_schedules, each_s=chain_s),
        *(Member(family=_rule(name), each_s=rule_s) for name in _RULES),
        Member(family=searched, each_s=search_s),
    ]  # fmt: skip


def _rule(name: str) -> Callable[[Instance], Iterator[Schedule]]:
    def only(instance: Instance) -> Iterator[Schedule]:
        yield run(instance, RULES[name])

    return only


LOOK_AHEAD: dict[str, LookAheadScheduler] = {
    name: LookAheadScheduler(name, summary, members, improves=name == PORTFOLIO)
    for name, summary, members in (
        ("look-ahead", "admits whoever fits in memory to the end, past those who do not",
         _alone(families.look_ahead_schedules)),
        ("staggered", "look-ahead that keeps the profile of a steady state",
         _alone(families.staggered_schedules)),
        ("look-ahead-backward", "look-ahead from the last batch to the first",
         _alone(families.backward_schedules)),
        ("lp-guided", "backward look-ahead at the start rates of a linear program",
         _alone(families.lp_guided_schedules)),
        ("look-ahead-chunked", "backward look-ahead with prompt chunks in batches below a knot",
         _alone(families.chunked_schedules)),
        ("token-cap", "backward look-ahead in batches of the cheapest size per token",
         _alone(families.capped_schedules)),
        ("gated-prefill", "backward look-ahead in which fills share batches",
         _alone(families.gated_schedules)),
        ("levelled", "equal batches of the cheapest size, residents held where that makes them so",
         _alone(families.levelled_schedules)),
        ("rounds", "fills whole rounds of requests, holds them, then decodes them together",
         _alone(families.rounds_schedules)),
        ("beam", "beam search over what is resident and what waits, evictions included",
         _alone(families.beam_schedules)),
        ("walk-guided", "follows the optimal closed walks over memory contents",
         _alone(families.walk_guided_schedules)),
        (PORTFOLIO, "the best of the look-ahead schedulers and of the strongest rules, improved",
         _everything),
    )
}  # fmt: skip
