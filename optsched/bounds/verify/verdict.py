"""The verdict on a certificate: what its argument proves, and whether that reaches the claim."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

from optsched.bounds.verify.clock.value import clock_value
from optsched.bounds.verify.clock.windows import own_latency, window_latency
from optsched.bounds.verify.refuted import RefutedError, hold
from optsched.bounds.verify.times import offline_time, times_alone
from optsched.bounds.verify.units import Units, cost_doubles, units_for
from optsched.bounds.verify.workload import Workload
from optsched.certificate import (
    Argument,
    ArrivalTime,
    Certificate,
    HeldTime,
    Line,
    LineTime,
    OfflineTime,
    OwnLatency,
    PathTime,
    PhasesTime,
    WindowTime,
)
from optsched.instance import Instance
from optsched.objective import Objective


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What a certificate proves.

    Parameters
    ----------
    accepted : bool
        Whether the argument holds for the instance named and proves at least the claim.
    claimed_s : float
        The claim, in the unit of its objective.
    proven_s : Fraction or None
        The exact value that the argument proves, in the same unit; None if it does not hold.
    reason : str or None
        Why it is refused.
    """

    accepted: bool
    claimed_s: float
    proven_s: Fraction | None
    reason: str | None


def verify(certificate: Certificate, about: str | None = None) -> Verdict:
    """Check a certificate in exact arithmetic, trusting nothing in it.

    With ``about``, the digest of an instance, it must also be for that one.
    """
    claimed, proven, reason = certificate.bound_s, None, None
    try:
        hold(
            certificate.digest == certificate.instance.digest,
            f"the certificate is for an instance with digest {certificate.digest}, "
            f"but that of the one it holds is {certificate.instance.digest}",
        )
        hold(
            about in (None, certificate.digest),
            f"the certificate is for an instance with digest {certificate.digest}, not {about}",
        )
        objective = certificate.objective
        proven = proven_value(
            certificate.instance, objective, certificate.argument, certificate.subject_to
        )
        if objective.maximised:
            hold(proven <= Fraction(claimed), "the argument allows more than is claimed")
        else:
            hold(proven >= Fraction(claimed), "the argument proves less than is claimed")
    except RefutedError as error:
        reason = str(error)
    return Verdict(accepted=reason is None, claimed_s=claimed, proven_s=proven, reason=reason)


def proven_value(
    instance: Instance, objective: Objective, argument: Argument,
    subject_to: Mapping[Objective, float] = MappingProxyType({}),
) -> Fraction:  # fmt: skip
    """What no schedule is below, in seconds, or for goodput above, in weight, by ``argument``;
    with ``subject_to`` no schedule whose other objectives are at most (goodput: at least) that.

    Raises
    ------
    RefutedError
        The argument does not hold for this instance, or is none about the objective.
    """
    limits = instance.limits
    for r in instance.requests:
        hold(
            limits.pages(r.final_tokens) <= limits.kv_tokens,
            f"request {r.id!r} cannot run even alone, so there is no schedule to bound",
        )
    if objective is Objective.MAKESPAN:
        return _makespan(instance, argument)
    if objective is Objective.MAX_LATENCY:
        return _max_latency(instance, argument)
    return clock_value(instance, objective, argument, subject_to)


def proven_bound(instance: Instance, argument: Argument) -> Fraction:
    """Seconds that every schedule takes from the earliest arrival on, by ``argument``.

    Raises
    ------
    RefutedError
        The argument does not hold for this instance, or is none about the makespan.
    """
    return proven_value(instance, Objective.MAKESPAN, argument)


def _makespan(instance: Instance, argument: Argument) -> Fraction:
    workload = Workload(instance.requests, instance.limits, instance.cost)
    units = units_for(_doubles(instance, argument), workload.cap)
    if isinstance(argument, PathTime):
        return _path(instance, argument, units)
    if isinstance(argument, ArrivalTime):
        late = [r for r in instance.requests if r.arrival_s >= argument.from_s]
        hold(bool(late), f"no request arrives at {argument.from_s} or later")
        remaining = Workload(late, instance.limits, instance.cost)
        return _since_start(instance, argument.from_s) + offline_time(
            remaining, argument.late, units
        )
    hold(isinstance(argument, OfflineTime), "the argument says nothing about the makespan")
    assert isinstance(argument, OfflineTime)
    return offline_time(workload, argument, units)


def _max_latency(instance: Instance, argument: Argument) -> Fraction:
    workload = Workload(instance.requests, instance.limits, instance.cost)
    units = units_for(_doubles(instance, argument), workload.cap)
    if isinstance(argument, WindowTime):
        return window_latency(workload, argument, units)
    hold(isinstance(argument, OwnLatency), "the argument says nothing about the largest latency")
    assert isinstance(argument, OwnLatency)
    return own_latency(workload, argument, units)


def _since_start(instance: Instance, time_s: float) -> Fraction:
    """``time_s`` on the schedule's clock, which starts with the earliest arrival."""
    return Fraction(time_s) - Fraction(min(r.arrival_s for r in instance.requests))


def _path(instance: Instance, argument: PathTime, units: Units) -> Fraction:
    """Arrival + pauses + own time of one request."""
    found = [r for r in instance.requests if r.id == argument.request]
    hold(bool(found), f"the instance has no request {argument.request!r}")
    (request,) = found
    (own,) = times_alone(Workload(found, instance.limits, instance.cost), units)
    pauses = sum((Fraction(call.duration_s) for call in request.calls), Fraction(0))
    return _since_start(instance, request.arrival_s) + pauses + units.seconds(own)


def _doubles(instance: Instance, argument: Argument) -> Iterator[float]:
    """All doubles that are used in units."""
    yield from cost_doubles(instance.cost)
    for request in instance.requests:
        yield from (call.duration_s for call in request.calls)
    for line in _lines(argument):
        yield from (line.intercept_s, line.slope_s, line.excess_s)


def _lines(argument: Argument) -> tuple[Line, ...]:
    if isinstance(argument, ArrivalTime):
        return _lines(argument.late)
    if isinstance(argument, WindowTime):
        return _lines(argument.window)
    if isinstance(argument, LineTime | HeldTime):
        return (argument.line,)
    return argument.lines if isinstance(argument, PhasesTime) else ()
