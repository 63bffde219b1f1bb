"""Unavoidable work: the least time of the steps that lead to each event, in units.

From one event of a request to the next either its KV stays, and the steps process just the new
tokens, or it is lost, and the steps since the last loss are an uninterrupted fill of all tokens.
The first event has only the latter; for a plain further token the former is one decode. A refill
whose last step is a single token ends in a decode, so it costs no less than that decode.

From some size on a fill surely takes longer than a decode, so that further tokens are sums in
closed form; below it each size is tried.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import accumulate

from optsched.bounds.verify.counts import decode_batches, prefill_batches
from optsched.bounds.verify.events import Stretch
from optsched.bounds.verify.refuted import hold
from optsched.bounds.verify.steps import Decodes, Floor, Steps
from optsched.bounds.verify.units import Units
from optsched.bounds.verify.workload import Workload

MOST_SIZES = 1_000_000  # that a check tries one by one


def work_and_setups(workload: Workload, steps: Steps, units: Units) -> int:
    """Work, set-ups of decodes and set-ups of prefills, in units.

    d0 is charged in one of two ways, whichever gives more. *Shared*: a batch holds at most
    floor(M / b) pages, so it is charged at most d0 if each decode pays d0 times its part of them.
    *Counted*: if each refill in place of a decode costs at least d0 more, then so many refills
    are not worth the batches without a decode that they make.
    """
    d0, cap, block = units.of(workload.cost.d0), workload.cap, workload.limits.block_tokens
    setups = units.of(workload.cost.p0) * prefill_batches(workload)
    if d0 == 0:
        return setups + work(workload, steps, steps.decodes())
    part, none_left = divmod(d0, cap)
    assert none_left == 0, "units are parts of a page's share"
    shared = work(workload, steps, steps.decodes(per_page=part, block_tokens=block))
    counted = 0
    if _refills_are_dearer(workload, steps, d0):
        counted = work(workload, steps, steps.decodes()) + d0 * decode_batches(workload)
    return setups + max(shared, counted)


def work(workload: Workload, steps: Steps, decode: Decodes) -> int:
    """Sum over all events of the least time of the steps that lead to it."""
    return sum(own_work(workload, steps.fill, decode, steps.floor))


def own_work(
    workload: Workload, fill: Callable[[int, int], int], decode: Decodes, floor: Floor
) -> list[int]:
    """The same for each request, given the least time of a fill to (size, before) with a lower
    bound for those from 0, and of a decode."""
    upto = token_sums(max(s.high for s in workload.stretches), fill, decode, floor)
    fills: dict[int, int] = {}
    found = []
    for own in workload.events:
        size = own[0].low
        if size not in fills:
            fills[size] = fill(size, 0)
        total = fills[size] + sum(appended(s, fill, decode) for s in own if s.before)
        found.append(total + sum(upto(s.high) - upto(s.low) for s in own))
    return found


def token_sums(
    largest: int, fill: Callable[[int, int], int], decode: Decodes, floor: Floor
) -> Callable[[int], int]:
    """Sum over the sizes 1 .. S of the least time of a plain further token, as a function of S up
    to ``largest``."""
    dearer = _dearer_from(decode, floor, largest)
    least = (min(decode(size), fill(size, 0)) for size in range(1, dearer))
    smaller = list(accumulate(least, initial=0))
    before = decode.total(dearer - 1)

    @cache
    def upto(size: int) -> int:
        return smaller[size] if size < dearer else smaller[-1] + decode.total(size) - before

    return upto


def _dearer_from(decode: Decodes, floor: Floor, largest: int, more: int = 0) -> int:
    """From this size on a fill surely takes ``more`` than the decode; smaller ones are tried."""
    found = floor.reaches(decode, more)
    dearer = largest + 1 if found is None else min(found, largest + 1)
    hold(
        dearer <= MOST_SIZES,
        f"refills may be cheaper than decodes at {dearer - 1} sizes, too many to be checked",
    )
    return dearer


def appended(s: Stretch, fill: Callable[[int, int], int], decode: Decodes) -> int:
    """Least time to the first event after a call: its response is appended or all is refilled,
    and the last token of either may be a decode."""
    last = decode(s.low)
    ways = [fill(s.low, 0), fill(s.low, s.before)]
    ways += [fill(s.low - 1, start) + last for start in (0, s.before)]
    return min(ways)


def _refills_are_dearer(workload: Workload, steps: Steps, d0: int) -> bool:
    """Whether every refill in place of a decode costs at least ``d0`` more, at every size."""
    later = [s for s in workload.stretches if s.high > s.low]
    if not later:
        return False
    decode, largest = steps.decodes(), max(s.high for s in later)
    dearer = _dearer_from(decode, steps.floor, largest, d0)
    sizes = range(min(s.low for s in later) + 1, dearer)
    return all(steps.fill(size) - decode(size) >= d0 for size in sizes)
