"""The best bound within an effort: the quick ones first, then priced ones where they can pay."""

from __future__ import annotations

import time

import msgspec

from optsched.bounds.bound import Bound, lower_bound
from optsched.bounds.certificate import (
    PRICES,
    WALKS,
    certify,
    certify_late,
    certify_prices,
    certify_walks,
    late_proof,
)
from optsched.bounds.closed_walks import closed_walk_bound
from optsched.bounds.lagrangian import LagrangianBound, covers, lagrangian_bound
from optsched.bounds.late_prices import LateBound, late_bound
from optsched.bounds.walk_repair import ClosedWalkBound
from optsched.certificate import Certificate
from optsched.errors import require
from optsched.instance import Instance

EFFORTS = ("quick", "normal", "thorough")
_SECONDS = {"quick": 0.0, "normal": 30.0, "thorough": 300.0}
_WALK_SHARE = 0.5  # of the time, at most: closed walks are over in no time or out of reach
_WALK_STATES = {"normal": 6_000, "thorough": 200_000}
_MOST_RESIDENTS = 64  # with more requests in memory its contents are too many to say anything
_CLOSED = 1e-9  # relative; a bound this close to a known schedule cannot be improved


class BestBound(msgspec.Struct, frozen=True, kw_only=True):
    """The best bound found, with what a certificate of it needs.

    Parameters
    ----------
    bound : Bound
        Value, the name of its proof, and what every argument tried gives.
    priced : LagrangianBound, ClosedWalkBound, LateBound or None
        The prices, if they are the proof.
    """

    bound: Bound
    priced: LagrangianBound | ClosedWalkBound | LateBound | None = None


def best_bound(
    instance: Instance,
    *,
    effort: str = "normal",
    time_limit_s: float | None = None,
    target_s: float | None = None,
) -> BestBound:
    """The best lower bound on the makespan that ``effort`` allows.

    Parameters
    ----------
    effort : str
        ``quick`` (B0 to B2, L1 to L4, B5), ``normal`` or ``thorough`` (B4 with ever more memory
        contents, B3 on ever finer buckets).
    time_limit_s : float, optional
        For the priced bounds; 30 s for ``normal`` and 300 s for ``thorough`` if not given.
    target_s : float, optional
        Makespan of a known schedule: nothing more is tried once the bound reaches it.

    Raises
    ------
    InfeasibleError
        A request cannot run even alone.
    """
    require(effort in EFFORTS, "effort", effort, f"one of {', '.join(EFFORTS)}")
    limit = _SECONDS[effort] if time_limit_s is None else time_limit_s
    deadline = time.monotonic() + limit
    best = BestBound(bound=lower_bound(instance))
    if effort == "quick" or not covers(instance) or _reached(best, target_s):
        return best
    walks = None
    if _residents(instance) <= _MOST_RESIDENTS:
        walks = closed_walk_bound(
            instance, time_limit_s=_WALK_SHARE * (deadline - time.monotonic()),
            most_states=_WALK_STATES[effort],
        )  # fmt: skip
    if walks is not None:
        best = _better(best, WALKS, walks)
    if _reached(best, target_s):
        return best
    prices = lagrangian_bound(
        instance, effort=effort, time_limit_s=deadline - time.monotonic(), target_s=target_s,
        known_s=best.bound.value_s, least_batches=best.bound.batches,
    )  # fmt: skip
    best = _better(best, PRICES, prices)
    if _reached(best, target_s):
        return best
    late = late_bound(
        instance, effort=effort, time_limit_s=deadline - time.monotonic(), target_s=target_s,
        known_s=best.bound.value_s,
    )  # fmt: skip
    return best if late is None else _better(best, late_proof(late), late)


def certificate_of(instance: Instance, best: BestBound) -> Certificate:
    """The certificate of ``best``, checked in exact arithmetic."""
    if isinstance(best.priced, LagrangianBound):
        return certify_prices(instance, best.priced)
    if isinstance(best.priced, LateBound):
        return certify_late(instance, best.priced)
    if isinstance(best.priced, ClosedWalkBound):
        return certify_walks(instance, best.priced)
    return certify(instance, best.bound)


def _residents(instance: Instance) -> float:
    """How many requests of the mean size memory holds, of those that there are."""
    prompt, output = instance.prompt_tokens, instance.output_tokens
    area = float((output * prompt + output * (output - 1) // 2).sum())
    return min(len(instance), instance.limits.kv_tokens * float(output.sum()) / area)


def _better(
    best: BestBound, name: str, found: LagrangianBound | ClosedWalkBound | LateBound
) -> BestBound:
    """``best`` with what ``found`` proves beside it, or in place of it."""
    bound = msgspec.structs.replace(best.bound, parts={**best.bound.parts, name: found.value_s})
    if found.value_s <= bound.value_s:
        return BestBound(bound=bound, priced=best.priced)
    bound = msgspec.structs.replace(bound, value_s=found.value_s, proof=name)
    return BestBound(bound=bound, priced=found)


def _reached(best: BestBound, target_s: float | None) -> bool:
    return target_s is not None and best.bound.value_s >= target_s * (1 - _CLOSED)
