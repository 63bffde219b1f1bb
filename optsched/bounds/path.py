"""Critical path: no request finishes sooner than it would alone.

A request's steps lie in distinct batches, in order, and each of those takes at least the time of
this request's step alone. Its first fill of I tokens, in at least ceil(I / F) batches with
F = min(C, P), takes no less than the attention of the fill plus the best balanced split of I tokens
under g + p0; each further event takes the smaller of a decode alone, g(1) + d0 + its attention, and
a refill alone. Responses of calls are appended in prefill, ending possibly as a decode. A call
pauses the request for its whole duration, and nothing starts before the arrival:

    T >= max over requests of arrival + sum of calls' durations + sum of its events alone

For one request without calls this is the optimum if fills need no more than one chunk or p_kv = 0
and p_mc = 2 p_sq, decodes being the cheaper choice.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from optsched.bounds.events import TokenRuns
from optsched.bounds.token_time import token_law
from optsched.bounds.work import StepLaw, event_times, no_share
from optsched.cost import CostModel
from optsched.instance import Instance, Limits

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


def critical_path(instance: Instance, runs: TokenRuns) -> float:
    """The longest arrival + pauses + own time of a request, in seconds."""
    return float((instance.release_s + alone_s(instance, runs)).max())


def alone_s(instance: Instance, runs: TokenRuns, *, first_tokens: bool = False) -> FloatArray:
    """Least time of each request from its arrival to its end, pauses included, or with
    ``first_tokens`` to its first token; shape ``(requests,)``."""
    if first_tokens:
        fills = replace(runs.select(runs.first), count=np.ones(len(instance), dtype=np.int64))
        return _alone_s(fills, instance.limits, instance.cost)
    own = np.bincount(runs.request, weights=_alone_s(runs, instance.limits, instance.cost))
    pauses = np.array([sum(c.duration_s for c in r.calls) for r in instance.requests])
    return np.asarray(own + pauses, dtype=np.float64)


def _alone_s(runs: TokenRuns, limits: Limits, cost: CostModel) -> FloatArray:
    """Least time of each run's events if the request had the machine alone; ``(runs,)``."""
    fills = token_law(cost, limits.batch_tokens, per_batch_s=cost.p0)
    attention = StepLaw(cost=cost, fill_tokens=limits.fill_tokens, token_s=0.0)

    def filled(size: IntArray, cached: IntArray) -> FloatArray:
        chunks = -(-(size - cached) // limits.fill_tokens)
        return attention.fill_s(size, cached) + fills.least(size - cached, chunks)

    sizes = np.arange(no_share(runs).size, dtype=np.int64)
    decode = float(cost.token_time(1)) + cost.d0 + attention.decode_s(sizes)
    return event_times(runs, filled, decode)
