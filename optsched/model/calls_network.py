"""Network formulation of requests with calls and of swapping: one path per request.

What :mod:`optsched.model.network` is for requests without calls. Here every request is a unit of
flow by itself (:mod:`optsched.model.calls_network_arcs`), because each pauses when its own calls
ask for it; identical ones are only put in order. What happens to the KV of a request while its call
is out is where its path goes, and is told by *handling* binaries tied to the arcs. Every fill takes
one batch: an optimum is one over unchunked schedules.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from optsched.errors import InfeasibleError, UnsupportedError, require
from optsched.handling import HANDLINGS, handling_of, required_handling
from optsched.instance import Instance, Request, require_feasible
from optsched.model.calls_network_arcs import Arcs, calls_arcs
from optsched.model.calls_network_clock import Clock, clock_columns
from optsched.model.calls_network_decode import decode, handlings
from optsched.model.calls_network_encode import encode
from optsched.model.calls_network_stages import Stages, all_stages
from optsched.model.calls_network_windows import last_batches, latest_ends_s
from optsched.model.network import POLICIES
from optsched.model.network_columns import Allocation, Columns
from optsched.objective import Objective
from optsched.schedule import Schedule

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

_NO_CONDITIONS: Mapping[Objective, float] = MappingProxyType({})


class CallsNetworkVariables:
    """Columns of the formulation and their meaning.

    Parameters
    ----------
    instance : Instance
    least, most : int
        The schedule has between ``least`` and ``most`` batches. The attribute ``most`` is less
        where the cutoff or the conditions say so.
    policies : collection of str
        Those of :data:`POLICIES`, and ``preserve``, ``discard`` and ``swap`` for all requests or,
        as in ``discard:r7``, for one.
    objective : Objective
        What the program minimises: seconds, or the weight that goodput misses.
    at_most : mapping
        Conditions: the value of each objective is at most (goodput: at least) this.
    cutoff : float or None
        Value of a known schedule: what comes later than in a schedule of this value is left out.

    Attributes
    ----------
    stages : tuple of Stages
        Sizes of every request.
    arcs : Arcs
        Arc number = column number.
    used : int array, shape ``(batches,)``
        Columns y_j, 1 if there is a batch j.
    any_decode, any_prefill : int arrays, shape ``(batches,)`` or ``(0,)``
        1 if batch j has a decode (prefill) step; where d0 (p0) or ``no-hybrid`` need them.
    handling : int array, shape ``(calls, 3)``
        Columns of ``preserve``, ``discard`` and ``swap`` of every call; ``calls`` lists them as
        (request, stage).
    clock : Clock
    twins : tuple of pairs
        Positions of identical requests that follow each other; the first has its first token no
        later than the second.
    groups : tuple of Columns
        All columns but those of the arcs.

    Raises
    ------
    UnsupportedError
        An unknown policy; ``no-hold`` or ``nonpreemptive`` with calls that take time; goodput with
        TPOT objectives.
    InfeasibleError
        A request cannot run alone, or not in ``most`` batches or within ``cutoff``.
    """

    def __init__(
        self,
        instance: Instance,
        *,
        least: int,
        most: int,
        policies: Collection[str] = (),
        objective: Objective = Objective.MAKESPAN,
        at_most: Mapping[Objective, float] = _NO_CONDITIONS,
        cutoff: float | None = None,
    ) -> None:
        require(1 <= least <= most, "batches", (least, most), "1 <= least <= most")
        objectives = {objective, *at_most}
        _require_supported(instance, policies, objectives)
        require_feasible(instance, {"no-chunk"})
        self.instance, self.least, self.most = instance, least, most
        self.policies = frozenset(policies)
        self.objective, self.at_most = objective, dict(at_most)
        kept = set(policies)
        if "nonpreemptive" in kept:
            kept |= {"no-evict", "no-hold", "no-swap"}
        required = required_handling(instance, policies)
        self.stages: tuple[Stages, ...] = all_stages(instance)
        limits = dict(self.at_most)
        if cutoff is not None:
            limits[objective] = min(cutoff, limits.get(objective, cutoff))
        latest = latest_ends_s(instance, self.stages, limits)
        last = last_batches(instance, self.stages, most, latest)
        # Whatever is left out of the windows of all requests is no batch.
        most = self.most = max(int(batches[-1]) for batches in last)
        if least > most:
            raise InfeasibleError(
                f"every schedule has {least} batches, one that ends in time at most {most}",
                hint="raise the cutoff or the limits on other objectives",
            )
        self.arcs: Arcs = calls_arcs(instance, self.stages, last, required, kept)
        self.swap_calls = tuple(
            (i, g) for i, each in enumerate(self.stages) for g in each.calls
            if required[i] == "swap"
        )  # fmt: skip
        self.twins = _twins(instance, required)
        new, cost = Allocation(len(self.arcs)), instance.cost
        hybrid = "no-hybrid" not in policies

        def column_per_batch(label: str, needed: bool) -> IntArray:
            return new.add(label, most if needed else 0, upper=1.0, integer=True).numbers

        self.used = column_per_batch("used", True)
        self.any_decode = column_per_batch("any_decode", bool(cost.d0) or not hybrid)
        self.any_prefill = column_per_batch("any_prefill", bool(cost.p0) or not hybrid)
        self.calls = tuple((i, g) for i, each in enumerate(self.stages) for g in each.calls)
        self.handling: IntArray = new.add(
            "handling", (len(self.calls), len(HANDLINGS)), upper=1.0, integer=True
        ).numbers
        self.clock: Clock = clock_columns(
            instance, self.stages, self.arcs, last, most, new, objectives=objectives,
            latest_s=float(latest.max()), policies=policies,
            twins={i for pair in self.twins for i in pair},
        )  # fmt: skip
        self.groups: tuple[Columns, ...] = tuple(new.groups)
        self.columns: int = new.next

    def encode(self, schedule: Schedule) -> FloatArray:
        """The point of a schedule, shape ``(columns,)``; see :mod:`.calls_network_encode`."""
        return encode(self, schedule)

    def decode(self, point: FloatArray) -> Schedule:
        """The schedule of a point; see :mod:`.calls_network_decode`."""
        return decode(self, point)

    def handlings(self, point: FloatArray) -> tuple[tuple[str, ...], ...]:
        """Per request, how each of its calls is handled, in order."""
        return handlings(self, point)


def estimated_columns(instance: Instance, batches: int) -> int:
    """About how many columns a program of at most so many batches has, without building it."""
    arcs = 9 if instance.limits.host_kv_tokens else 5
    steps = arcs * int(instance.output_tokens.sum())
    return batches * (steps + 5 * len(instance))


def _twins(instance: Instance, required: Sequence[str | None]) -> tuple[tuple[int, int], ...]:
    last: dict[tuple[object, ...], int] = {}
    pairs = []
    for i, request in enumerate(instance.requests):
        key = (*_shape(request), required[i])
        if key in last:
            pairs.append((last[key], i))
        last[key] = i
    return tuple(pairs)


def _shape(request: Request) -> tuple[object, ...]:
    """Everything that tells requests apart but their names."""
    return (
        request.prompt_tokens, request.output_tokens, request.arrival_s, request.calls,
        request.ttft_slo_s, request.tpot_slo_s, request.latency_slo_s, request.weight,
    )  # fmt: skip


def _require_supported(
    instance: Instance, policies: Collection[str], objectives: Collection[Objective]
) -> None:
    unknown = sorted(p for p in policies if p not in POLICIES and handling_of(p) is None)
    if unknown:
        raise UnsupportedError(
            f"the network formulation does not cover policy {unknown[0]!r}",
            hint=f"it covers {', '.join(sorted(POLICIES))} and the handlings of calls",
        )
    timed = any(call.duration_s > 0 for request in instance.requests for call in request.calls)
    for policy in ("no-hold", "nonpreemptive"):
        if timed and policy in policies:
            raise UnsupportedError(
                f"the network formulation does not cover policy {policy!r} with calls that take "
                "time: whether a request may be held depends on when its batch starts exactly",
                hint="leave the policy out, or use the compact formulation",
            )
    if Objective.GOODPUT in objectives:
        for request in instance.requests:
            if request.tpot_slo_s is not None and request.output_tokens > 1 and request.weight:
                raise UnsupportedError(
                    f"the network formulation does not cover the TPOT objective of request "
                    f"{request.id!r} with calls or swapping",
                    hint="leave tpot_slo_s out, or use --formulation compact",
                )
