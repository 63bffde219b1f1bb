"""The largest latency; ``verify.clock.windows`` has the arguments.

Where all requests are there from the start it is the makespan. Otherwise the charges of what
arrives from one request to another, less the time between the two, are largest for some pair, which
sums from the left find for each line and shares; what is promising is then bounded by all that is
known of the makespan.
"""

from __future__ import annotations

from itertools import combinations_with_replacement

import msgspec
import numpy as np
from numpy.typing import NDArray

from optsched.bounds.best import best_bound, certificate_of
from optsched.bounds.clock.charges import Charging
from optsched.bounds.clock.found import Found, Question
from optsched.bounds.path import alone_s
from optsched.bounds.time_arguments import best_time
from optsched.bounds.verify.verdict import proven_value
from optsched.certificate import OfflineTime, OwnLatency, WindowTime
from optsched.instance import Instance
from optsched.objective import Objective

FloatArray = NDArray[np.float64]
_FEW_ARRIVALS = 5
_WINDOWS = {"quick": 2, "normal": 6, "thorough": 20}


def window_bounds(question: Question) -> dict[str, Found]:
    """The longest request alone, and the best window."""
    instance, charging = question.instance, Charging(question.instance)
    alone = alone_s(instance, charging.runs)
    longest = int(np.argmax(alone))
    own = OwnLatency(request=instance.requests[longest].id)
    found = {"alone": Found(value=float(alone[longest]), argument=own)}
    tried: list[tuple[Found, float, float]] = []
    for since_s, until_s in _windows(charging)[: _WINDOWS[question.effort]]:
        if tried and question.left_s <= 0:
            break
        together = _together(instance, since_s, until_s)
        argument = WindowTime(from_s=since_s, until_s=until_s, window=best_time(together))
        tried.append((_window(instance, argument), since_s, until_s))
    if instance.offline or question.effort == "thorough":
        _, since_s, until_s = max(tried, key=lambda part: part[0].value)
        priced = _priced(question, _together(instance, since_s, until_s))
        if priced is not None:
            argument = WindowTime(from_s=since_s, until_s=until_s, window=priced)
            tried.append((_window(instance, argument), since_s, until_s))
    best, _, _ = max(tried, key=lambda part: part[0].value)
    return {**found, "window": best}


def _window(instance: Instance, argument: WindowTime) -> Found:
    value = float(proven_value(instance, Objective.MAX_LATENCY, argument))
    return Found(value=value, argument=argument)


def _together(instance: Instance, since_s: float, until_s: float) -> Instance:
    """The requests of a window, all there from the start."""
    arrived = [r for r in instance.requests if since_s <= r.arrival_s <= until_s]
    requests = tuple(msgspec.structs.replace(r, arrival_s=0.0) for r in arrived)
    return msgspec.structs.replace(instance, requests=requests)


def _priced(question: Question, together: Instance) -> OfflineTime | None:
    """The best argument about the makespan of ``together`` that the effort allows."""
    best = best_bound(
        together, effort=question.effort, time_limit_s=question.left_s,
        target_s=question.target if question.instance.offline else None,
    )  # fmt: skip
    if best.priced is None:
        return None
    argument = certificate_of(together, best).argument
    assert isinstance(argument, OfflineTime)
    return argument


def _windows(charging: Charging) -> list[tuple[float, float]]:
    """Windows from one arrival to another, the most promising first."""
    arrival = np.array([r.arrival_s for r in charging.instance.requests])
    times = np.unique(arrival)
    if times.size <= _FEW_ARRIVALS:
        pairs = combinations_with_replacement(times.tolist(), 2)
        return sorted(pairs, key=lambda pair: pair[0] - pair[1])
    rated: dict[tuple[float, float], float] = {}
    slot = np.searchsorted(times, arrival)
    for line in charging.lines:
        for shares in charging.corners:
            load = np.bincount(slot, charging(line, shares).whole).astype(np.float64)
            since, until, value = heaviest(times, load)
            window = (float(times[since]), float(times[until]))
            rated[window] = max(value, rated.get(window, 0.0))
    return sorted(rated, key=rated.__getitem__, reverse=True)


def heaviest(times: FloatArray, load: FloatArray) -> tuple[int, int, float]:
    """The a <= b with the largest load from times[a] to times[b] less times[b] - times[a]."""
    upto = np.cumsum(load)
    opens = np.maximum.accumulate(times - (upto - load))
    rest = upto - times + opens
    until = int(np.argmax(rest))
    since = int(np.argmax(times[: until + 1] - (upto - load)[: until + 1]))
    return since, until, float(rest[until])
