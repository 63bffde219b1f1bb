"""Batch loads, batch times and metrics of a schedule, by arithmetic over its runs."""

from optsched.simulate.clock import durations, simulate
from optsched.simulate.load import Loads, loads
from optsched.simulate.metrics import (
    Distribution,
    Metrics,
    RequestTimes,
    measure,
    meets_objectives,
    request_times,
)
from optsched.simulate.objective import objective_value, schedule_loss

__all__ = [
    "Distribution",
    "Loads",
    "Metrics",
    "RequestTimes",
    "durations",
    "loads",
    "measure",
    "meets_objectives",
    "objective_value",
    "request_times",
    "schedule_loss",
    "simulate",
]
