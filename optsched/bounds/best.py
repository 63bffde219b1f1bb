"""The best bound within an effort: the quick ones first, then priced ones where they can pay."""

from __future__ import annotations

import time

import msgspec

from optsched.bounds.bound import Bound, lower_bound
from optsched.bounds.certificate import certify, certify_prices
from optsched.bounds.lagrangian import LagrangianBound, lagrangian_bound
from optsched.certificate import Certificate
from optsched.errors import require
from optsched.instance import Instance

EFFORTS = ("quick", "normal", "thorough")
_SECONDS = {"quick": 0.0, "normal": 30.0, "thorough": 300.0}
_CLOSED = 1e-9  # relative; a bound this close to a known schedule cannot be improved


class BestBound(msgspec.Struct, frozen=True, kw_only=True):
    """The best bound found, with what a certificate of it needs.

    Parameters
    ----------
    bound : Bound
        Value, the name of its proof, and what every argument tried gives.
    prices : LagrangianBound or None
        The prices, if they are the proof.
    """

    bound: Bound
    prices: LagrangianBound | None = None


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
        ``quick`` (B0 to B2, L1 to L4, B5), ``normal`` or ``thorough`` (B3 on ever finer buckets).
    time_limit_s : float, optional
        For the priced bounds; 30 s for ``normal`` and 300 s for ``thorough`` if not given.
    target_s : float, optional
        Makespan of a known schedule: nothing is tried once the bound reaches it.

    Raises
    ------
    InfeasibleError
        A request cannot run even alone.
    """
    require(effort in EFFORTS, "effort", effort, f"one of {', '.join(EFFORTS)}")
    begin = time.monotonic()
    quick = lower_bound(instance)
    limit = _SECONDS[effort] if time_limit_s is None else time_limit_s
    if effort == "quick" or instance.has_calls or _reached(quick.value_s, target_s):
        return BestBound(bound=quick)
    prices = lagrangian_bound(
        instance, effort=effort, time_limit_s=limit - (time.monotonic() - begin),
        target_s=target_s, known_s=quick.value_s, least_batches=quick.batches,
    )  # fmt: skip
    parts = {**quick.parts, "B3 Lagrangian": prices.value_s}
    if prices.value_s <= quick.value_s:
        return BestBound(bound=msgspec.structs.replace(quick, parts=parts))
    best = msgspec.structs.replace(
        quick, value_s=prices.value_s, proof="B3 Lagrangian", parts=parts
    )
    return BestBound(bound=best, prices=prices)


def certificate_of(instance: Instance, best: BestBound) -> Certificate:
    """The certificate of ``best``, checked in exact arithmetic."""
    if best.prices is not None:
        return certify_prices(instance, best.prices)
    return certify(instance, best.bound)


def _reached(value_s: float, target_s: float | None) -> bool:
    return target_s is not None and value_s >= target_s * (1 - _CLOSED)
