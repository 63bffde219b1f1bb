"""B5 over B3 and B4: prices for what arrives late.

As for any bound that ignores arrivals, T >= tau + LB({requests with arrival >= tau}) holds for the
time-indexed Lagrangian and for closed walks. These take a second where the closed forms of
``arrivals`` take a moment, so only a few tau are tried: arrivals are cut into as many ranges, of
each the start from which the quick bound is best counts, and these are tried in its order, until
what prices have added so far leaves no hope that the next one is better.
"""

from __future__ import annotations

import math
import time
from fractions import Fraction

import msgspec
import numpy as np

from optsched.bounds.arrivals import screened_starts
from optsched.bounds.closed_walks import closed_walk_bound
from optsched.bounds.events import token_runs
from optsched.bounds.lagrangian import LagrangianBound, covers, lagrangian_bound
from optsched.bounds.piecewise import Workload
from optsched.bounds.walk_repair import ClosedWalkBound
from optsched.instance import Instance

_STARTS = {"quick": 2, "normal": 4, "thorough": 12}
_STATES = {"quick": 500, "normal": 2_000, "thorough": 20_000}
_HOPE = 2.0  # prices may add so many times what they have added from another start on
_ROUNDING = 1e-9
_WALK_SHARE = 0.3  # of the time that is left


class LateBound(msgspec.Struct, frozen=True, kw_only=True):
    """What prices prove for the requests that arrive at some time or later.

    Parameters
    ----------
    value_s : float
        The bound in seconds from the earliest arrival on.
    from_s : float
        An arrival, on the instance's clock: requests from it on are priced.
    late : LagrangianBound or ClosedWalkBound
        Their bound, from ``from_s`` on.
    """

    value_s: float
    from_s: float
    late: LagrangianBound | ClosedWalkBound


def late_bound(
    instance: Instance, *, effort: str = "normal", time_limit_s: float = 30.0,
    known_s: float = 0.0, target_s: float | None = None,
) -> LateBound | None:  # fmt: skip
    """The best priced bound of what arrives late, of those tried.

    Parameters
    ----------
    effort : str
        ``quick``, ``normal`` or ``thorough``: how many starts are tried, and how fine prices get.
    time_limit_s : float
        No start is tried after so many seconds, and a program that runs is stopped.
    known_s : float
        What other bounds prove: starts without hope to prove more are left out.
    target_s : float, optional
        Makespan of a known schedule: the search ends when the bound reaches it.

    Returns
    -------
    LateBound or None
        None if all requests arrive at once, prices do not apply (``lagrangian.covers``), or no
        start is worth trying.

    Raises
    ------
    InfeasibleError
        A request cannot run even alone.
    """
    if instance.offline or not covers(instance):
        return None
    deadline = time.monotonic() + time_limit_s
    best: LateBound | None = None
    added_s = -math.inf
    for from_s, screened_s in _starts(instance, _STARTS[effort]):
        reached_s = known_s if best is None else max(known_s, best.value_s)
        closed = target_s is not None and reached_s >= target_s * (1 - _ROUNDING)
        if closed or time.monotonic() >= deadline:
            break
        if best and screened_s + _HOPE * max(added_s, 0.0) <= reached_s * (1 + _ROUNDING):
            continue
        found = _priced(instance, from_s, effort, deadline, reached_s, target_s)
        added_s = max(added_s, found.value_s - screened_s)
        if best is None or found.value_s > best.value_s:
            best = found
    return best


def late_requests(instance: Instance, from_s: float) -> Instance:
    """Only the requests that arrive at ``from_s`` or later."""
    late = tuple(r for r in instance.requests if r.arrival_s >= from_s)
    return msgspec.structs.replace(instance, requests=late)


def _starts(instance: Instance, most: int) -> list[tuple[float, float]]:
    """Arrivals to start from, at most ``most`` of them, with the quick bound; best first."""
    workload = Workload(runs=token_runs(instance), limits=instance.limits, cost=instance.cost)
    times, screened = screened_starts(workload, instance.release_s)
    parts = np.array_split(np.arange(times.size), min(most, times.size))
    chosen = sorted(
        (int(part[screened[part].argmax()]) for part in parts), key=lambda k: -float(screened[k])
    )
    release_s = instance.release_s
    arrival_s = np.array([r.arrival_s for r in instance.requests])
    return [(float(arrival_s[release_s >= times[k]].min()), float(screened[k])) for k in chosen]


def _priced(
    instance: Instance, from_s: float, effort: str, deadline: float, known_s: float,
    target_s: float | None,
) -> LateBound:  # fmt: skip
    """The better of both kinds of prices for what arrives from ``from_s`` on."""
    late = late_requests(instance, from_s)
    since = Fraction(from_s) - Fraction(min(r.arrival_s for r in instance.requests))
    goal_s = None if target_s is None else target_s - float(since)
    found: LagrangianBound | ClosedWalkBound = lagrangian_bound(
        late, effort=effort, time_limit_s=deadline - time.monotonic(), target_s=goal_s,
        known_s=known_s - float(since),
    )  # fmt: skip
    if goal_s is None or found.value_s < goal_s:
        walks = closed_walk_bound(
            late, time_limit_s=_WALK_SHARE * max(deadline - time.monotonic(), 0.0),
            most_states=_STATES[effort],
        )  # fmt: skip
        if walks is not None and walks.value_s > found.value_s:
            found = walks
    total = since + Fraction(found.value_s)
    value_s = float(total)
    if Fraction(value_s) > total:
        value_s = math.nextafter(value_s, -math.inf)
    return LateBound(value_s=value_s, from_s=from_s, late=found)
