"""Schedulers for the objectives of the clock: each tries its settings and keeps the best."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from optsched.instance import Instance, require_feasible
from optsched.objective import Objective
from optsched.schedule import Schedule
from optsched.simulate import schedule_loss
from optsched.warmstart.clock_families import for_service_levels, shortest_prompt, shortest_work
from optsched.warmstart.first_tokens import first_tokens_first
from optsched.warmstart.refusal import require_no_calls


@dataclass(frozen=True)
class ClockScheduler:
    """A family of schedules as a :class:`Scheduler`: the best by an objective.

    Parameters
    ----------
    name, summary : str
        As the command line shows them.
    objective : Objective
    family : callable
        Yields schedules; always at least one.
    """

    name: str
    summary: str
    objective: Objective
    family: Callable[[Instance], Iterator[Schedule]]

    def __call__(self, instance: Instance, /) -> Schedule:
        """The best schedule of the family; the first of equals.

        Raises
        ------
        UnsupportedError
            A request makes calls.
        InfeasibleError
            A request cannot run even alone.
        """
        require_no_calls(instance, self.name)
        require_feasible(instance)
        return min(self.family(instance), key=lambda s: schedule_loss(instance, s, self.objective))


def first_tokens(instance: Instance) -> Iterator[Schedule]:
    """The one schedule that fills first."""
    yield first_tokens_first(instance)


CLOCK: dict[str, ClockScheduler] = {
    name: ClockScheduler(name, summary, objective, family)
    for name, summary, objective, family in (
        ("shortest-work", "look-ahead, least machine time first, for mean latency",
         Objective.MEAN_LATENCY, shortest_work),
        ("shortest-prompt", "look-ahead, shortest prompt first, for mean TTFT",
         Objective.MEAN_TTFT, shortest_prompt),
        ("first-tokens", "only fills while first tokens are missing, for mean TTFT alone",
         Objective.MEAN_TTFT, first_tokens),
        ("slo-aware", "look-ahead for goodput: those that can still meet their objectives first",
         Objective.GOODPUT, for_service_levels),
    )
}  # fmt: skip
