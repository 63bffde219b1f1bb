"""B6: the k-th time that is reached, first tokens or ends of requests, for every k.

**Shared machine.** In a batch each request pays a charge (``charges``), all together no more than
the batch takes, and none before it arrives. So any schedule is one of a machine that serves one
charge after the other, interrupted at will, with ends no later. There shortest remaining charge
first has the most jobs done at every time (Schrage 1968), so the k-th end is at least its k-th end.

**k smallest.** By the k-th end at least k requests are done, so at least k times the least of any
that some k requests need is behind: batches (the k-th smallest chain; pages, tokens, prefill tokens
and steps over what a batch has), work, and set-ups of prefills.

**Alone.** Request i ends no sooner than its arrival, pauses and own time; the k-th, sorted.

Each holds for every k, so their largest does, and so does the sum over k.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate

from optsched.bounds.verify.clock.charges import charges_of
from optsched.bounds.verify.clock.times import Clock
from optsched.bounds.verify.events import pages_of, total_pages
from optsched.bounds.verify.law import law_of
from optsched.bounds.verify.refuted import hold
from optsched.bounds.verify.steps import steps_of
from optsched.bounds.verify.work import own_work
from optsched.clock_certificate import Order, OrderedMean, SharedOrder, SmallestOrder
from optsched.line import Line


def ordered_mean(clock: Clock, argument: OrderedMean) -> Fraction:
    """The least mean, in seconds from arrival."""
    kth = [order_times(clock, order) for order in argument.orders]
    return clock.mean(sum(max(times) for times in zip(*kth, strict=True)))


def order_times(clock: Clock, order: Order) -> Sequence[int]:
    """Lower bounds on the k-th time, k = 1, 2, .., in units from the earliest arrival."""
    if isinstance(order, SharedOrder):
        own = charges_of(clock.workload, order.line, order.shares, clock.units)
        return shortest_first(clock.releases, own.first if clock.first_tokens else own.whole)
    if isinstance(order, SmallestOrder):
        return _smallest(clock, order.line)
    return sorted(release + own for release, own in zip(clock.releases, clock.alone, strict=True))


def shortest_first(releases: Sequence[int], work: Sequence[int]) -> list[int]:
    """Ends under shortest remaining work first, ascending."""
    order = sorted(range(len(work)), key=releases.__getitem__)
    waiting: list[int] = []
    ends: list[int] = []
    now = arrived = 0
    while waiting or arrived < len(order):
        if not waiting:
            now = max(now, releases[order[arrived]])
        while arrived < len(order) and releases[order[arrived]] <= now:
            heapq.heappush(waiting, work[order[arrived]])
            arrived += 1
        shortest = waiting[0]
        until = releases[order[arrived]] if arrived < len(order) else now + shortest
        if now + shortest <= until:
            now += heapq.heappop(waiting)
            ends.append(now)
        else:
            heapq.heapreplace(waiting, shortest - (until - now))
            now = until
    return ends


def _smallest(clock: Clock, line: Line) -> list[int]:
    """a (batches) + p0 (batches with a prefill) + work of the k smallest."""
    workload, units = clock.workload, clock.units
    limits, cost, cap = workload.limits, workload.cost, workload.cap
    law = law_of(cost, limits.batch_tokens, units)
    hold(law.above(line, units, first=1), "the line is not below the batch-time law")
    block, fill_tokens = limits.block_tokens, limits.fill_tokens
    steps = steps_of(cost, fill_tokens, units, units.of(line.slope_s), line)
    decode = steps.decodes(per_page=units.of(cost.d0) // cap, block_tokens=block)
    events = workload.events
    prompts = [own[0].low for own in events]
    chunks = [pages_of(size, fill_tokens) for size in prompts]
    if clock.first_tokens:
        work = [steps.fill(size) for size in prompts]
        chains, uses = chunks, [([pages_of(size, block) for size in prompts], cap)]
        uses.append((prompts, limits.batch_tokens))
        taken = chunks
    else:
        work = own_work(workload, steps.fill, decode, steps.floor)
        chains = [own[0].earliest + own[0].after for own in events]
        pages = [sum(total_pages(s.low, s.high, block) for s in own) for own in events]
        uses = [(pages, cap)]
        uses.append(
            ([sum(s.new + s.events - 1 for s in own) for own in events], limits.batch_tokens)
        )
        taken = [c + sum(s.events for s in own) - 1 for c, own in zip(chunks, events, strict=True)]
    uses.append((prompts, fill_tokens))
    if limits.batch_requests is not None:
        uses.append((taken, limits.batch_requests))
    needed = [sorted(chains), *(_upto(amount, capacity) for amount, capacity in uses)]
    prefills = _upto(prompts, fill_tokens)
    a, p0 = units.of(line.intercept_s), units.of(cost.p0)
    return [
        a * max(count) + p0 * prefill + own
        for count, prefill, own in zip(
            zip(*needed, strict=True), prefills, accumulate(sorted(work)), strict=True
        )
    ]


def _upto(amount: list[int], capacity: int) -> list[int]:
    """ceil(k smallest of ``amount`` / ``capacity``) for k = 1, 2, .."""
    return [-(-total // capacity) for total in accumulate(sorted(amount))]
