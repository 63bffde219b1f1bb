"""First tokens and ends of requests on one machine that serves their charges in that order.

In a batch each request pays a charge (``charges``), all together no more than the batch takes, none
before it arrives: f up to its first token, and f + r up to its end. So any schedule is one of a
machine that serves f and then r of each request, interrupted at will, with first tokens F and ends
C no later. On such a machine, with M the mean time at which f is served and M' that of r,

    F >= M + f / 2,    C >= M' + r / 2,    M' - M >= (f + r) / 2

so that u F + v C is at least, if u / f >= v / r,

    u M + v M' + (u f + v r) / 2                            two jobs of weight per second u/f, v/r

and otherwise, W the mean time at which either is served and d = (u + v) / (f + r) >= u / f,

    u M + v M' = d (f M + r M') + (d f - u) (M' - M)
    u F + v C >= (u + v) W + (u (f - r) + v (f + r)) / 2    one job of weight per second d

(Sidney 1975 for chains that are there from the start; Goemans et al. 2002 for mean times). The sum
of weight x mean time is least if the job of most weight per second that is there is served, at any
time: time integrated over when a job is served, times its weight per second, which is rounded down.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from optsched.bounds.verify.clock.charges import charges_of
from optsched.bounds.verify.units import Units
from optsched.bounds.verify.workload import Workload
from optsched.clock_certificate import MachineChains

_BITS = 64  # of precision of weight per unit of time


@dataclass(frozen=True)
class Job:
    """A part of a request: ``work`` units that are worth ``weight`` altogether."""

    release: int
    work: int
    weight: int


def chained_mean(
    workload: Workload, units: Units, releases: Sequence[int], argument: MachineChains,
    first: int, whole: int,
) -> Fraction:  # fmt: skip
    """Seconds that ``first`` x mean TTFT + ``whole`` x mean latency is at least."""
    own = charges_of(workload, argument.line, argument.shares, units)
    jobs: list[Job] = []
    twice = 0
    for release, fill, all_ in zip(releases, own.first, own.whole, strict=True):
        rest = max(0, all_ - fill)
        if first * rest >= whole * fill:
            jobs += [Job(release, fill, first), Job(release, rest, whole)]
            twice += first * fill + whole * rest
        else:
            jobs.append(Job(release, fill + rest, first + whole))
            twice += first * (fill - rest) + whole * (fill + rest)
    total = least_mean_times(jobs) + Fraction(twice, 2) - (first + whole) * sum(releases)
    return total * units.seconds(1) / len(releases)


def least_mean_times(jobs: Sequence[Job]) -> Fraction:
    """The least sum of weight x mean time of service, in units."""
    total = sum(job.weight * job.release for job in jobs if not job.work)
    order = sorted((job for job in jobs if job.work), key=lambda job: job.release)
    bits = _BITS + max((job.work for job in order), default=1).bit_length()
    waiting: list[tuple[int, int]] = []  # - weight per unit, work left
    now = arrived = scaled = 0
    while waiting or arrived < len(order):
        if not waiting:
            now = max(now, order[arrived].release)
        while arrived < len(order) and order[arrived].release <= now:
            job = order[arrived]
            heapq.heappush(waiting, (-((job.weight << bits) // job.work), job.work))
            arrived += 1
        density, left = waiting[0]
        end = now + left
        if arrived < len(order) and order[arrived].release < end:
            end = order[arrived].release
            heapq.heapreplace(waiting, (density, left - (end - now)))
        else:
            heapq.heappop(waiting)
        scaled -= density * (end * end - now * now)
        now = end
    return total + Fraction(scaled, 2 << bits)
