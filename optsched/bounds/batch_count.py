"""B1, batch count: how many batches every schedule has, whatever it does.

Four resources of a batch are bounded, and each token event (see ``events``) or new token uses them:

    kv        the batch of an event of S tokens holds ceil(S / b) pages of floor(M / b)
    tokens    each of the I + O - 1 + responses positions of a request is processed at least once;
              a batch processes at most C tokens
    prefill   all I prompt tokens, and R tokens per response (its last one, with the token before
              it, may end as a decode), are processed in prefill; at most P per batch
    requests  every event and every chunk needs a step; at most ``batch_requests`` per batch

so N >= ceil(use / capacity). Evictions and refills only add. Further:

    chain     a request needs ceil(I / F) batches to its first token (F = min(C, P)), and one per
              further token, more for long responses
    tails     use that lies before the last t batches of every schedule (tokens whose request has t
              more events to come) fits in N - t batches: N >= t + ceil(use / capacity). For
              prompts of requests with O >= t + 1 this is the head-tail bound.
    ramp      events that no schedule has within its first h batches nor within its last t fit in
              N - h - t batches: N >= h + t + ceil(pages / capacity)
    majority  two events of more than half of the pages never share a batch
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optsched.bounds.configuration import configuration, items, worth_solving
from optsched.bounds.events import TokenRuns, token_runs
from optsched.bounds.packing import packing
from optsched.bounds.sizes import pages_by_position, run_pages, size_counts
from optsched.instance import Instance, Limits

IntArray = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class BatchCount:
    """Least number of batches, the argument that proves it, and what each argument gives."""

    batches: int
    proof: str
    parts: dict[str, int]


def batch_count(instance: Instance) -> BatchCount:
    """N0: every schedule of ``instance`` has at least this many batches (B1 and B2)."""
    return counted(token_runs(instance), instance.limits)


def counted(runs: TokenRuns, limits: Limits) -> BatchCount:
    """The best of B1 and B2 for the events of ``runs``."""
    parts = {f"B1 {name}": n for name, n in counting(runs, limits).items()}
    parts |= {f"B2 {name}": n for name, n in packing(runs, limits).items()}
    problem = items(runs, limits)
    if worth_solving(problem):
        parts["B2 configuration"] = configuration(problem, max(parts.values()))
    proof = max(parts, key=parts.__getitem__)
    return BatchCount(batches=parts[proof], proof=proof, parts=parts)


def counting(runs: TokenRuns, limits: Limits) -> dict[str, int]:
    """What each argument of B1 gives for ``runs``, by name."""
    cap = limits.kv_tokens // limits.block_tokens
    pages = int(run_pages(runs, limits.block_tokens).sum())
    parts = {
        "memory area": _ceil(pages, cap),
        "chain": int((runs.earliest + runs.remaining).max()),
        "majority": int(size_counts(runs, limits.block_tokens)[cap // 2 + 1 :].sum()),
        "memory ramp": _ramp(runs, limits),
        "tokens": _with_tail(*_new_tokens(runs), limits.batch_tokens),
        "prompts": _with_tail(*_prefill_tokens(runs), limits.fill_tokens),
    }
    if limits.batch_requests is not None:
        parts["requests"] = _with_tail(*_steps(runs, limits), limits.batch_requests)
    return parts


def prefill_batches(runs: TokenRuns, limits: Limits) -> int:
    """Every schedule has at least this many batches with a prefill.

    First fills are prefill whatever happens: their tokens, the pages of the events that end them,
    and the chunks of the longest one; responses add their R tokens.
    """
    cap, b = limits.kv_tokens // limits.block_tokens, limits.block_tokens
    first = runs.select(runs.first)
    amount, _ = _prefill_tokens(runs)
    chunks = -(-first.size // limits.fill_tokens)
    counts = [
        _ceil(int(amount.sum()), limits.fill_tokens),
        _ceil(int((-(-first.size // b)).sum()), cap),
        int(chunks.max()),
    ]
    if limits.batch_requests is not None:
        counts.append(_ceil(int(chunks.sum()), limits.batch_requests))
    return max(counts)


def event_batches(runs: TokenRuns, limits: Limits) -> int:
    """Every schedule has at least this many batches with one of the events of ``runs``, each of
    which takes one step of at least one token. Removing an event lowers the count by at most 1.
    """
    if not runs.events:
        return 0
    cap = limits.kv_tokens // limits.block_tokens
    chain = np.bincount(runs.request, weights=runs.count)
    counts = [
        _ceil(int(run_pages(runs, limits.block_tokens).sum()), cap),
        _ceil(runs.events, limits.batch_tokens),
        int(chain.max()),
        int(size_counts(runs, limits.block_tokens)[cap // 2 + 1 :].sum()),
    ]
    if limits.batch_requests is not None:
        counts.append(_ceil(runs.events, limits.batch_requests))
    return max(counts)


def _ceil(use: int, capacity: int) -> int:
    return -(-use // capacity)


def _new_tokens(runs: TokenRuns) -> tuple[IntArray, IntArray]:
    """Tokens by number of batches that must follow them: (amount, remaining), any order.

    The ``size - cached`` new tokens of a run's first event are processed no later than it; each
    further event has one.
    """
    later = _spread(runs.remaining - 1, runs.count - 1)
    remaining = np.concatenate((runs.remaining, np.arange(later.size)))
    return np.concatenate((runs.size - runs.cached, later)), remaining


def _prefill_tokens(runs: TokenRuns) -> tuple[IntArray, IntArray]:
    """Prefill tokens by number of batches that must follow them: (amount, remaining)."""
    fresh = runs.size - runs.cached
    return np.where(runs.first, fresh, fresh - 1), runs.remaining


def _steps(runs: TokenRuns, limits: Limits) -> tuple[IntArray, IntArray]:
    """Steps by number of batches that must follow them: (amount, remaining)."""
    later = _spread(runs.remaining - 1, runs.count - 1)
    remaining = np.concatenate((runs.remaining, np.arange(later.size)))
    chunks = -(-(runs.size - runs.cached) // limits.fill_tokens)
    return np.concatenate((chunks, later)), remaining


def _spread(top: IntArray, count: IntArray) -> IntArray:
    """How many of the ranges top, top - 1, .. (``count`` numbers each) contain 0, 1, 2 .."""
    change = np.zeros(int(max(top.max(), 0)) + 2, dtype=np.int64)
    rows = count > 0
    np.add.at(change, (top - count + 1)[rows], 1)
    np.add.at(change, top[rows] + 1, -1)
    return np.cumsum(change)[:-1]


def _with_tail(amount: IntArray, remaining: IntArray, capacity: int) -> int:
    """Largest t + ceil(use with remaining >= t / capacity) over t >= 0."""
    use = np.zeros(int(remaining.max()) + 1, dtype=np.int64)
    np.add.at(use, remaining, amount)
    before = np.cumsum(use[::-1])[::-1]
    return int((np.arange(use.size) - (-before // capacity)).max())


def _ramp(runs: TokenRuns, limits: Limits) -> int:
    """Largest h + t + ceil(pages of events away from both ends / capacity).

    The best h for t = 0, then the best t for that h, and the best h again: any (h, t) is valid.
    """
    cap, b = limits.kv_tokens // limits.block_tokens, limits.block_tokens
    head = tail = best = 0
    for _ in range(2):
        inner = runs.trimmed(0, tail)
        by_head = pages_by_position(inner, inner.earliest, b)
        after = np.cumsum(by_head[::-1])[::-1][1:]
        total = np.arange(after.size) - (-after // cap) + tail
        head = int(total.argmax())
        best = max(best, int(total[head]))
        inner = runs.trimmed(head, 0)
        span = int(inner.remaining.max())
        by_tail = pages_by_position(inner, span - inner.remaining, b)
        before = np.cumsum(by_tail)[::-1]
        total = np.arange(before.size) - (-before // cap) + head
        tail = int(total.argmax())
        best = max(best, int(total[tail]))
    return best
