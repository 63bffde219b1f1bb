"""Annealing over the order in which a look-ahead admits requests.

A schedule is what the ranked look-ahead makes of an order of the requests, and a step moves one
request to another place of it. Most optima without evictions are such schedules, or near one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from optsched.instance import Instance, IntArray
from optsched.objective import Objective
from optsched.schedule import Schedule
from optsched.simulate import schedule_loss
from optsched.warmstart.clock_families import machine_time_s
from optsched.warmstart.ranked_lookahead import RankOptions, ranked_look_ahead

_STEPS_PER_REQUEST = 40
_MOST_STEPS = 2000
_FIRST_RISE = 0.02  # relative, that is accepted about every third time at the beginning


def improved_order(
    instance: Instance, objective: Objective, *, seed: int = 0, deadline: float | None = None
) -> Schedule:
    """The best schedule found by annealing from the order by machine time.

    Parameters
    ----------
    deadline : float, optional
        On the monotonic clock; without it the number of steps is fixed.
    """
    rng = np.random.default_rng(seed)
    order: IntArray = np.argsort(machine_time_s(instance), kind="stable")
    now = best = _schedule(instance, order)
    now_loss = least = schedule_loss(instance, now, objective)
    scale = abs(now_loss) or 1.0
    steps = min(_MOST_STEPS, _STEPS_PER_REQUEST * len(instance))
    for step, moved in enumerate(_moves(order.size, steps, rng)):
        if deadline is not None and time.monotonic() > deadline:
            break
        source, target = moved
        tried = np.insert(np.delete(order, source), target, order[source])
        schedule = _schedule(instance, tried)
        found = schedule_loss(instance, schedule, objective)
        heat = _FIRST_RISE * scale * (1 - step / steps) ** 2
        if found <= now_loss or rng.random() < np.exp((now_loss - found) / max(heat, 1e-12)):
            order, now_loss = tried, found
        if found < least:
            best, least = schedule, found
    return best


def _moves(count: int, steps: int, rng: np.random.Generator) -> Iterator[tuple[int, int]]:
    """Places that a request is taken from and put to."""
    if count < 2:
        return
    for _ in range(steps):
        source, target = rng.choice(count, 2, replace=False)
        yield int(source), int(target)


def _schedule(instance: Instance, order: IntArray) -> Schedule:
    rank = np.empty(order.size)
    rank[order] = np.arange(order.size)
    return ranked_look_ahead(instance, RankOptions(rank=rank)).schedule(instance)
