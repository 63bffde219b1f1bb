"""Arrival times for workloads that have none of their own."""

from __future__ import annotations

import numpy as np

from optsched.errors import require
from optsched.instance import FloatArray

_SLOWEST = 1e-6  # requests per second: one in twelve days


def require_rate(rate: float) -> None:
    """Raise :class:`InvalidInputError` for a rate (requests per second) not 0 nor >= 1e-6."""
    require(
        rate == 0 or _SLOWEST <= rate < float("inf"), "rate", rate,
        f"0, or a finite number >= {_SLOWEST}",
    )  # fmt: skip


def poisson_arrivals(rng: np.random.Generator, requests: int, rate: float) -> FloatArray:
    """Arrivals of a Poisson process, seconds, from 0; all 0 at a rate of 0; ``(requests,)``.

    From the same state of ``rng`` two rates give the same arrivals on another scale. Rounded to
    the microsecond.
    """
    require_rate(rate)
    gaps = rng.exponential(1 / rate, requests) if rate else np.zeros(requests)
    arrivals: FloatArray = np.round(np.cumsum(gaps) - gaps[0], 6)
    return arrivals
