"""B4, closed walks: the search for prices and potentials, where few requests fit in memory.

``exact_walks`` says what they prove. Good ones are the duals of a linear program over all memory
contents (``walk_program``). The duals are rounded to whole numbers and the potentials repaired:
lowered to least values over all batches until no batch raises them by more than it costs, so what
is returned holds whatever the solver did. The smallest stages are left out where there would be
too many contents.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from fractions import Fraction

import msgspec
import numpy as np

from optsched.bounds.batch_count import batch_count
from optsched.bounds.events import token_runs
from optsched.bounds.exact_walks import WalkGround, best_earnings, types_of, walk_ground
from optsched.bounds.piecewise import Workload, best_line, piece_lines
from optsched.bounds.token_time import Line, lines
from optsched.bounds.walk_program import WalkDuals, walk_program
from optsched.bounds.walk_states import (
    IntArray,
    WalkPrices,
    WalkStates,
    after_a_batch,
    walk_states,
)
from optsched.instance import Instance
from optsched.solvers.interrupted import unless_interrupted
from optsched.solvers.lp import solve_lp
from optsched.solvers.outcome import SolverOptions
from optsched.walk_pricing import WalkPricing

MOST_STATES = 200_000
_UNIT_BITS = 46
_SAFE = 2**56  # 1024 s: sums of a batch's prices with a potential then stay within 64 bits
_MOST_TYPES = 64
_MOST_SWEEPS = 60
_MOST_ROUNDS = 8
_BELOW = 1 - 1e-12
_MOST_PACKING = 200_000  # columns that place a small stage in free pages
_COARSEST = 500  # contents; a program of fewer takes no time
_FINER = 4
_GROWTH = 1.8  # of the time of a program in its contents
_PROMISING = 1 + 1e-6
_PROMISING_STATES = 2000  # as many should prove more than a coarser detail if any number does


class ClosedWalkBound(msgspec.Struct, frozen=True, kw_only=True):
    """What the prices found prove.

    Parameters
    ----------
    value_s : float
        The bound in seconds; the exact value rounded down.
    pricing : WalkPricing
        The proof, for ``exact_walks.walk_value``.
    contents : int
        Number of memory contents.
    left_out : int
        Most small stages of a type that are left out of the contents.
    wall_s : float
        Seconds spent.
    """

    value_s: float
    pricing: WalkPricing
    contents: int
    left_out: int
    wall_s: float


def closed_walk_bound(
    instance: Instance, *, time_limit_s: float, most_states: int = MOST_STATES
) -> ClosedWalkBound | None:
    """The best closed-walk bound found for ``instance``, which holds for every schedule.

    Fewer and fewer stages are left out, as long as that proves more and is expected to end in time.
    Which line below the law is used is decided at the coarsest.

    Parameters
    ----------
    instance : Instance
        Arrivals are ignored.
    time_limit_s : float
        Seconds for all linear programs.
    most_states : int
        Most memory contents.

    Returns
    -------
    ClosedWalkBound or None
        None if requests make calls or are of more than 64 types, if even the coarsest program is
        too large or not solved in time.
    """
    began = time.monotonic()
    if instance.has_calls or len(types_of(instance)) > _MOST_TYPES:
        return None
    candidates, best = _lines(instance), None
    for states, left_out in _details(instance, most_states):
        found: list[ClosedWalkBound] = []
        for line in candidates:
            remaining = time_limit_s - (time.monotonic() - began)
            before = found[-1] if found else best
            if before and before.wall_s * (states / before.contents) ** _GROWTH > remaining:
                break
            bound = _solved(instance, line, left_out, remaining)
            if bound is None:
                break
            found.append(bound)
        if not found:
            break
        finer = max(found, key=lambda bound: bound.value_s)
        candidates = [candidates[found.index(finer)]]
        gained = best is None or finer.value_s > best.value_s * _PROMISING
        best = finer if best is None or finer.value_s > best.value_s else best
        if not gained and states > _PROMISING_STATES:
            break
    return best


def _solved(
    instance: Instance, line: Line, left_out: list[int], time_limit_s: float
) -> ClosedWalkBound | None:
    began = time.monotonic()
    ground = walk_ground(instance, left_out, line.intercept_s, line.slope_s, _UNIT_BITS)
    states = walk_states(ground)
    program = walk_program(states, ground, _UNIT_BITS)
    limits = SolverOptions(time_limit_s=max(time_limit_s, 0.0))
    solution = unless_interrupted(solve_lp(program.milp, limits))
    if solution.row_duals is None or not np.isfinite(solution.row_duals).all():
        return None
    repaired = _repaired(states, ground, program.duals(solution.row_duals))
    if repaired is None:
        return None
    prices, potentials = repaired
    followed = [
        output - less for (_, output, _), less in zip(types_of(instance), left_out, strict=True)
    ]
    return ClosedWalkBound(
        value_s=_rounded_down(_total(ground, prices, potentials)),
        pricing=WalkPricing(
            intercept_s=line.intercept_s, slope_s=line.slope_s, unit_bits=_UNIT_BITS,
            small=_by_type(prices.small, left_out), followed=_by_type(prices.events, followed),
            potentials=tuple(potentials[states.lexicographic].tolist()),
        ),
        contents=states.contents,
        left_out=max(left_out),
        wall_s=time.monotonic() - began,
    )  # fmt: skip


def _by_type(prices: IntArray, stages: list[int]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(own.tolist()) for own in np.split(prices, np.cumsum(stages)[:-1]))


def _lines(instance: Instance) -> list[Line]:
    """Lines below the law, those under which the other bounds prove more first."""
    workload = Workload(runs=token_runs(instance), limits=instance.limits, cost=instance.cost)
    batches = batch_count(instance).batches
    pieces = piece_lines(workload)
    # Mixtures pass through rounded knots: a little less is surely below the law.
    mixed = [
        replace(line, intercept_s=line.intercept_s * _BELOW, slope_s=line.slope_s * _BELOW)
        for line in lines(workload.law)
    ]
    found = pieces if len(instance.cost.pieces) == 1 and pieces else (*pieces, *mixed)
    return sorted(found, key=lambda line: -best_line(workload, (line,), batches))


def _details(instance: Instance, most_states: int) -> list[tuple[int, list[int]]]:
    """Numbers of small stages to leave out per type, with the number of contents: ascending, from
    one to the next at least ``_FINER`` times as many, and at most ``most_states``.

    Stages are followed from the largest size on, the last one of a type always.
    """
    block, types = instance.limits.block_tokens, types_of(instance)
    left_out = [output - 1 for _, output, _ in types]
    last = [-(-(prompt + output - 1) // block) for prompt, output, _ in types]
    ways = [1] + [0] * (instance.limits.kv_tokens // block)
    for pages in last:
        _add_item(ways, pages)
    all_details = [(sum(ways), list(left_out))]
    for pages in range(max(last), 0, -1):
        for k, (prompt, _, _) in enumerate(types):
            while left_out[k] and -(-(prompt + left_out[k] - 1) // block) == pages:
                left_out[k] -= 1
                _add_item(ways, pages)
        if all_details[-1][1] != left_out:
            all_details.append((sum(ways), list(left_out)))
        if all_details[-1][0] > most_states:
            break
    chosen: list[tuple[int, list[int]]] = []
    for contents, less in reversed(all_details):
        if contents > most_states or (sum(less) + 1) * len(ways) > _MOST_PACKING:
            continue
        if chosen and contents < _COARSEST:
            continue
        if not chosen or contents * _FINER <= chosen[0][0]:
            chosen.insert(0, (contents, less))
    return chosen


def _add_item(ways: list[int], pages: int) -> None:
    """Let multisets also contain items of ``pages`` pages; ``ways[n]``: those of n pages."""
    for total in range(pages, len(ways)):
        ways[total] += ways[total - pages]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Whole:
    """Prices as whole numbers."""

    events: IntArray
    small: IntArray


def _repaired(
    states: WalkStates, ground: WalkGround, duals: WalkDuals
) -> tuple[_Whole, IntArray] | None:
    """Whole prices and potentials that no batch violates; None if none are found near ``duals``."""
    scale = 2.0**_UNIT_BITS
    largest = max(
        float(np.abs(part).max(initial=0.0))
        for part in (duals.events, duals.small, duals.potentials)
    )
    if not largest * scale < _SAFE:
        return None
    potentials = np.floor(duals.potentials * scale).astype(np.int64)
    for _ in range(_MOST_ROUNDS):
        whole = _Whole(
            events=np.floor(duals.events * scale).astype(np.int64),
            small=np.floor(duals.small * scale).astype(np.int64),
        )
        prices = _walk_prices(states, ground, whole)
        excess = 0
        for _ in range(_MOST_SWEEPS):
            after = after_a_batch(states, potentials, prices)
            excess = int((potentials - after).max())
            if excess <= 0:
                return whole, potentials
            potentials = np.minimum(potentials, after)
            if potentials.min() < -_SAFE:
                return None
        # Where no refill is cheaper than its decode, a batch costs enough for prices and potentials
        # that are smaller in this proportion.
        keep = ground.batch / (ground.batch + excess) * _BELOW
        scale *= keep
        potentials = np.floor(potentials * keep).astype(np.int64)
    return None


def _walk_prices(states: WalkStates, ground: WalkGround, whole: _Whole) -> WalkPrices:
    refill = np.array([kind.refill for kind in ground.kinds], dtype=np.int64)
    small = zip([pages for pages, _ in ground.small], whole.small.tolist(), strict=True)
    best = np.array(best_earnings(ground.cap, small), dtype=np.int64)
    return WalkPrices(
        events=whole.events, fill=refill - whole.events, batch=ground.batch - best[states.free]
    )


def _total(ground: WalkGround, whole: _Whole, potentials: IntArray) -> Fraction:
    """W + p0 Np + sum of prices, in seconds."""
    earned = int(potentials.min()) - int(potentials[0])
    counts = [kind.requests for kind in ground.kinds] + [count for _, count in ground.small]
    prices = [*whole.events.tolist(), *whole.small.tolist()]
    earned += sum(count * price for count, price in zip(counts, prices, strict=True))
    return ground.base_s + Fraction(earned, 2**_UNIT_BITS)


def _rounded_down(value: Fraction) -> float:
    near = float(value)
    return near if Fraction(near) <= value else math.nextafter(near, -math.inf)
