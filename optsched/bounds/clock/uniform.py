"""B8, mean latency of equal requests; ``verify.clock.uniform`` has the argument.

The point and the prices are those of the quadratic program over how many requests end in which of
some hundred batches, each running without pause to its end, with rows for what batches hold, up to
a horizon. Where the optimum ends is not known, so a few horizons are tried.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optsched.bounds.batch_count import counted
from optsched.bounds.clock.charges import Charging
from optsched.bounds.clock.found import Found, Question
from optsched.bounds.clock.splitting import Program, solve
from optsched.bounds.verify.clock.uniform import work_of
from optsched.bounds.verify.refuted import RefutedError
from optsched.bounds.verify.units import cost_doubles, units_for
from optsched.bounds.verify.verdict import proven_value
from optsched.bounds.verify.workload import Workload
from optsched.clock_certificate import UniformMean
from optsched.instance import Instance
from optsched.line import Line

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
_POINTS = {"quick": 80, "normal": 200, "thorough": 400}
# Horizons: so many times the least number of batches, and so many times O beyond.
_HORIZONS = {
    "quick": ((1.5, 2.0),),
    "normal": ((1.2, 1.5), (1.5, 2.0), (2.0, 2.5)),
    "thorough": ((1.0, 1.0), (1.2, 1.5), (1.35, 2.0), (1.5, 2.0), (1.75, 2.0), (2.0, 2.5)),
}
_MIXTURES = {  # parts of prices that may dip
    "quick": (1.0, 0.25, 0.0),
    "normal": (1.0, 0.5, 0.25, 0.1, 0.0),
    "thorough": (1.0, 0.75, 0.5, 0.35, 0.25, 0.15, 0.1, 0.05, 0.0),
}
_STEPS = {"quick": 2000, "normal": 6000, "thorough": 20000}
_COUNT_BITS, _MOST_BITS, _ALL_BITS = 30, 40, 60


@dataclass(frozen=True, kw_only=True, eq=False)
class Equal:
    """Equal requests: how many, what they need, and what a batch has.

    ``work`` has shape ``(O + 1,)``, seconds of the first events; ``refill_s`` is the most that a
    refill costs more than an event; ``pages`` has shape ``(O,)``, held after each event;
    ``capacity`` ``(3,)``: pages, tokens and prefill tokens of a batch.
    """

    count: int
    prompt: int
    fewest: int
    intercept_s: float
    refill_s: float
    work: FloatArray
    pages: FloatArray
    capacity: FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Choice:
    """``counts`` requests end in batches ``ends``; ``prices_s``, shape ``(3, buckets)``, are those
    of pages, tokens and prefill tokens in each ``width`` batches; a path costs about ``scale_s``.
    """

    ends: IntArray
    counts: FloatArray
    width: int
    prices_s: FloatArray
    scale_s: float


def uniform_bounds(question: Question) -> dict[str, Found]:
    """The best of B8, if the requests are equal and all there from the start."""
    instance = question.instance
    shapes = {(r.prompt_tokens, r.output_tokens) for r in instance.requests}
    if len(shapes) > 1 or not instance.offline or instance.has_calls:
        return {}
    charging = Charging(instance)
    batches = counted(charging.runs, instance.limits).batches
    output = instance.requests[0].output_tokens
    tried: list[Found] = []
    for line in charging.lines:
        equal = _equal(instance, line)
        for times, beyond in _HORIZONS[question.effort]:
            if tried and question.left_s <= 0:
                break
            last = max(equal.fewest + 1, int(batches * times + output * beyond))
            choices = _choices(equal, last, question.effort)
            tried += _proven(question, [_argument(equal, line, choice) for choice in choices])
    return {"B8 equal requests": max(tried, key=lambda part: part.value)} if tried else {}


def _proven(question: Question, arguments: list[UniformMean]) -> list[Found]:
    """What each of ``arguments`` proves, but for those that are too large to be checked."""
    found = []
    for argument in arguments:
        with suppress(RefutedError):
            value = proven_value(question.instance, question.objective, argument)
            found.append(Found(value=float(value), argument=argument))
    return found


def _equal(instance: Instance, line: Line) -> Equal:
    request, limits = instance.requests[0], instance.limits
    workload = Workload(instance.requests, limits, instance.cost)
    doubles = (line.intercept_s, line.slope_s, line.excess_s, instance.cost.swap_tok)
    units = units_for([*cost_doubles(instance.cost), *doubles], workload.cap)
    prompt, output = request.prompt_tokens, request.output_tokens
    work, refill = work_of(workload, line, units)
    sizes = np.arange(prompt, prompt + output)
    capacity = (workload.cap, limits.batch_tokens, limits.fill_tokens)
    return Equal(
        count=len(instance), prompt=prompt,
        fewest=workload.events[0][0].earliest + output - 1, intercept_s=line.intercept_s,
        refill_s=float(units.seconds(max(refill))),
        work=np.array([float(units.seconds(w)) for w in work]),
        pages=(-(-sizes // limits.block_tokens)).astype(np.float64),
        capacity=np.array(capacity, dtype=np.float64),
    )  # fmt: skip


def _choices(equal: Equal, last: int, effort: str) -> list[Choice]:
    """Points and prices for ends in some batches from the first possible one to ``last``.

    Prices of each bucket's own rows may dip, so that pauses and evictions pay; rows of all buckets
    up to one make prices that only fall, but allow that the first batches hold what they cannot.
    The bound is concave in the point and the prices, so mixtures of the two are worth trying.
    """
    width = -(-last // _POINTS[effort])
    buckets = -(-last // width)
    points = min(_POINTS[effort], last - equal.fewest + 1)
    ends = np.unique(np.linspace(equal.fewest, last, points).astype(np.int64))
    output = equal.work.size - 1
    apart = np.abs(ends[:, None] - ends[None, :])
    kernel = equal.work[output] + equal.work[np.maximum(0, output - apart)]
    scale_s = equal.count * equal.work[output] + equal.intercept_s * last
    have = equal.capacity * width / equal.count
    uses = [_upto(use, ends, width, buckets) for use in _uses(equal)]

    def solved(rows: list[FloatArray]) -> tuple[FloatArray, FloatArray]:
        program = Program(
            linear=equal.intercept_s * ends / scale_s, square=equal.count * kernel / scale_s,
            rows=np.concatenate((np.ones((1, ends.size)), *rows, np.eye(ends.size))),
            low=np.concatenate(([1.0], np.full(3 * buckets, -np.inf), np.zeros(ends.size))),
            high=np.concatenate(([1.0], np.ones(3 * buckets), np.full(ends.size, np.inf))),
        )  # fmt: skip
        share, prices = solve(program, penalty=0.1, steps=_STEPS[effort], accuracy=1e-6)
        priced = np.maximum(prices[1 : 1 + 3 * buckets], 0.0).reshape(3, buckets)
        return np.maximum(share, 0.0), scale_s * priced / have[:, None]

    upto = np.arange(1, buckets + 1)
    own, own_s = solved([use / h for use, h in zip(uses, have, strict=True)])
    all_, all_s = solved(
        [np.cumsum(use, axis=0) / (h * upto[:, None]) for use, h in zip(uses, have, strict=True)]
    )
    falling_s = np.cumsum((all_s / upto)[:, ::-1], axis=1)[:, ::-1]
    return [
        Choice(
            ends=ends, counts=equal.count * (part * own + (1 - part) * all_), width=width,
            prices_s=part * own_s + (1 - part) * falling_s, scale_s=scale_s,
        )
        for part in _MIXTURES[effort]
    ]  # fmt: skip


def _argument(equal: Equal, line: Line, choice: Choice) -> UniformMean:
    """The record of ``choice``, in whole numbers."""
    bits = _bits(equal, choice.scale_s, choice.prices_s, choice.width)
    memory, tokens, prefill = (
        tuple(int(x * 2.0**bits) for x in column) for column in choice.prices_s
    )
    return UniformMean(
        line=line, ends=tuple(choice.ends.tolist()), count_bits=_COUNT_BITS,
        counts=tuple(int(count * 2.0**_COUNT_BITS) for count in choice.counts),
        bucket_batches=choice.width, memory=memory, tokens=tokens, prefill=prefill, unit_bits=bits,
    )  # fmt: skip


def _bits(equal: Equal, scale_s: float, prices_s: FloatArray, width: int) -> int:
    """How fine prices may be, so that no path's price exceeds 64 bits (``Paths.largest``)."""
    memory, tokens, prefill = prices_s.max(axis=1)
    size = equal.prompt + equal.work.size
    event_s = memory * equal.pages[-1] + (tokens + prefill) * size
    event_s += equal.refill_s * equal.count
    held_s = width * float(prices_s[0].sum()) * equal.pages[-1]
    largest_s = 4 * scale_s + 2 * held_s + equal.work.size * event_s
    return max(0, min(_MOST_BITS, int(_ALL_BITS - np.log2(largest_s))))


def _uses(equal: Equal) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Pages held, tokens and prefill tokens processed in the batches of a request that does not
    pause, the last one first; shape ``(fewest,)``."""
    output = equal.work.size - 1
    chunk = equal.prompt / (equal.fewest - output + 1)
    pages, tokens, prefill = (np.zeros(equal.fewest) for _ in range(3))
    pages[:output] = equal.pages[::-1]
    tokens[:output] = 1.0
    prefill[output - 1 :] = chunk
    return pages, np.maximum(tokens, prefill), prefill


def _upto(use: FloatArray, ends: IntArray, width: int, buckets: int) -> FloatArray:
    """What a request that ends in each of ``ends`` uses in each bucket of ``width`` batches; shape
    ``(buckets, ends)``."""
    total = np.concatenate(([0.0], np.cumsum(use)))
    edges = width * np.arange(buckets + 1)
    # By the end of batch e everything is done but what lies in the last N - e batches.
    left = total[np.clip(ends[None, :] - edges[:, None], 0, use.size)]
    found: FloatArray = left[:-1] - left[1:]
    return found
