"""Builds the certificate of a lower bound: finds choices that prove it, and checks them.

The claim is the bound as it is reported, or, where its last digits are more than the exact
arithmetic of ``verify`` gives, the next double below.
"""

from __future__ import annotations

from optsched.bounds.bound import Bound, lower_bound
from optsched.bounds.count_arguments import best_count
from optsched.bounds.held_calls import HELD
from optsched.bounds.lagrangian import LagrangianBound
from optsched.bounds.late_prices import LateBound, late_requests
from optsched.bounds.latest_start import best_arrivals
from optsched.bounds.time_arguments import at_most, best_held, best_time
from optsched.bounds.verify.refuted import RefutedError
from optsched.bounds.verify.times import times_alone
from optsched.bounds.verify.units import cost_doubles, units_for
from optsched.bounds.verify.verdict import proven_bound
from optsched.bounds.verify.workload import Workload
from optsched.bounds.walk_repair import ClosedWalkBound
from optsched.certificate import (
    Argument,
    ArrivalTime,
    Certificate,
    OfflineTime,
    PathTime,
    PricedTime,
    WalkTime,
)
from optsched.errors import UnsupportedError
from optsched.instance import Instance

_PATH = "critical path"
_ARRIVALS = "B5 arrivals"
PRICES = "B3 Lagrangian"
WALKS = "B4 closed walks"


def certify(instance: Instance, bound: Bound | None = None) -> Certificate:
    """A certificate for ``bound``, by default what :func:`lower_bound` gives.

    Its claim is at most ``bound.value_s``, and less than that by more than rounding only if the
    bound rests on a choice that is not found again.

    Raises
    ------
    InfeasibleError
        A request cannot run even alone.
    UnsupportedError
        The proof is too long to be checked.
    """
    bound = lower_bound(instance) if bound is None else bound
    try:
        return _claimed(instance, bound.value_s, bound.proof, _argument(instance, bound.proof))
    except RefutedError as error:
        raise UnsupportedError(f"this bound has no certificate: {error}") from error


def certify_prices(instance: Instance, found: LagrangianBound) -> Certificate:
    """A certificate for the time-indexed Lagrangian bound ``found``."""
    return _claimed(instance, found.value_s, PRICES, _priced(instance, found))


def certify_walks(instance: Instance, found: ClosedWalkBound) -> Certificate:
    """A certificate for the closed-walk bound ``found``."""
    return _claimed(instance, found.value_s, WALKS, _priced(instance, found))


def certify_late(instance: Instance, found: LateBound) -> Certificate:
    """A certificate for the prices ``found`` of what arrives late."""
    late = _priced(late_requests(instance, found.from_s), found.late)
    argument = ArrivalTime(from_s=found.from_s, late=late)
    return _claimed(instance, found.value_s, late_proof(found), argument)


def late_proof(found: LateBound) -> str:
    """Name of the argument of ``found``."""
    over = WALKS if isinstance(found.late, ClosedWalkBound) else PRICES
    return f"{_ARRIVALS} over {over}"


def _priced(instance: Instance, found: LagrangianBound | ClosedWalkBound) -> OfflineTime:
    if isinstance(found, ClosedWalkBound):
        return WalkTime(pricing=found.pricing)
    return PricedTime(count=best_count(instance)[1], pricing=found.pricing)


def _claimed(instance: Instance, value_s: float, proof: str, argument: Argument) -> Certificate:
    """A certificate that claims ``value_s``, or what ``argument`` proves if that is less."""
    proven = at_most(proven_bound(instance, argument))
    return Certificate(
        instance=instance, digest=instance.digest, bound_s=min(value_s, proven), proof=proof,
        argument=argument,
    )  # fmt: skip


def _argument(instance: Instance, proof: str) -> Argument:
    if proof == _PATH:
        return _longest_path(instance)
    if proof == HELD:
        return best_held(instance)
    if proof == _ARRIVALS:
        return best_arrivals(instance)
    return best_time(instance)


def _longest_path(instance: Instance) -> PathTime:
    """The request that finishes last if each had the machine alone."""
    units = units_for(cost_doubles(instance.cost), 1)
    alone = times_alone(Workload(instance.requests, instance.limits, instance.cost), units)
    ends = [
        float(release) + sum(call.duration_s for call in request.calls) + float(units.seconds(own))
        for request, release, own in zip(instance.requests, instance.release_s, alone, strict=True)
    ]
    return PathTime(request=instance.requests[ends.index(max(ends))].id)
