"""Work and memory with calls held, swapped or discarded, in units (B9).

The argument is that of ``optsched.bounds.held_calls``; here every event is priced in whole numbers,
times ``HELD_PARTS`` and the pages of memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from optsched.bounds.verify.counts import prefill_batches
from optsched.bounds.verify.events import pages_of
from optsched.bounds.verify.law import law_of
from optsched.bounds.verify.refuted import hold
from optsched.bounds.verify.steps import steps_of
from optsched.bounds.verify.units import Units
from optsched.bounds.verify.workload import Workload
from optsched.certificate import HELD_PARTS, HeldTime
from optsched.instance import Call, Request

_MOST_EVENTS = 1_000_000


def held_time(workload: Workload, argument: HeldTime, count: int, units: Units) -> Fraction:
    """Seconds that every schedule of at least ``count`` batches takes."""
    line, limits, cost, cap = argument.line, workload.limits, workload.cost, workload.cap
    block = limits.block_tokens
    tokens = sum(r.output_tokens for r in workload.requests)
    hold(tokens <= _MOST_EVENTS, f"{tokens} token events are too many to be checked one by one")
    law = law_of(cost, limits.batch_tokens, units)
    hold(law.above(line, units, first=1), "the line is not below the batch-time law")
    intercept, once, copy = (
        units.of(x) for x in (line.intercept_s, line.slope_s, 2 * Fraction(cost.swap_tok))
    )
    steps = steps_of(cost, limits.fill_tokens, units, once)
    decode = steps.decodes()
    memory = argument.memory_parts
    work = cap * (HELD_PARTS - memory)
    total = work * (intercept * count + units.of(cost.p0) * prefill_batches(workload))

    def append(size: int, before: int) -> int:
        if size - before == 1:
            return decode(size)
        return min(steps.fill(size, before), steps.fill(size - 1, before) + decode(size))

    for request in workload.requests:
        for before, size, call in _events(request):
            pages = pages_of(size, block)
            total += memory * intercept * pages
            if before == 0:
                total += work * steps.fill(size) + memory * pages * once
                continue
            refill = min(steps.fill(size), steps.fill(size - 1) + decode(size))
            lost = work * refill + memory * pages * once
            if call is None:
                total += min(lost, (work + memory * pages) * decode(size))
                continue
            kept = work * append(size, before) + memory * pages * once
            held = memory * pages_of(before, block) * units.of(call.duration_s)
            away = work * copy * before if before <= limits.host_kv_tokens else held
            total += min(lost, kept + min(held, away))
    return units.seconds(total) / (HELD_PARTS * cap)


def _events(request: Request) -> Iterator[tuple[int, int, Call | None]]:
    """KV tokens after the event before and after this one, and the call between them."""
    calls = {call.after_tokens: call for call in request.calls}
    yield 0, request.prompt_tokens, None
    before = request.prompt_tokens
    for made in range(1, request.output_tokens):
        call = calls.get(made)
        size = before + 1 + (call.response_tokens if call else 0)
        yield before, size, call
        before = size
