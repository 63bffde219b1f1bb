"""The objective's value of one execution of a schedule (problem, section 5)."""

from __future__ import annotations

from optsched.instance import Instance
from optsched.objective import Objective
from optsched.schedule import Schedule
from optsched.simulate.clock import simulate
from optsched.simulate.metrics import meets_objectives, request_times
from optsched.trace import Trace


def objective_value(instance: Instance, trace: Trace, objective: Objective) -> float:
    """Seconds, or for ``goodput`` the weight of the requests that meet all their SLOs.

    NaN where it depends on a token that was never generated.

    Raises
    ------
    InvalidInputError
        The trace is of another number of requests.
    """
    if objective is Objective.MAKESPAN:
        return trace.makespan_s
    times = request_times(instance, trace)
    if objective is Objective.MEAN_LATENCY:
        return float(times.latency_s.mean())
    if objective is Objective.MEAN_TTFT:
        return float(times.ttft_s.mean())
    if objective is Objective.MAX_LATENCY:
        return float(times.latency_s.max())
    return float(instance.weights[meets_objectives(instance, times)].sum())


def schedule_loss(instance: Instance, schedule: Schedule, objective: Objective) -> float:
    """What to compare schedules by, less is better: the simulated value, negative for goodput."""
    return objective.loss(objective_value(instance, simulate(instance, schedule), objective))
