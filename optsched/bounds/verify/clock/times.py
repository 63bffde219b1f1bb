"""The requests of an instance on the schedule's clock, in units, for one objective."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from optsched.bounds.verify.law import law_of
from optsched.bounds.verify.refuted import hold
from optsched.bounds.verify.steps import steps_of
from optsched.bounds.verify.times import times_alone
from optsched.bounds.verify.units import Units
from optsched.bounds.verify.workload import Workload
from optsched.instance import Request
from optsched.objective import Objective


@dataclass(frozen=True)
class Clock:
    """What is bounded: a sum over requests of the time from arrival to first token or end."""

    workload: Workload
    units: Units
    objective: Objective

    @property
    def first_tokens(self) -> bool:
        """Whether times are those of first tokens; else they are those of the ends of requests."""
        hold(
            self.objective in (Objective.MEAN_TTFT, Objective.MEAN_LATENCY),
            f"the argument bounds a mean, not {self.objective}",
        )
        return self.objective is Objective.MEAN_TTFT

    @cached_property
    def releases(self) -> list[int]:
        """Arrivals from the earliest one."""
        arrivals = [self.units.of(r.arrival_s) for r in self.workload.requests]
        earliest = min(arrivals)
        return [arrival - earliest for arrival in arrivals]

    @cached_property
    def alone(self) -> list[int]:
        """Least time of each request from its arrival, pauses included, if it were alone."""
        if self.first_tokens:
            return first_alone(self.workload, self.units)
        return whole_alone(self.workload, self.units)

    def mean(self, total: int) -> Fraction:
        """The mean that a sum of times since the earliest arrival makes."""
        since_arrival = total - sum(self.releases)
        return self.units.seconds(since_arrival) / len(self.workload.requests)


def whole_alone(workload: Workload, units: Units) -> list[int]:
    """Pauses and own batches of each request."""
    own = times_alone(workload, units)
    return [time + _pauses(r, units) for r, time in zip(workload.requests, own, strict=True)]


def first_alone(workload: Workload, units: Units) -> list[int]:
    """Least time of each request's first fill if it had the machine alone."""
    limits, cost = workload.limits, workload.cost
    filling = law_of(cost, limits.batch_tokens, units, extra=units.of(cost.p0))
    steps = steps_of(cost, limits.fill_tokens, units, token=0)
    prompts = {r.prompt_tokens for r in workload.requests}
    fills = {
        size: steps.fill(size) + filling.least(size, -(-size // limits.fill_tokens))
        for size in prompts
    }
    return [fills[r.prompt_tokens] for r in workload.requests]


def _pauses(request: Request, units: Units) -> int:
    return sum(units.of(call.duration_s) for call in request.calls)
