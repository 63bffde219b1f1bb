"""B3, time-indexed Lagrangian: the search for prices that prove much.

``exact_lagrangian`` says what prices prove. Good ones are the duals of the coarse program
(``model.coarse``): requests flow through buckets of batches, in a program that a solver does in
a second. It is solved on finer and finer buckets, up to the size that ``effort`` allows; each time
the duals are rounded to whole numbers of a binary unit and evaluated as they are then stored.
"""

from __future__ import annotations

import math
import time
from fractions import Fraction

import msgspec

from optsched.bounds.batch_count import batch_count
from optsched.bounds.events import token_runs
from optsched.bounds.exact_lagrangian import Ground
from optsched.bounds.piecewise import Workload, best_line
from optsched.bounds.price_search import PriceSearch
from optsched.bounds.token_time import lines
from optsched.bounds.verify.work import MOST_SIZES
from optsched.errors import UnsupportedError, require
from optsched.instance import Instance, require_feasible
from optsched.pricing import BatchPricing

EFFORTS = {
    "quick": ((600, 0),),
    "normal": ((600, 0), (3600, 2)),
    "thorough": ((600, 0), (3600, 2), (9000, 3)),
}  # nodes of a coarse program, and how often a range of batch numbers is halved
_EXCESS_BITS = 48
_MOST_KINKED = 2
_PROMISING = 0.998  # finer buckets have raised the program's value by less than this


class LagrangianBound(msgspec.Struct, frozen=True, kw_only=True):
    """What the prices found prove.

    Parameters
    ----------
    value_s : float
        The bound in seconds; the exact value rounded down.
    least_batches : int
        N0, proved elsewhere (B1, B2), on which it rests.
    batches : int or None
        Where the law has one piece and nothing is evicted the makespan is W + alpha N: the least N
        for that to reach the bound. None for several pieces, or alpha = 0.
    pricing : BatchPricing
        The proof, for ``exact_lagrangian.lagrangian_value``.
    wall_s : float
        Seconds spent.
    """

    value_s: float
    least_batches: int
    batches: int | None
    pricing: BatchPricing
    wall_s: float


def lagrangian_bound(
    instance: Instance, *, time_limit_s: float | None = None, target_s: float | None = None,
    known_s: float = 0.0, effort: str = "normal", least_batches: int | None = None,
) -> LagrangianBound:  # fmt: skip
    """The best time-indexed Lagrangian bound found for ``instance``.

    Parameters
    ----------
    instance : Instance
        Arrivals are ignored.
    time_limit_s : float, optional
        No linear program is started after so many seconds, and one that runs is stopped.
    target_s : float, optional
        Makespan of a known schedule: the search ends when the bound reaches it.
    known_s : float
        What other bounds prove: finer buckets are not tried where the coarsest ones promise
        clearly less.
    effort : str
        ``quick``, ``normal`` or ``thorough``: how fine the buckets get. More never proves less.
    least_batches : int, optional
        A proven least number of batches; :func:`batch_count` if not given.

    Raises
    ------
    UnsupportedError
        A request makes calls, or is too large (see :func:`covers`).
    InfeasibleError
        A request cannot run even alone.
    """
    require(effort in EFFORTS, "effort", effort, f"one of {', '.join(EFFORTS)}")
    if not covers(instance):
        raise UnsupportedError(
            "the Lagrangian bound does not cover requests that make calls or hold more than "
            f"{MOST_SIZES} KV tokens",
            hint="lower_bound does",
        )
    require_feasible(instance)
    begin = time.monotonic()
    least = least_batches or batch_count(instance).batches
    deadline = None if time_limit_s is None else begin + time_limit_s
    searches = []
    for knee_tokens, excess_s in excesses(instance, least):
        search = PriceSearch(instance, knee_tokens, excess_s, least, target_s, deadline)
        search.run(*EFFORTS[effort][0])
        searches.append(search)
        if search.done:
            break
    leader = max(searches, key=lambda search: search.best.value)
    for nodes, halvings in EFFORTS[effort][1:]:
        if leader.promised_s >= known_s * _PROMISING:
            leader.run(nodes, halvings)
    best, base = leader.best, leader.base
    return LagrangianBound(
        value_s=_rounded_down(best.value), least_batches=least,
        batches=_equivalent_batches(instance, base, best.value), pricing=best.pricing,
        wall_s=time.monotonic() - begin,
    )  # fmt: skip


def covers(instance: Instance) -> bool:
    """Whether no request makes calls, and refills to all sizes of KV are few enough to be priced
    one by one."""
    return not instance.has_calls and int(instance.final_tokens.max()) <= MOST_SIZES


def excesses(instance: Instance, batches: int) -> list[tuple[int, float]]:
    """(knee, excess) to try: none, and those of the lines that prove most in L4."""
    load = Workload(runs=token_runs(instance), limits=instance.limits, cost=instance.cost)
    kinked = [line for line in lines(load.law) if line.excess_s > 0]
    if instance.cost.p_kv == 0 and instance.cost.p_req == 0:
        kinked = []  # chunks cost nothing, so that they may be as short as the knee
    kinked.sort(key=lambda line: -best_line(load, (line,), batches, rereads=True))
    found = [(1, 0.0)]
    found += [(line.knee_tokens, _short(line.excess_s)) for line in kinked[:_MOST_KINKED]]
    return found


def _short(seconds: float) -> float:
    """Rounded down to a multiple of 2 ** -48, which keeps exact arithmetic short."""
    return math.ldexp(math.floor(math.ldexp(seconds, _EXCESS_BITS)), -_EXCESS_BITS)


def _equivalent_batches(instance: Instance, base: Ground, value: Fraction) -> int | None:
    if len(instance.cost.pieces) != 1 or instance.cost.pieces[0][0] <= 0:
        return None
    alpha = Fraction(instance.cost.pieces[0][0])
    return math.ceil((value - base.units.seconds(base.work)) / alpha)


def _rounded_down(value: Fraction) -> float:
    near = float(value)
    return near if Fraction(near) <= value else math.nextafter(near, -math.inf)
