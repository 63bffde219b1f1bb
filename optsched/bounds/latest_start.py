"""From which arrival on the bound B5 is best: tau + a bound for what arrives then or later.

All arrivals are screened by suffix sums, in whole numbers, with simple counts and every line below
the law; the best few are then bounded by all that is known.
"""

from __future__ import annotations

from itertools import accumulate

import msgspec

from optsched.bounds.time_arguments import best_time, exact_lines
from optsched.bounds.verify.events import pages_of, total_pages
from optsched.bounds.verify.steps import steps_of
from optsched.bounds.verify.units import Units, cost_doubles, units_for
from optsched.bounds.verify.verdict import proven_bound
from optsched.bounds.verify.work import own_work
from optsched.bounds.verify.workload import Workload
from optsched.certificate import ArrivalTime, Line
from optsched.instance import Instance

_FEW_REQUESTS = 2000


def best_arrivals(instance: Instance) -> ArrivalTime:
    """The start from which the requests that arrive then or later prove the most, of those tried.

    The instance must have more than one arrival time.
    """
    starts = sorted({r.arrival_s for r in instance.requests})[1:]
    screened = _screened(instance, starts)
    few = 8 if len(instance) <= _FEW_REQUESTS else 1
    ranked = sorted(range(len(starts)), key=screened.__getitem__, reverse=True)[:few]
    tried = []
    for index in ranked:
        late = tuple(r for r in instance.requests if r.arrival_s >= starts[index])
        remaining = msgspec.structs.replace(instance, requests=late)
        tried.append(ArrivalTime(from_s=starts[index], late=best_time(remaining)))
    return max(tried, key=lambda argument: proven_bound(instance, argument))


def _screened(instance: Instance, starts: list[float]) -> list[float]:
    """A quick bound for each start, in seconds."""
    requests = sorted(instance.requests, key=lambda r: -r.arrival_s)
    workload = Workload(requests, instance.limits, instance.cost)
    lines = exact_lines(instance.cost, instance.limits.batch_tokens)
    doubles = [x for line in lines for x in (line.intercept_s, line.slope_s, line.excess_s)]
    units = units_for([*cost_doubles(instance.cost), *doubles], workload.cap)
    batches, prefills = _suffix_counts(workload)
    best = [0] * len(requests)
    for line in lines:
        own = accumulate(_own_work(workload, line, units))
        intercept = units.of(line.intercept_s)
        best = [max(b, intercept * n + w) for b, n, w in zip(best, batches, own, strict=True)]
    setup = units.of(instance.cost.p0)
    # Requests are sorted by arrival, last first: those from a start on are a prefix.
    last = {request.arrival_s: position for position, request in enumerate(requests)}
    return [
        start + float(units.seconds(best[last[start]] + setup * prefills[last[start]]))
        for start in starts
    ]


def _suffix_counts(workload: Workload) -> tuple[list[int], list[int]]:
    """Batches, and batches with a prefill, that the first 1, 2, .. requests need at least."""
    limits, block = workload.limits, workload.limits.block_tokens
    events = workload.events
    pages = accumulate(sum(total_pages(s.low, s.high, block) for s in own) for own in events)
    tokens = accumulate(sum(s.new + s.events - 1 for s in own) for own in events)
    prompts = list(accumulate(sum(s.new - (s.before > 0) for s in own) for own in events))
    chains = accumulate((own[0].earliest + own[0].after for own in events), max)
    prefills = [pages_of(n, limits.fill_tokens) for n in prompts]
    counts = [
        max(-(-p // workload.cap), -(-t // limits.batch_tokens), c, n)
        for p, t, c, n in zip(pages, tokens, chains, prefills, strict=True)
    ]
    if limits.batch_requests is not None:
        made = accumulate(sum(s.events for s in own) for own in events)
        counts = [max(n, -(-e // limits.batch_requests)) for n, e in zip(counts, made, strict=True)]
    return counts, prefills


def _own_work(workload: Workload, line: Line, units: Units) -> list[int]:
    """Work of each request under ``line``, decodes paying their share of d0."""
    limits, cap = workload.limits, workload.cap
    steps = steps_of(workload.cost, limits.fill_tokens, units, units.of(line.slope_s), line)
    decode = steps.decodes(
        per_page=units.of(workload.cost.d0) // cap, block_tokens=limits.block_tokens
    )
    return own_work(workload, steps.fill, decode, steps.floor)
