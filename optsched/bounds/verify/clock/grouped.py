"""B7: requests are done in groups, and each batch that ends a group delays all that come after.

Take the batches in which first tokens are generated (requests end), the l-th ending a group of
requests. By its end at least l batches have ended a group, and c - 1 more if no request is done in
fewer than c batches; each of them took the set-up s, and the charges of all requests of the first l
groups are paid. For given sizes of groups the sum of ends is least if shorter requests come first,
so with charges p ascending, P their sums, and f(k) the least that what comes after the first k
requests adds

    f(k) = min over m > k of f(m) + (n - k) (s + P_m - P_k),    f(n) = 0

a minimum over lines in n - k with slopes P_m. Requests that arrive in one of several windows of
time are done no sooner than the window's first arrival plus this for themselves alone.
"""

from __future__ import annotations

from bisect import bisect_right
from fractions import Fraction
from itertools import accumulate

from optsched.bounds.verify.clock.charges import Charges, charges_of
from optsched.bounds.verify.clock.times import Clock
from optsched.bounds.verify.refuted import hold
from optsched.clock_certificate import GroupedMean


def grouped_mean(clock: Clock, argument: GroupedMean) -> Fraction:
    """The least mean, in seconds from arrival."""
    starts, first = argument.starts_s, clock.first_tokens
    arrivals = [r.arrival_s for r in clock.workload.requests]
    hold(bool(starts) and starts[0] <= min(arrivals), "some request arrives before every window")
    own = charges_of(
        clock.workload, argument.line, argument.shares, clock.units, prefill_groups=first
    )
    windows: dict[int, list[int]] = {}
    for i, arrival in enumerate(arrivals):
        windows.setdefault(bisect_right(starts, arrival), []).append(i)
    return clock.mean(sum(_window(clock, members, own) for members in windows.values()))


def _window(clock: Clock, members: list[int], own: Charges) -> int:
    """Sum of the times of requests done on their own from their first arrival on."""
    if clock.first_tokens:
        charges, chains = own.first, [clock.workload.events[i][0].earliest for i in members]
    else:
        charges = own.whole
        chains = [e[0].earliest + e[0].after for e in (clock.workload.events[i] for i in members)]
    start = min(clock.releases[i] for i in members) + (min(chains) - 1) * own.setup
    return len(members) * start + least_sum([charges[i] for i in members], own.setup)


def least_sum(charges: list[int], setup: int) -> int:
    """f(0): the least sum of ends of groups, each taking ``setup`` and its charges."""
    count = len(charges)
    sums = list(accumulate(sorted(charges), initial=0))
    # Lines (slope, intercept) that are least somewhere, by falling slope, and where the last query
    # had its minimum; queries move to larger arguments, so to smaller slopes.
    lines, at, best = [(sums[count], 0)], 0, 0
    for k in range(count - 1, -1, -1):
        left = count - k
        at = min(at, len(lines) - 1)
        while at + 1 < len(lines) and _value(lines[at + 1], left) <= _value(lines[at], left):
            at += 1
        best = left * (setup - sums[k]) + _value(lines[at], left)
        line = (sums[k], best)
        while len(lines) >= 2 and _useless(lines[-2], lines[-1], line):
            lines.pop()
        lines.append(line)
    return best


def _value(line: tuple[int, int], at: int) -> int:
    return line[0] * at + line[1]


def _useless(one: tuple[int, int], two: tuple[int, int], three: tuple[int, int]) -> bool:
    """Whether ``two`` is nowhere below both others, slopes falling."""
    return (three[1] - one[1]) * (one[0] - two[0]) <= (two[1] - one[1]) * (one[0] - three[0])
