"""Metrics of one execution of a schedule (problem, section 5)."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from optsched.errors import require
from optsched.instance import Instance
from optsched.schedule import Schedule
from optsched.simulate.load import loads
from optsched.trace import Trace

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


class Distribution(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Mean, percentiles (interpolated linearly) and maximum over the requests for which a time is
    defined; all None if there is none."""

    mean: float | None
    p50: float | None
    p90: float | None
    p99: float | None
    max: float | None


class Metrics(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Metrics of a schedule under one trace; what is undefined is None.

    Parameters
    ----------
    makespan_s : float
        End of the last batch, counted from the earliest arrival.
    tokens_per_second : float or None
        Generated output tokens over the makespan.
    ttft_s, latency_s : Distribution
        End of the batch with the first / last token, less the arrival.
    tpot_s, tpot_without_pauses_s : Distribution
        (finish - first token) / (O - 1) over requests with O >= 2; with the time that calls took,
        and with it taken off.
    pause_s : float
        Time that all requests together waited for their calls.
    goodput_requests, goodput_weight, goodput_weight_per_second
        Number and weight of the requests that finish and meet all their service-level objectives
        (one not given, and TPOT at O = 1, count as met), and that weight over the makespan.
    deliberate_waits : int
        Batches that were told not to start before some time; goodput may have gained from them.
    evictions, refilled_tokens, processed_tokens, recompute_tax
        Evictions, tokens processed again because of them, all tokens processed, and the ratio of
        the last two.
    swapped_tokens : int
        Tokens copied between GPU and host memory.
    mean_kv_tokens, peak_kv_tokens
        KV in use (whole pages): mean over the time that batches take, and maximum.
    batches : int
        Number of batches.
    """

    makespan_s: float
    tokens_per_second: float | None
    ttft_s: Distribution
    latency_s: Distribution
    tpot_s: Distribution
    tpot_without_pauses_s: Distribution
    pause_s: float
    goodput_requests: int
    goodput_weight: float
    goodput_weight_per_second: float | None
    deliberate_waits: int
    evictions: int
    refilled_tokens: int
    processed_tokens: int
    recompute_tax: float
    swapped_tokens: int
    mean_kv_tokens: float | None
    peak_kv_tokens: int
    batches: int


@dataclass(frozen=True, kw_only=True, eq=False)
class RequestTimes:
    """Times of every request, seconds, shape ``(requests,)``; NaN where undefined: TPOT at
    O = 1, and whatever depends on a token that was never generated."""

    ttft_s: FloatArray
    latency_s: FloatArray
    tpot_s: FloatArray
    tpot_without_pauses_s: FloatArray


def request_times(instance: Instance, trace: Trace) -> RequestTimes:
    """TTFT, latency and TPOT of every request.

    Raises
    ------
    InvalidInputError
        The trace is of another number of requests.
    """
    require(
        trace.finish_s.size == len(instance),
        "trace.finish_s", trace.finish_s.size, f"{len(instance)} entries, one for each request",
    )  # fmt: skip
    gaps = np.where(instance.output_tokens > 1, instance.output_tokens - 1, np.nan)
    between = trace.finish_s - trace.first_token_s
    return RequestTimes(
        ttft_s=trace.first_token_s - instance.release_s,
        latency_s=trace.finish_s - instance.release_s,
        tpot_s=between / gaps,
        tpot_without_pauses_s=(between - trace.pause_s) / gaps,
    )


def measure(instance: Instance, schedule: Schedule, trace: Trace) -> Metrics:
    """Metrics of ``schedule`` as ``trace`` timed it, simulated or measured.

    Raises
    ------
    InvalidInputError
        The trace is of another number of batches or requests.
    ScheduleError
        The schedule has no loads, see :func:`~optsched.simulate.load.loads`.
    """
    require(
        trace.end_s.size == schedule.batch_count,
        "trace.end_s", trace.end_s.size, f"{schedule.batch_count} entries, one for each batch",
    )  # fmt: skip
    times = request_times(instance, trace)
    load = loads(instance, schedule)
    busy_s = trace.end_s - trace.start_s
    met = meets_objectives(instance, times)
    weight = float(instance.weights[met].sum())
    processed, refilled = int(load.tokens.sum()), int(load.refilled_tokens.sum())
    return Metrics(
        makespan_s=trace.makespan_s,
        tokens_per_second=_ratio(float(instance.output_tokens.sum()), trace.makespan_s),
        ttft_s=distribution(times.ttft_s),
        latency_s=distribution(times.latency_s),
        tpot_s=distribution(times.tpot_s),
        tpot_without_pauses_s=distribution(times.tpot_without_pauses_s),
        pause_s=float(trace.pause_s.sum()),
        goodput_requests=int(met.sum()),
        goodput_weight=weight,
        goodput_weight_per_second=_ratio(weight, trace.makespan_s),
        deliberate_waits=int(np.unique(schedule.wait_batch).size),
        evictions=schedule.evictions,
        refilled_tokens=refilled,
        processed_tokens=processed,
        recompute_tax=refilled / processed,
        swapped_tokens=int(load.swapped_tokens.sum()),
        mean_kv_tokens=_ratio(float(load.kv_tokens @ busy_s), float(busy_s.sum())),
        peak_kv_tokens=int(load.kv_tokens.max()),
        batches=schedule.batch_count,
    )


def meets_objectives(instance: Instance, times: RequestTimes) -> BoolArray:
    """Whether each request finishes and meets all its service-level objectives.

    One that is not given counts as met, and so does TPOT at O = 1; TPOT includes call pauses.
    """

    def limits(name: str) -> FloatArray:
        given = (getattr(request, name) for request in instance.requests)
        return np.array([np.inf if value is None else value for value in given])

    # The latency of a request that never finishes is NaN, which is not even <= infinity.
    met: BoolArray = (
        (times.ttft_s <= limits("ttft_slo_s"))
        & (times.latency_s <= limits("latency_slo_s"))
        & ((times.tpot_s <= limits("tpot_slo_s")) | (instance.output_tokens == 1))
    )
    return met


def distribution(times_s: FloatArray) -> Distribution:
    """Distribution of the times that are defined (not NaN)."""
    defined = times_s[np.isfinite(times_s)]
    if not defined.size:
        return Distribution(mean=None, p50=None, p90=None, p99=None, max=None)
    p50, p90, p99 = np.percentile(defined, (50, 90, 99)).tolist()
    return Distribution(
        mean=float(defined.mean()), p50=p50, p90=p90, p99=p99, max=float(defined.max())
    )


def _ratio(amount: float, over: float) -> float | None:
    return amount / over if over > 0 else None
