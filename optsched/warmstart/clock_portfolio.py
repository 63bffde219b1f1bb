"""The best schedule known by an objective: schedulers, and for few requests a search over orders.

The upper bounds from which an exact search starts.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator

from optsched.instance import Instance
from optsched.objective import Objective
from optsched.schedule import Schedule
from optsched.simulate import schedule_loss
from optsched.warmstart.clock_orders import improved_order
from optsched.warmstart.portfolio import (
    PORTFOLIO,
    LookAheadScheduler,
    StoppedEarly,
    best_with_calls,
)
from optsched.warmstart.registry import scheduler

_MOST_SEARCHED = 200  # requests
_CANDIDATES: dict[Objective, tuple[str, ...]] = {
    Objective.MAKESPAN: (PORTFOLIO,),
    Objective.MEAN_LATENCY: ("shortest-work", "shortest-prompt", "mc-sf", "rank-o", PORTFOLIO),
    Objective.MEAN_TTFT: ("first-tokens", "shortest-prompt", "shortest-work", "vllm", "rank-i"),
    Objective.MAX_LATENCY: ("look-ahead", "mc-fcfs", "sarathi", "shortest-work", PORTFOLIO),
    Objective.GOODPUT: ("slo-aware", "shortest-work", "sarathi", "look-ahead", PORTFOLIO),
}
_CANDIDATES_OF_MANY = 2  # more take minutes where there are thousands of requests


def best_for(
    instance: Instance, objective: Objective, *, deadline: float | None = None, seed: int = 0
) -> Schedule:
    """The best schedule over the schedulers that suit ``objective``, improved if there are few
    requests.

    Parameters
    ----------
    deadline : float, optional
        On the monotonic clock: no further scheduler is begun after it, and the search over orders
        ends. Without it the search ends after a number of steps, so that the result depends on
        the instance and ``seed`` alone.

    Raises
    ------
    InfeasibleError
        A request cannot run even alone.
    StoppedEarly
        A keyboard interrupt, after the first schedule.
    """
    if instance.has_calls:
        return best_with_calls(instance, objective, deadline=deadline, seed=seed)
    best: Schedule | None = None
    least = math.inf
    try:
        for schedule in _found(instance, objective, deadline, seed):
            loss = schedule_loss(instance, schedule, objective)
            if best is None or loss < least:
                best, least = schedule, loss
    except KeyboardInterrupt:
        if best is None:
            raise
        raise StoppedEarly(best) from None
    assert best is not None
    return best


def _found(
    instance: Instance, objective: Objective, deadline: float | None, seed: int
) -> Iterator[Schedule]:
    few = len(instance) <= _MOST_SEARCHED
    names = _CANDIDATES[objective][: None if few else _CANDIDATES_OF_MANY]
    for k, name in enumerate(names):
        left = None if deadline is None else deadline - time.monotonic()
        if k and left is not None and left < 0:
            return
        rule = scheduler(name)
        if isinstance(rule, LookAheadScheduler):
            yield rule(instance, time_limit_s=None if left is None else max(left, 0.0))
        else:
            yield rule(instance)
    if few and objective is not Objective.MAKESPAN:
        yield improved_order(instance, objective, seed=seed, deadline=deadline)
