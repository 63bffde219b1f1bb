"""What a request pays of the batches that it is in, so that no batch is paid for twice (B6).

Let a + b n + e (n - knee)^+ be a line below the law. A batch of n tokens takes at least that, its
steps' attention, d0 if it decodes and p0 if it prefills. The part

    a m / parts   is shared by pages held, at most floor(M / b) of them
    a t / parts   by tokens processed, at most C
    a f / parts   by prefill tokens, at most F = min(C, P)
    a r / parts   by requests processed, at most ``batch_requests``

with m, t, f, r the shares of an argument; a decode also pays d0 times its part of the pages, a
prefill step p0 times its part of F. So the charges of the steps of a batch are at most its
duration, and the charge of a request is at least the least that its events cost (``work``), each
paying for the pages that it holds then. What is divided is rounded down.

Where requests are done in groups (B7) a batch that ends a group also pays a s / parts, and, if the
group's first tokens end there, a part s / parts of p0, which its prefill steps then do not share.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from optsched.bounds.verify.events import pages_of
from optsched.bounds.verify.law import law_of
from optsched.bounds.verify.refuted import hold
from optsched.bounds.verify.steps import Steps, steps_of
from optsched.bounds.verify.units import Units
from optsched.bounds.verify.work import own_work
from optsched.bounds.verify.workload import Workload
from optsched.clock_certificate import Shares
from optsched.line import Line


@dataclass(frozen=True)
class Charges:
    """In units: per request up to its ``first`` token and in ``whole``; per group a ``setup``."""

    first: list[int]
    whole: list[int]
    setup: int


def charges_of(
    workload: Workload, line: Line, shares: Shares, units: Units, *, prefill_groups: bool = False
) -> Charges:
    """Charges of all requests of ``workload``; ``prefill_groups`` if groups end in a prefill."""
    limits = workload.limits
    grouped_p0 = units.of(workload.cost.p0) * shares.setups // shares.parts if prefill_groups else 0
    fills, decodes = charged_steps(workload, line, shares, units, grouped_p0)
    intercept, parts, block = units.of(line.intercept_s), shares.parts, limits.block_tokens
    page = intercept * shares.memory // (parts * workload.cap)
    decode = decodes.decodes(
        per_page=page + units.of(workload.cost.d0) // workload.cap, block_tokens=block
    )
    floor = replace(fills.floor, linear=fills.floor.linear + page // block)

    def fill(size: int, before: int) -> int:
        return fills.fill(size, before) + page * pages_of(size, block)

    prompts = {own[0].low for own in workload.events}
    first = {size: fill(size, 0) for size in prompts}
    return Charges(
        first=[first[own[0].low] for own in workload.events],
        whole=own_work(workload, fill, decode, floor),
        setup=intercept * shares.setups // parts + grouped_p0,
    )


def charged_steps(
    workload: Workload, line: Line, shares: Shares, units: Units, grouped_p0: int = 0
) -> tuple[Steps, Steps]:
    """Prices of prefill and of decode steps, but for the pages that their events hold.

    Prefill steps share p0 less ``grouped_p0``.
    """
    limits, cost, parts = workload.limits, workload.cost, shares.parts
    law = law_of(cost, limits.batch_tokens, units)
    hold(law.above(line, units, first=1), "the line is not below the batch-time law")
    hold(
        limits.batch_requests is not None or not shares.requests,
        "requests share the intercept, but a batch may process any number of them",
    )
    intercept, fill_tokens = units.of(line.intercept_s), limits.fill_tokens
    token = units.of(line.slope_s) + intercept * shares.tokens // (parts * limits.batch_tokens)
    prefill = intercept * shares.prefill // (parts * fill_tokens)
    prefill += (units.of(cost.p0) - grouped_p0) // fill_tokens
    request = intercept * shares.requests // (parts * (limits.batch_requests or 1))
    steps = steps_of(cost, fill_tokens, units, token, line)
    fills = replace(steps, token=token + prefill, p_req=steps.p_req + request)
    return fills, replace(steps, d_req=steps.d_req + request)
