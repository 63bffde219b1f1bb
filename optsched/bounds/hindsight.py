"""The hindsight problem: a lower bound on mean latency under policy nonpreemptive.

:mod:`optsched.bounds.hindsight_lagrangian` bounds for any prices; here they are chosen. The first
are those of a fluid: requests by KV summed over rounds, M per round; a request costs its own end
and the time by which it delays those after it. Then the bundle improves them, first with few states
and then with more, each time from the prices before.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from optsched.bounds.hindsight_bundle import maximise
from optsched.bounds.hindsight_lagrangian import Lagrangian, Prices
from optsched.bounds.hindsight_states import smallest_threshold
from optsched.errors import UnsupportedError
from optsched.instance import Instance, require_feasible
from optsched.model.hindsight import Rounds, rounds_of

FloatArray = NDArray[np.float64]

STATES = (300, 1000, 3000, 10_000)  # at most, one stage after the other
_EVALUATIONS = 80  # at most, per stage
_GAPS = (1e-2, 5e-3, 1e-3, 3e-4)
_MOST_CELLS = 2 * 10**7  # rounds times states or types
_FIRST_STEP = 400.0
_PIECES = 24
_DELAYED = 0.9  # share of the fluid's delay: not all that wait are behind


@dataclass(frozen=True, kw_only=True, eq=False)
class HindsightBound:
    """A lower bound on mean latency and the prices that prove it.

    Parameters
    ----------
    total : int
        On the sum of latencies, in rounds: a whole number, as all latencies are.
    value_s : float
        On the mean latency, seconds.
    relaxed : float
        The Lagrangian's own value, in rounds.
    lagrangian, prices
        The function and the point at which it has this value.
    evaluations : int
        Of all stages.
    wall_s : float
    """

    total: int
    value_s: float
    relaxed: float
    lagrangian: Lagrangian
    prices: Prices
    evaluations: int
    wall_s: float


def hindsight_bound(
    instance: Instance,
    *,
    states: tuple[int, ...] = STATES,
    time_limit_s: float | None = None,
    target: int | None = None,
) -> HindsightBound:
    """Bound the mean latency of every non-preemptive schedule in rounds.

    Parameters
    ----------
    instance : Instance
        One that :func:`optsched.model.hindsight.covers`.
    states : tuple of int
        Most states of each stage.
    time_limit_s : float, optional
        No evaluation begins after this.
    target : int, optional
        A sum of latencies that is known to be reached: stop at this bound.

    Raises
    ------
    UnsupportedError
        The model does not cover the instance, or it has too many rounds.
    InfeasibleError
        A request cannot run even alone.
    """
    begin = time.monotonic()
    rounds = rounds_of(instance)
    require_feasible(instance, ("no-chunk",))
    horizon = fluid_horizon(rounds)
    if horizon * len(rounds.types) > _MOST_CELLS:
        raise UnsupportedError(
            f"{horizon} rounds of {len(rounds.types)} request types are too many to price"
        )

    def stop(value: float) -> bool:
        late = time_limit_s is not None and time.monotonic() - begin >= time_limit_s
        return late or (target is not None and value > target - 1)

    pieces = min(_PIECES, horizon)
    thresholds = [
        threshold_for(rounds, min(most, max(1, _MOST_CELLS // horizon))) for most in states
    ]
    best: _Point | None = None
    evaluations = 0
    for stage, threshold in enumerate(thresholds):
        if threshold in thresholds[:stage] or (best is not None and stop(best.value)):
            continue
        lagrangian = Lagrangian(rounds, threshold=threshold, horizon=horizon, pieces=pieces)
        start = best or _Point(-math.inf, lagrangian, fluid_prices(lagrangian), _FIRST_STEP)
        found, more = _climb(start, lagrangian, _GAPS[min(stage, len(_GAPS) - 1)], stop)
        evaluations += more
        if best is None or found.value > best.value:
            best = found
    assert best is not None
    total = max(math.ceil(best.value), int((rounds.output * rounds.count).sum()))
    return HindsightBound(
        total=total, value_s=total * rounds.round_s / len(instance), relaxed=best.value,
        lagrangian=best.lagrangian, prices=best.prices, evaluations=evaluations,
        wall_s=time.monotonic() - begin,
    )  # fmt: skip


class _Point(NamedTuple):
    """Prices, the Lagrangian's value at them, and the step to go on with."""

    value: float
    lagrangian: Lagrangian
    prices: Prices
    step: float


def _climb(
    start: _Point, lagrangian: Lagrangian, gap: float, stop: Callable[[float], bool]
) -> tuple[_Point, int]:
    """Better prices than those of ``start`` for this Lagrangian, and how many evaluations."""
    pieces, types = lagrangian.pieces, len(lagrangian.rounds.types)
    # Units in which the prices of requests and of memory matter about equally.
    scale = np.concatenate((np.ones(types), np.full(pieces, 1.0 / lagrangian.kv_tokens)))

    def prices(point: FloatArray) -> Prices:
        return Prices(request=(point * scale)[:types], memory=(point * scale)[types:])

    def function(point: FloatArray) -> tuple[float, FloatArray]:
        found = lagrangian.evaluate(prices(point))
        return found.value, np.concatenate((found.request, found.memory)) * scale

    upper = np.full(types + pieces, np.inf)
    upper[:types] = lagrangian.horizon - lagrangian.rounds.release
    first = np.concatenate((start.prices.request, start.prices.memory)) / scale
    best = maximise(
        function, np.minimum(first, upper), lower=np.zeros(first.size), upper=upper,
        step=start.step, most_evaluations=_EVALUATIONS, relative_gap=gap, stop=stop,
    )  # fmt: skip
    reached = lagrangian.rounded(prices(best.point))
    return _Point(best.value, lagrangian, reached, best.step), best.evaluations


def threshold_for(rounds: Rounds, most_states: int) -> int:
    """The smallest threshold with at most so many states; no request is below the least one."""
    limits = rounds.instance.limits
    largest = int((rounds.prompt + rounds.output).max()) - 1
    return smallest_threshold(
        [limits.pages(size) for size in range(largest + 1)], limits.kv_tokens,
        least=int(rounds.prompt.min()) - 1, most_states=most_states,
    )  # fmt: skip


def fluid_horizon(rounds: Rounds) -> int:
    """More rounds than a good schedule needs: what memory, arrivals and the longest request ask
    for, and a third more."""
    area = int((rounds.kv_rounds * rounds.count).sum()) // rounds.instance.limits.kv_tokens
    latest = int((rounds.release + rounds.output).max())
    return latest + area * 4 // 3 + 10


def fluid_prices(lagrangian: Lagrangian) -> Prices:
    """Prices as if the KV of all rounds of a request could be held at any time."""
    rounds = lagrangian.rounds
    count = rounds.count.astype(np.float64)
    area = rounds.kv_rounds / lagrangian.kv_tokens
    order = np.argsort(area, kind="stable")
    ends = np.maximum((area * count)[order].cumsum(), rounds.output[order])
    ends = np.maximum(ends, (rounds.release + rounds.output)[order])
    behind = count.sum() - count[order].cumsum()
    request = np.zeros(count.size)
    request[order] = ends - rounds.release[order] + _DELAYED * behind * area[order]
    unfinished = (count[order] * (ends > np.arange(lagrangian.horizon + 1)[:, None])).sum(axis=1)
    memory = np.bincount(lagrangian.piece, unfinished) / np.bincount(lagrangian.piece)
    return Prices(request=request, memory=_DELAYED * memory / lagrangian.kv_tokens)
