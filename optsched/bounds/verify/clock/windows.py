"""The largest latency: of one request alone, or of the last of those that arrive in a window.

The requests that arrive in a window of time start at its first arrival at the soonest, so that one
of them ends no sooner than that and what they take together offline. It arrived in the window too,
so its latency is at least the difference to the window's last arrival.
"""

from __future__ import annotations

from fractions import Fraction

from optsched.bounds.verify.clock.times import whole_alone
from optsched.bounds.verify.refuted import hold
from optsched.bounds.verify.times import offline_time
from optsched.bounds.verify.units import Units
from optsched.bounds.verify.workload import Workload
from optsched.certificate import OwnLatency, WindowTime


def window_latency(workload: Workload, argument: WindowTime, units: Units) -> Fraction:
    """Seconds from the window's last arrival to the end of the last of its requests, at least."""
    arrived = [r for r in workload.requests if argument.from_s <= r.arrival_s <= argument.until_s]
    hold(bool(arrived), f"no request arrives from {argument.from_s} to {argument.until_s}")
    arrivals = [Fraction(r.arrival_s) for r in arrived]
    together = Workload(arrived, workload.limits, workload.cost)
    return min(arrivals) + offline_time(together, argument.window, units) - max(arrivals)


def own_latency(workload: Workload, argument: OwnLatency, units: Units) -> Fraction:
    """Seconds from arrival to end of one request if it had the machine alone, pauses included."""
    found = [r for r in workload.requests if r.id == argument.request]
    hold(bool(found), f"the instance has no request {argument.request!r}")
    (own,) = whole_alone(Workload(found, workload.limits, workload.cost), units)
    return units.seconds(own)
