"""The look-ahead with calls as schedulers."""

from __future__ import annotations

from dataclasses import dataclass

from optsched.instance import Instance, require_feasible
from optsched.objective import Objective
from optsched.schedule import Schedule
from optsched.warmstart.calls_search import search_with_calls

_FEW = 12


@dataclass(frozen=True)
class CallsScheduler:
    """The best of a few settings by an objective, as a :class:`Scheduler`.

    Parameters
    ----------
    name, summary : str
        As the command line shows them.
    objective : Objective
    """

    name: str
    summary: str
    objective: Objective

    def __call__(self, instance: Instance, /) -> Schedule:
        """The best schedule of the settings tried; the first of equals.

        Raises
        ------
        InfeasibleError
            A request cannot run even alone.
        """
        require_feasible(instance)
        found = search_with_calls(instance, self.objective, tries=_FEW)
        if found.interrupted:
            raise KeyboardInterrupt
        return found.schedule


CALLS: dict[str, CallsScheduler] = {
    name: CallsScheduler(name, summary, objective)
    for name, summary, objective in (
        ("calls-shortest-work", "look-ahead with calls, least work first, for mean latency",
         Objective.MEAN_LATENCY),
        ("calls-first-tokens", "look-ahead with calls, first tokens first, for mean TTFT",
         Objective.MEAN_TTFT),
        ("calls-longest-path", "look-ahead with calls, longest way first, for makespan",
         Objective.MAKESPAN),
    )
}  # fmt: skip
