"""Which counting argument a certificate names: all are searched, the best is kept.

The search is free to miss a better one; what counts is what the check in ``verify`` makes of the
choice. Everything is whole numbers.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from optsched.bounds.configuration import (
    best_weights,
    items,
    worth_solving,
)
from optsched.bounds.events import TokenRuns, token_runs
from optsched.bounds.packing import occurring, rounded
from optsched.bounds.sizes import pages_by_position
from optsched.bounds.verify.counts import batches
from optsched.bounds.verify.workload import Workload
from optsched.certificate import (
    ChainCount,
    Count,
    MemoryCount,
    PromptCount,
    StepCount,
    TokenCount,
    WeightCount,
)
from optsched.instance import Instance, Limits

IntArray = NDArray[np.int64]
_MOST_ROUNDINGS = 64
_MOST_COMBINED = 12
_MOST_THRESHOLDS = 48
_MOST_ENDS = 7
_FEW_SIZES = 500


def best_count(instance: Instance) -> tuple[int, Count]:
    """The argument that proves the most batches, of those tried, and how many."""
    workload = Workload(instance.requests, instance.limits, instance.cost)
    runs, limits = token_runs(instance), instance.limits
    tried: list[Count] = [MemoryCount(), ChainCount(), MemoryCount(rounding=1)]
    tried += [TokenCount(tail=_best_tail(_token_uses(workload), limits.batch_tokens))]
    tried += [PromptCount(tail=_best_tail(_prompt_uses(workload), limits.fill_tokens))]
    if limits.batch_requests is not None:
        tried += [StepCount(tail=_best_tail(_step_uses(workload), limits.batch_requests))]
    tried += [_best_ends(runs, limits), _best_packing(runs, limits, 0, 0)]
    tried += list(_away_from_the_ends(runs, limits))
    problem = items(runs, limits)
    if worth_solving(problem):
        _, weights = best_weights(problem)
        tried += [WeightCount(pages=tuple(problem.sizes.tolist()), weights=tuple(weights.tolist()))]
    proven = [(batches(workload, count), count) for count in tried]
    return max(proven, key=lambda pair: pair[0])


def _token_uses(workload: Workload) -> Iterator[tuple[int, int, int]]:
    return ((s.after, s.new, s.events - 1) for s in workload.stretches)


def _prompt_uses(workload: Workload) -> Iterator[tuple[int, int, int]]:
    return ((s.after, s.new - (s.before > 0), 0) for s in workload.stretches)


def _step_uses(workload: Workload) -> Iterator[tuple[int, int, int]]:
    fill = workload.limits.fill_tokens
    return ((s.after, -(-s.new // fill), s.events - 1) for s in workload.stretches)


def _best_tail(uses: Iterator[tuple[int, int, int]], capacity: int) -> int:
    """The t with the largest t + ceil(use that has at least t batches after it / capacity).

    Each of ``uses`` is (t, amount, more): an amount that has t batches after it, and one more of
    each of t - 1 .. t - ``more``. Between their ends the use is linear in t, so these decide.
    """
    amounts: dict[int, int] = {}
    turns: dict[int, int] = {}  # of the use that each step down adds
    for after, amount, more in uses:
        amounts[after] = amounts.get(after, 0) + amount
        turns[after] = turns.get(after, 0) + 1
        turns[after - more] = turns.get(after - more, 0) - 1
    levels = sorted(turns, reverse=True)
    best, tail, use, growth, above = 0, 0, 0, 0, levels[0]
    for level in levels:
        if level + 1 < above:
            last = use + growth * (above - level - 1)
            best, tail = max((best, tail), (level + 1 - (-last // capacity), level + 1))
        use += growth * (above - level) + amounts.get(level, 0)
        best, tail = max((best, tail), (level - (-use // capacity), level))
        growth += turns[level]
        above = level
    return tail


def _best_ends(runs: TokenRuns, limits: Limits) -> MemoryCount:
    """Ends h and t with the largest h + t + pages of the events away from both, by coordinates."""
    cap, b = limits.kv_tokens // limits.block_tokens, limits.block_tokens
    head = tail = 0
    for _ in range(2):
        kept = runs.trimmed(0, tail)
        pages = pages_by_position(kept, kept.earliest, b)
        beyond = np.cumsum(pages[::-1])[::-1][1:]
        head = int((np.arange(beyond.size) - (-beyond // cap)).argmax())
        kept = runs.trimmed(head, 0)
        pages = pages_by_position(kept, int(kept.remaining.max()) - kept.remaining, b)
        beyond = np.cumsum(pages)[::-1]
        tail = int((np.arange(beyond.size) - (-beyond // cap)).argmax())
    return MemoryCount(head=head, tail=tail)


def _best_packing(runs: TokenRuns, limits: Limits, head: int, tail: int) -> MemoryCount:
    """The best threshold and rounding for events away from both ends."""
    pages, counts = occurring(runs.trimmed(head, tail), limits)
    cap = limits.kv_tokens // limits.block_tokens
    small = pages[pages <= cap // 2]
    if small.size > _MOST_THRESHOLDS:
        small = small[np.linspace(0, small.size - 1, _MOST_THRESHOLDS).astype(np.int64)]
    best = (0, 0, 0)  # batches, threshold, rounding
    for z in (0, *small.tolist()):
        sizes = np.where(pages > cap - z, cap, np.where(pages >= z, pages, 0))
        fit = min(_MOST_COMBINED if z else _MOST_ROUNDINGS, max(1, cap // int(pages[0])))
        area = -(-int((sizes * counts).sum()) // cap)
        roundings = [(rounded(sizes, counts, cap, k), z, k) for k in range(1, fit + 1)]
        best = max(best, (area, z, 0), *roundings)
    _, threshold, rounding = best
    return MemoryCount(head=head, tail=tail, threshold_pages=threshold, rounding=rounding)


def _away_from_the_ends(runs: TokenRuns, limits: Limits) -> Iterator[MemoryCount]:
    """Packing of the events away from few batches at either end, where there are few sizes."""
    if occurring(runs, limits)[0].size > _FEW_SIZES:
        return
    span = min(_MOST_ENDS, int((runs.earliest + runs.remaining).max()))
    for head in range(span):
        for tail in range(span):
            if (head or tail) and runs.trimmed(head, tail).events:
                yield _best_packing(runs, limits, head, tail)
