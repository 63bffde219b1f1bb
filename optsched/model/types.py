"""Request types: groups of identical requests, which a flow may leave unnamed."""

from __future__ import annotations

import math
from dataclasses import dataclass

from optsched.instance import Instance, Request


@dataclass(frozen=True, kw_only=True)
class RequestType:
    """Requests that are equal in all that matters; ``members`` are their positions, by arrival.

    ``releases_s`` are their arrivals on the schedule's clock, the rest their service-level
    objectives (infinity where not given, and for TPOT where O = 1) and the weight of one.
    """

    prompt_tokens: int
    output_tokens: int
    members: tuple[int, ...]
    releases_s: tuple[float, ...]
    ttft_slo_s: float = math.inf
    tpot_slo_s: float = math.inf
    latency_slo_s: float = math.inf
    weight: float = 1.0

    @property
    def count(self) -> int:
        """How many requests are of this type."""
        return len(self.members)

    @property
    def release_s(self) -> float:
        """The earliest arrival."""
        return self.releases_s[0]


Key = tuple[int, int, float, float, float, float, float, int]


def request_types(
    instance: Instance, *, arrivals: bool = False, objectives: bool = False
) -> tuple[RequestType, ...]:
    """The types of ``instance``, by (prompt, output, arrival).

    Without ``arrivals`` (``objectives``) requests of different arrivals (service-level objectives
    and weights) can be of one type. With ``objectives`` a request that must meet more than one is
    a type of its own: of two in one flow, one could meet the first and the other the second.
    """
    order = sorted(range(len(instance)), key=lambda i: (float(instance.release_s[i]), i))
    groups: dict[Key, list[int]] = {}
    for i in order:
        request = instance.requests[i]
        release = float(instance.release_s[i]) if arrivals else 0.0
        judged = _objectives(request) if objectives else (math.inf, math.inf, math.inf, 1.0)
        several = sum(limit < math.inf for limit in judged[:3]) > 1 or judged[1] < math.inf
        shape = request.prompt_tokens, request.output_tokens, release
        groups.setdefault((*shape, *judged, i if several else -1), []).append(i)
    return tuple(
        RequestType(
            prompt_tokens=prompt, output_tokens=output, members=tuple(members),
            releases_s=tuple(instance.release_s[members].tolist()), ttft_slo_s=ttft,
            tpot_slo_s=tpot, latency_slo_s=latency, weight=weight,
        )
        for (prompt, output, _, ttft, tpot, latency, weight, _), members
        in sorted(groups.items())
    )  # fmt: skip


def _objectives(request: Request) -> tuple[float, float, float, float]:
    def limit(value: float | None) -> float:
        return math.inf if value is None else value

    tpot = math.inf if request.output_tokens == 1 else limit(request.tpot_slo_s)
    return limit(request.ttft_slo_s), tpot, limit(request.latency_slo_s), request.weight
