"""Bounds on the objectives of the clock that hold for every schedule, each with its proof.

``charges`` is what a request pays of every batch it is in; ``ordered`` is B6, ``grouped`` B7,
``uniform`` B8, ``time_prices`` B10, ``call_prices`` the like for requests with calls, ``windows``
the largest latency, ``goodput`` the requests that can meet their objectives; ``entry`` takes the
best of them and ``certificate`` writes down its proof.
"""

from optsched.bounds.clock.certificate import certify_clock
from optsched.bounds.clock.entry import ClockBound, clock_bound

__all__ = ["ClockBound", "certify_clock", "clock_bound"]
