"""B5, arrivals: what arrives late cannot be done early.

For any time tau, the requests that arrive at tau or later are processed only in batches that start
at tau or later. Drop everything else from those batches: each gets no longer, empty ones vanish,
and what is left is a schedule of these requests alone. So with LB any bound that ignores arrivals

    T >= tau + LB({requests with arrival >= tau})      tau counted from the earliest arrival

for each tau. LB is first screened at all arrivals by suffix sums, with the parts of B1 that are
sums or maxima over requests and every line below the law; then all bounds are evaluated at the
best of them. ``late_prices`` has the bounds by prices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from optsched.bounds.piecewise import Workload, decode_share
from optsched.bounds.sizes import run_pages
from optsched.bounds.token_time import lines
from optsched.bounds.work import run_work, step_law

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
_EVALUATED = 4
_MANY_RUNS = 2000


def arrivals(
    workload: Workload, release_s: FloatArray, offline: Callable[[Workload], float]
) -> float:
    """B5 in seconds; ``release_s``, shape ``(requests,)``, are arrivals from the earliest one.

    ``offline`` bounds a workload whose requests are all there from the start.
    """
    runs = workload.runs
    times, screened = screened_starts(workload, release_s)
    evaluated = _EVALUATED if runs.size.size <= _MANY_RUNS else 1
    best = np.argsort(-screened, kind="stable")[:evaluated]
    found = [float(screened[best[0]])]
    for tau in times[best]:
        late = runs.select(release_s[runs.request] >= tau)
        found.append(float(tau) + offline(replace(workload, runs=late)))
    return max(found)


def screened_starts(workload: Workload, release_s: FloatArray) -> tuple[FloatArray, FloatArray]:
    """All tau > 0 at which requests arrive, ascending, and what a quick bound gives from each on.

    What arrives first leaves all requests, which is no case for arrivals.
    """
    runs, times = workload.runs, np.unique(release_s)[1:]
    late = replace(workload, runs=runs.select(release_s[runs.request] > 0))
    return times, _screen(late, release_s, times)


def _screen(workload: Workload, release_s: FloatArray, times: FloatArray) -> FloatArray:
    """tau + a quick LB of what arrives at tau or later, for each tau of ``times``, ascending;
    all runs of ``workload`` arrive at one of them."""
    runs, limits, cost = workload.runs, workload.limits, workload.cost
    slot = np.searchsorted(times, release_s[runs.request])
    slots = times.size

    def late_sum(amount: IntArray) -> IntArray:
        total = np.zeros(slots, dtype=np.int64)
        np.add.at(total, slot, amount)
        return np.cumsum(total[::-1])[::-1]

    fresh = runs.size - runs.cached
    prefill = -(-late_sum(np.where(runs.first, fresh, fresh - 1)) // limits.fill_tokens)
    cap = limits.kv_tokens // limits.block_tokens
    chain = np.zeros(slots, dtype=np.int64)
    np.maximum.at(chain, slot, runs.earliest + runs.remaining)
    counts = [
        -(-late_sum(run_pages(runs, limits.block_tokens)) // cap),
        -(-late_sum(fresh + runs.count - 1) // limits.batch_tokens),
        prefill,
        np.maximum.accumulate(chain[::-1])[::-1],
    ]
    if limits.batch_requests is not None:
        counts.append(-(-late_sum(runs.count) // limits.batch_requests))
    batches = np.max(counts, axis=0)
    share = decode_share(workload)
    best = np.zeros(slots)
    for line in lines(workload.law):
        own = run_work(runs, step_law(cost, limits, line, rereads=True), share)
        own_late = np.cumsum(np.bincount(slot, weights=own, minlength=slots)[::-1])[::-1]
        best = np.maximum(best, line.intercept_s * batches + own_late)
    screened: FloatArray = times + best + cost.p0 * prefill
    return screened
