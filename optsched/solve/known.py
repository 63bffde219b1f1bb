"""Which schedulers give the best schedule known, by objective and effort."""

from __future__ import annotations

from optsched.instance import Instance
from optsched.objective import Objective
from optsched.warmstart.portfolio import PORTFOLIO

PORTFOLIOS = {
    f"{objective.value} portfolio": objective
    for objective in Objective
    if objective is not Objective.MAKESPAN
}
"""The best of the schedulers that suit an objective of the clock, by name."""

# Asked even when the user asks for others: quickly, the rules that were never far behind; else the
# portfolio of all of them.
_QUICK = {
    Objective.MAKESPAN: ("mc-fcfs", "infermax", "sarathi-pc-ef"),
    Objective.MEAN_LATENCY: ("mc-sf", "mc-fcfs"),
    Objective.MEAN_TTFT: ("vllm", "rank-i", "mc-sf"),
    Objective.MAX_LATENCY: ("mc-fcfs", "sarathi"),
    Objective.GOODPUT: ("mc-sf", "rank-i", "sarathi-ef"),
}


def known_schedules(instance: Instance, objective: Objective, effort: str) -> tuple[str, ...]:
    """Names of schedulers to run for a good schedule; none where none covers the instance."""
    if effort == "quick" and not instance.has_calls:
        return _QUICK[objective]
    if objective is Objective.MAKESPAN:
        return (PORTFOLIO,)
    return tuple(name for name, own in PORTFOLIOS.items() if own is objective)
