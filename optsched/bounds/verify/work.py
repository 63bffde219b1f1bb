"""Unavoidable work: the least time of the steps that lead to each event, in units.

From one event of a request to the next either its KV stays, and the steps process just the new
tokens, or it is lost, and the steps since the last loss are an uninterrupted fill of all tokens.
The first event has only the latter; for a plain further token the former is one decode. A refill
whose last step is a single token ends in a decode, so it costs no less than that decode.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate

from optsched.bounds.verify.counts import decode_batches, prefill_batches
from optsched.bounds.verify.events import Stretch, pages_of
from optsched.bounds.verify.steps import Steps
from optsched.bounds.verify.units import Units
from optsched.bounds.verify.workload import Workload


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
        return setups + work(workload, steps, steps.decode)
    part, none_left = divmod(d0, cap)
    assert none_left == 0, "units are parts of a page's share"
    shared = work(workload, steps, lambda size: steps.decode(size) + part * pages_of(size, block))
    counted = 0
    if _refills_are_dearer(workload, steps, d0):
        counted = work(workload, steps, steps.decode) + d0 * decode_batches(workload)
    return setups + max(shared, counted)


def work(workload: Workload, steps: Steps, decode: Callable[[int], int]) -> int:
    """Sum over all events of the least time of the steps that lead to it."""
    upto = least_upto(max(s.high for s in workload.stretches), steps.fill, decode)
    fills: dict[int, int] = {}
    total = 0
    for s in workload.stretches:
        total += upto[s.high] - upto[s.low]
        if s.before:
            total += appended(s, steps.fill, decode)
        else:
            if s.low not in fills:
                fills[s.low] = steps.fill(s.low)
            total += fills[s.low]
    return total


def least_upto(largest: int, fill: Callable[[int], int], decode: Callable[[int], int]) -> list[int]:
    """Prefix sums over sizes 0 .. ``largest`` of the least time to a plain further token."""
    least = (min(decode(size), fill(size)) for size in range(1, largest + 1))
    return list(accumulate(least, initial=0))


def appended(s: Stretch, fill: Callable[[int, int], int], decode: Callable[[int], int]) -> int:
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
    sizes = range(min(s.low for s in later) + 1, max(s.high for s in later) + 1)
    return all(steps.fill(size) - steps.decode(size) >= d0 for size in sizes)
