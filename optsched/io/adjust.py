"""The same workload with other service-level objectives or at another pace."""

from __future__ import annotations

import msgspec

from optsched.errors import require
from optsched.instance import Instance


def with_slos(
    instance: Instance, *, ttft_s: float | None = None, tpot_s: float | None = None,
    latency_s: float | None = None,
) -> Instance:  # fmt: skip
    """Every request with these service-level objectives, seconds; None leaves its own."""
    given = {"ttft_slo_s": ttft_s, "tpot_slo_s": tpot_s, "latency_slo_s": latency_s}
    changes = {name: slo_s for name, slo_s in given.items() if slo_s is not None}
    requests = tuple(msgspec.structs.replace(r, **changes) for r in instance.requests)
    return msgspec.structs.replace(instance, requests=requests)


def stretched(instance: Instance, span_s: float) -> Instance:
    """Arrivals at their own ratios over ``span_s`` seconds from the first to the last.

    Raises
    ------
    InvalidInputError
        The span is not positive, or all requests arrive at once.
    """
    require(0 < span_s < float("inf"), "span_s", span_s, "a finite number of seconds > 0")
    own_s = float(instance.release_s.max())
    require(own_s > 0, "arrivals", own_s, "requests that arrive at different times")
    requests = tuple(
        msgspec.structs.replace(request, arrival_s=release * span_s / own_s)
        for request, release in zip(instance.requests, instance.release_s.tolist(), strict=True)
    )
    return msgspec.structs.replace(instance, requests=requests)
