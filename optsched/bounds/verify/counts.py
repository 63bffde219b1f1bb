"""Least number of batches of every schedule, from the arguments that a certificate may name.

Whatever is counted needs a batch, of which only so much fits into one. What no schedule
has in its first h nor its last t batches lies in N - h - t of them, so N >= h + t + the batches
that it needs; provided there is any of it, or nothing would force h + t batches.
"""

from __future__ import annotations

from collections.abc import Iterable

from optsched.bounds.verify.events import (
    EventCounts,
    Stretch,
    inner,
    pages_of,
    total_pages,
)
from optsched.bounds.verify.knapsack import richest_batch
from optsched.bounds.verify.refuted import hold
from optsched.bounds.verify.workload import Workload
from optsched.certificate import (
    Count,
    MemoryCount,
    PromptCount,
    StepCount,
    TokenCount,
    WeightCount,
)

_MOST_ROUNDING = 10_000


def batches(workload: Workload, count: Count) -> int:
    """N0 by the argument ``count``; :class:`RefutedError` if it does not apply."""
    if isinstance(count, MemoryCount):
        return _memory(workload, count)
    if isinstance(count, WeightCount):
        return _weights(workload, count)
    limits, events = workload.limits, workload.stretches
    if isinstance(count, TokenCount):
        leading = [(s.after, s.new) for s in events]
        return _before_tail(events, leading, 1, count.tail, limits.batch_tokens)
    if isinstance(count, PromptCount):
        leading = [(s.after, s.new - (s.before > 0)) for s in events]
        return _before_tail(events, leading, 0, count.tail, limits.fill_tokens)
    if isinstance(count, StepCount):
        hold(limits.batch_requests is not None, "the instance has no limit on requests per batch")
        assert limits.batch_requests is not None
        leading = [(s.after, pages_of(s.new, limits.fill_tokens)) for s in events]
        return _before_tail(events, leading, 1, count.tail, limits.batch_requests)
    return max(s.earliest + s.after for s in events)


def _before_tail(
    events: Iterable[Stretch], leading: list[tuple[int, int]], later: int, tail: int, capacity: int
) -> int:
    """t + ceil(use / capacity) with the use that has at least t = ``tail`` batches after it.

    ``leading`` holds, per stretch, the batches after its first event and the use up to it;
    ``later`` is the use of each further event.
    """
    hold(tail >= 0, f"a tail of {tail} batches is negative")
    use = sum(amount for after, amount in leading if after >= tail)
    use += later * sum(max(0, min(s.events - 1, s.after - tail)) for s in events)
    hold(use > 0, f"nothing lies before the last {tail} batches")
    return tail + -(-use // capacity)


def _memory(workload: Workload, count: MemoryCount) -> int:
    """h + t + what the events away from both ends need, by a dual feasible function."""
    cap, block = workload.cap, workload.limits.block_tokens
    z, k = count.threshold_pages, count.rounding
    hold(min(count.head, count.tail, z, k) >= 0, "a number of the argument is negative")
    # Two events of more than cap - z pages, or one and one of z pages or more, exceed the cap.
    hold(2 * z <= cap, f"a threshold of {z} pages is more than half of {cap}")
    kept = list(inner(workload.stretches, count.head, count.tail))
    hold(bool(kept), "no event lies away from both ends")
    if not z and not k:
        pages = sum(total_pages(low, high, block) for low, high in kept)
        return count.head + count.tail + -(-pages // cap)
    counts, largest = EventCounts(kept), cap - z
    full = counts.between(largest + 1, cap, block)
    if not k:
        clipped = [
            (max(low, (z - 1) * block + 1), min(high, largest * block)) for low, high in kept
        ]
        use = full * cap + sum(total_pages(a, b, block) for a, b in clipped if a <= b)
        return count.head + count.tail + -(-use // cap)
    hold(k <= _MOST_ROUNDING, f"a rounding of more than {_MOST_ROUNDING} is too long to check")
    # u_k(x) = x if x (k + 1) is whole, else floor(x (k + 1)) / k, in units of 1 / k (k + 1).
    use = full * k * (k + 1)
    for whole in range(1, k + 2):
        low, high = -(-whole * cap // (k + 1)), -(-(whole + 1) * cap // (k + 1)) - 1
        events = counts.between(max(low, z), min(high, largest), block)
        use += events * whole * (k + 1)
        if whole * cap % (k + 1) == 0 and z <= low <= largest:
            use -= counts.between(low, low, block) * whole
    return count.head + count.tail + -(-use // (k * (k + 1)))


def _weights(workload: Workload, count: WeightCount) -> int:
    """ceil(sum of weights / weight of the richest batch)."""
    counts = EventCounts((s.low, s.high) for s in workload.stretches)
    found = [
        (pages, weight, counts.between(pages, pages, workload.limits.block_tokens))
        for pages, weight in zip(count.pages, count.weights, strict=True)
    ]
    priced = [(pages, weight, events) for pages, weight, events in found if weight and events]
    hold(bool(priced), "no event has a weight")
    richest = richest_batch(priced, workload.cap, workload.most_steps)
    return -(-sum(weight * number for _, weight, number in priced) // richest)


def prefill_batches(workload: Workload) -> int:
    """Every schedule has at least this many batches with a prefill."""
    prefill = sum(s.new - (s.before > 0) for s in workload.stretches)
    return max(first_fill_batches(workload), -(-prefill // workload.limits.fill_tokens))


def first_fill_batches(workload: Workload) -> int:
    """Every schedule has at least this many batches with a part of a first fill, up to the last
    first token."""
    limits, block = workload.limits, workload.limits.block_tokens
    prompts = [own[0].low for own in workload.events]
    chunks = [-(-tokens // limits.fill_tokens) for tokens in prompts]
    found = [
        -(-sum(prompts) // limits.fill_tokens),
        # The first token of a request is generated by a prefill.
        -(-sum(pages_of(tokens, block) for tokens in prompts) // workload.cap),
        max(chunks),
    ]
    if limits.batch_requests is not None:
        found.append(-(-sum(chunks) // limits.batch_requests))
    return max(found)


def decode_batches(workload: Workload) -> int:
    """Batches that hold the events which a single decode can make, all but the first of each
    stretch. Removing one event lowers this by at most one."""
    limits, block, cap = workload.limits, workload.limits.block_tokens, workload.cap
    later = [(s.low + 1, s.high) for s in workload.stretches if s.high > s.low]
    events = sum(high - low + 1 for low, high in later)
    longest = max(sum(s.events - 1 for s in own) for own in workload.events)
    # Two events of more than half of the pages never share a batch.
    smallest = (cap // 2) * block + 1
    found = [
        -(-sum(total_pages(low, high, block) for low, high in later) // cap),
        -(-events // limits.batch_tokens),
        longest,
        sum(max(0, high - max(low, smallest) + 1) for low, high in later),
    ]
    if limits.batch_requests is not None:
        found.append(-(-events // limits.batch_requests))
    return max(found)
