"""L3, phases: prompts are done before the last decodes, so tokens cannot spread evenly.

L1 balances all new tokens over all batches. But let Q be the requests that need at least t more
batches after their first token, and L the batch of the last first token of Q. Then

    batches 1 .. L    process all prompts of Q, so L >= L0 (their prefill batches), and x1 tokens
    the others        N2 >= max(t, N0 - L) batches with x2 = X - x1 new tokens, none of them a
                      prompt token of Q: x2 <= U = X - sum over Q of I

Without calls more is known. The k-th first token of Q comes in batch f_k = ceil(sum of the k
smallest prompts / F) at the earliest, F = min(C, P), so the decodes of Q up to L number at most
sum over k of min(longest, (L - f_k)^+), and the rest is part of x2. And a batch has at most d
events of Q after its first token, each holding more than the shortest prompt of Q, so
N2 >= (x2 - tokens of others) / d.

For lines a1 + b1 n and a2 + b2 n below g, with intercepts >= 0,

    sum over batches of g(new tokens) >= a1 L + b1 x1 + a2 N2 + b2 x2

For each L the right side is convex and piecewise linear in x2 with one kink: its minimum is at
the kink or at an end. T >= attention and set-ups (L1) + min over L of the best pair of lines. From
L = max(N0, f_last + longest) on nothing relaxes any more, and larger L only cost more. Where the
range of L is long it is cut into intervals, each with the weaker end of every term.

The prompts of Q lie in the first phase, so what the line a1 + b1 n leaves out beyond its knee may
be charged to their chunks as in L4 (``work``): sum over Q of fill with excess - fill without.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optsched.bounds.batch_count import prefill_batches
from optsched.bounds.events import TokenRuns
from optsched.bounds.piecewise import Workload, attention_and_setups
from optsched.bounds.token_time import Line, lines
from optsched.bounds.work import step_law
from optsched.instance import Limits

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
_MOST_INTERVALS = 2000
_MOST_THRESHOLDS = 4


def phases(workload: Workload, batches: int) -> float:
    """L3 with N0 = ``batches``, in seconds; the best over thresholds t."""
    remaining = workload.runs.remaining[workload.runs.first]
    levels = np.unique(remaining)
    picked = levels[np.linspace(0, levels.size - 1, _MOST_THRESHOLDS).astype(np.int64)]
    supports = lines(workload.law)
    tokens = max(_two_phases(workload, int(t), batches, supports) for t in np.unique(picked))
    return attention_and_setups(workload) + tokens


def _two_phases(workload: Workload, t: int, batches: int, supports: tuple[Line, ...]) -> float:
    """Least sum of g over new tokens, split at the last first token of requests that need at
    least ``t`` more batches; seconds."""
    runs, limits = workload.runs, workload.limits
    late = runs.select(runs.first & (runs.remaining >= t))
    plain = bool(runs.first.all())
    total, prompts = workload.new_tokens, int(late.size.sum())
    rest = int((late.count - 1).sum()) if plain else 0
    others = total - prompts - rest
    first_at = -(-np.cumsum(np.sort(late.size)) // limits.fill_tokens)
    longest = int(late.remaining.max())
    per_batch = _most_decodes(late, limits) if plain else None

    start = prefill_batches(late, limits)
    end = max(start, batches, int(first_at[-1]) + longest)
    edges = np.unique(np.linspace(start, end + 1, _MOST_INTERVALS + 1).astype(np.int64))
    low, high = edges[:-1], edges[1:] - 1
    after = np.maximum(t, batches - high)
    most_before = _decodes_before(high, first_at, longest)
    x_low = np.maximum(0, rest - most_before) if plain else np.zeros_like(high)
    x_high = np.full_like(high, total - prompts)
    x_low = np.minimum(x_low, x_high)
    kink = np.clip(others + per_batch * after, x_low, x_high) if per_batch else x_low

    def second_batches(x2: IntArray) -> FloatArray:
        needed = after.astype(np.float64)
        return np.maximum(needed, (x2 - others) / per_batch) if per_batch else needed

    candidates = [(x2.astype(np.float64), second_batches(x2)) for x2 in (x_low, kink, x_high)]
    best = np.zeros(low.size)
    for one in supports:
        again = _rereads(late, workload, one)
        for two in supports:
            least = np.min(
                [
                    one.slope_s * (total - x2) + two.intercept_s * count + two.slope_s * x2
                    for x2, count in candidates
                ],
                axis=0,
            )
            best = np.maximum(best, one.intercept_s * low + least + again)
    return float(best.min())


def _rereads(late: TokenRuns, workload: Workload, line: Line) -> float:
    """What the first fills of these requests cost more by the excess of ``line`` (L4)."""
    cost, limits, nothing = workload.cost, workload.limits, np.zeros_like(late.size)
    with_excess = step_law(cost, limits, line, rereads=True).fill_s(late.size, nothing)
    without = step_law(cost, limits, line).fill_s(late.size, nothing)
    return float((with_excess - without).sum())


def _most_decodes(late: TokenRuns, limits: Limits) -> int:
    """Most events after the first token of these requests in one batch."""
    pages = limits.pages(int(late.size.min()) + 1) // limits.block_tokens
    fit = limits.kv_tokens // limits.block_tokens // pages
    most = min(fit, late.size.size, limits.batch_tokens)
    return max(1, most if limits.batch_requests is None else min(most, limits.batch_requests))


def _decodes_before(batch: IntArray, first_at: IntArray, longest: int) -> IntArray:
    """sum over k of min(longest, (L - f_k)^+) for each L of ``batch``; f ascending."""
    upto = np.concatenate(([0], np.cumsum(first_at)))
    started = np.searchsorted(first_at, batch, side="right")
    full = np.searchsorted(first_at, batch - longest, side="right")
    running = started - full
    return np.asarray(full * longest + running * batch - (upto[started] - upto[full]))
