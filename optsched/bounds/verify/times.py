"""Bounds from a number of batches: under a line, balanced, in two phases, priced; and on a path."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from optsched.bounds.exact_lagrangian import lagrangian_value
from optsched.bounds.exact_walks import walk_value
from optsched.bounds.path_total import demand, path_count
from optsched.bounds.verify.counts import batches
from optsched.bounds.verify.held_calls import held_time
from optsched.bounds.verify.law import law_of
from optsched.bounds.verify.phases import phases
from optsched.bounds.verify.refuted import hold
from optsched.bounds.verify.steps import steps_of
from optsched.bounds.verify.units import Units
from optsched.bounds.verify.work import own_work, work_and_setups
from optsched.bounds.verify.workload import Workload
from optsched.certificate import (
    BalancedTime,
    HeldTime,
    LineTime,
    OfflineTime,
    PricedTime,
    WalkTime,
)
from optsched.instance import Instance

# What a check may take: each of these is a few seconds.
_MOST_PATH_STEPS = 1_000_000_000
_PATH_OVERHEAD = 4_000  # of a vector of steps, in steps
_MOST_BUCKETS = 2_000_000
_MOST_REFILLS = 20_000_000
_MOST_PRICES = 10_000_000


def offline_time(workload: Workload, argument: OfflineTime, units: Units) -> Fraction:
    """Seconds that ``argument`` proves for requests that are all there from the start."""
    if isinstance(argument, WalkTime):
        return walk_value(_alone(workload), argument.pricing)
    count = batches(workload, argument.count)
    if isinstance(argument, PricedTime):
        return _priced(workload, argument, count)
    if isinstance(argument, HeldTime):
        return held_time(workload, argument, count, units)
    if isinstance(argument, LineTime):
        return units.seconds(_under_a_line(workload, argument, count, units))
    law = law_of(workload.cost, workload.limits.batch_tokens, units)
    if isinstance(argument, BalancedTime):
        beyond = _beyond_new_tokens(workload, law.first_slope, units)
        return units.seconds(beyond + law.least(workload.new_tokens, count))
    slope = min(law.first_slope, *(units.of(line.slope_s) for line in argument.lines))
    beyond = _beyond_new_tokens(workload, slope, units)
    return units.seconds(beyond + phases(workload, argument, count, units))


def _priced(workload: Workload, argument: PricedTime, count: int) -> Fraction:
    """The time-indexed Lagrangian at the prices of ``argument``; see ``exact_lagrangian``."""
    pricing, limits = argument.pricing, workload.limits
    instance = _alone(workload)
    requests = demand(instance.prompt_tokens, instance.output_tokens)
    largest = max(r.prompt_tokens for r in workload.requests)
    hold(max(pricing.cells, default=0) >= largest, f"a prompt of {largest} tokens is in no cell")
    hold(
        limits.batch_requests is not None or not any(any(h.requests) for h in pricing.horizons),
        "requests have a price, but a batch may process any number of them",
    )
    steps = sizes = prices = 0
    for h in pricing.horizons:
        buckets = h.most_batches // h.stride + 1
        hold(buckets <= _MOST_BUCKETS, f"paths of {buckets} steps are too long to be checked")
        steps += path_count(requests, pricing.cells, h.stride) * (buckets + _PATH_OVERHEAD)
        sizes += requests.largest
        prices += len(h.memory)
    hold(steps <= _MOST_PATH_STEPS, "paths take too many steps to be checked")
    hold(sizes <= _MOST_REFILLS, "prices of refills are too many to be checked")
    pieces = len(workload.cost.pieces)
    hold(prices * pieces <= _MOST_PRICES, "prices of batches are too many to be checked")
    return lagrangian_value(instance, pricing, count)


def _alone(workload: Workload) -> Instance:
    """The requests of ``workload`` as an instance of their own."""
    return Instance(
        name="priced", limits=workload.limits, cost=workload.cost,
        requests=tuple(workload.requests),
    )  # fmt: skip


def _under_a_line(workload: Workload, argument: LineTime, count: int, units: Units) -> int:
    """a N0 + work with b per token and the excess of chunks + set-ups."""
    line, limits = argument.line, workload.limits
    law = law_of(workload.cost, limits.batch_tokens, units)
    hold(law.above(line, units, first=1), "the line is not below the batch-time law")
    steps = steps_of(workload.cost, limits.fill_tokens, units, units.of(line.slope_s), line)
    return units.of(line.intercept_s) * count + work_and_setups(workload, steps, units)


def _beyond_new_tokens(workload: Workload, slope: int, units: Units) -> int:
    """What a schedule takes besides g, or a line below it, of each batch's new tokens.

    Tokens processed again make a batch longer by at least ``slope`` each, which is at most the
    first slope of g and that of the line. So work is counted at this slope per token, and what the
    new tokens pay is taken off.
    """
    steps = steps_of(workload.cost, workload.limits.fill_tokens, units, slope)
    return work_and_setups(workload, steps, units) - slope * workload.new_tokens


def times_alone(workload: Workload, units: Units) -> list[int]:
    """Least time of each request's batches if it had the machine alone, without its pauses.

    Its steps lie in distinct batches, each of which takes at least what it takes with this step
    only: a decode g(1) + d0, chunks of a fill g + p0, best spread evenly.
    """
    limits, cost = workload.limits, workload.cost
    filling = law_of(cost, limits.batch_tokens, units, extra=units.of(cost.p0))
    steps = steps_of(cost, limits.fill_tokens, units, token=0)
    single = law_of(cost, limits.batch_tokens, units)(1) + units.of(cost.d0)

    def fill(size: int, before: int) -> int:
        new = size - before
        return steps.fill(size, before) + filling.least(new, -(-new // limits.fill_tokens))

    # n tokens take at least n times the least time per token of a batch, at a corner of the law.
    per_token = min(filling(n) // n for n in filling.corners if n)
    floor = replace(steps.floor, linear=per_token)
    return own_work(workload, fill, steps.decodes(set_up=single), floor)
