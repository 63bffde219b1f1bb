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
from collections.abc import Iterator
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
from optsched.solvers.lp import solve_lp
from optsched.solvers.outcome import SolverOptions
from optsched.walk_pricing import WalkPricing

MOST_STATES = 200_000
_UNIT_BITS = 46  # a potential of 10^5 batches of a second still fits in 64 bits
_MOST_SWEEPS = 60
_MOST_ROUNDS = 8
_BELOW = 1 - 1e-12
_COARSEST = 500  # contents; a program of fewer takes no time
_FINER = 4
_GROWTH = 1.8  # of the time of a program in its contents
_PROMISING = 1 + 1e-6


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
        None if requests make calls, if there are too many contents even of the last stages alone,
        or if the first program is not solved in time.
    """
    began = time.monotonic()
    if instance.has_calls:
        return None
    line, best = _line(instance), None
    for states, detail in _details(instance, most_states):
        remaining = time_limit_s - (time.monotonic() - began)
        if best is not None:
            expected = best.wall_s * (states / best.contents) ** _GROWTH
            if expected > remaining:
                break
        found = _solved(instance, line, detail, remaining)
        if found is None or (best is not None and found.value_s <= best.value_s * _PROMISING):
            break
        best = found
    return best


def _solved(
    instance: Instance, line: Line, left_out: list[int], time_limit_s: float
) -> ClosedWalkBound | None:
    began = time.monotonic()
    ground = walk_ground(instance, left_out, line.intercept_s, line.slope_s, _UNIT_BITS)
    states = walk_states(ground)
    program = walk_program(states, ground, _UNIT_BITS)
    solution = solve_lp(program.milp, SolverOptions(time_limit_s=max(time_limit_s, 0.0)))
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


def _line(instance: Instance) -> Line:
    """The line below the law under which the other bounds prove most."""
    workload = Workload(
        runs=token_runs(instance), limits=instance.limits, cost=instance.cost
    )  # fmt: skip
    batches = batch_count(instance).batches
    # Mixtures pass through rounded knots: a little less is surely below the law.
    mixed = [
        replace(line, intercept_s=line.intercept_s * _BELOW, slope_s=line.slope_s * _BELOW)
        for line in lines(workload.law)
    ]
    return max(
        [*piece_lines(workload), *mixed], key=lambda line: best_line(workload, (line,), batches)
    )


def _details(instance: Instance, most_states: int) -> Iterator[tuple[int, list[int]]]:
    """Numbers of small stages to leave out per type, with the number of contents: about 4 times
    as many from one to the next, and at most ``most_states``.

    Stages are followed from the largest size on, the last one of a type always.
    """
    block, types = instance.limits.block_tokens, types_of(instance)
    cap = instance.limits.kv_tokens // block
    left_out = [output - 1 for _, output, _ in types]
    last = [-(-(prompt + output - 1) // block) for prompt, output, _ in types]
    ways = [1, *[0] * cap]
    for pages in last:
        _add_item(ways, pages)
    contents, given = sum(ways), 0
    if contents > most_states:
        return
    for pages in range(max(last), 0, -1):
        stages = [
            max(0, less - max(0, block * (pages - 1) - prompt + 1))
            for (prompt, _, _), less in zip(types, left_out, strict=True)
        ]
        if not any(stages):
            continue
        for _ in range(sum(stages)):
            _add_item(ways, pages)
        finer = sum(ways)
        if finer > most_states:
            break
        if contents >= _COARSEST and finer > _FINER * max(given, _COARSEST / _FINER):
            yield contents, list(left_out)
            given = contents
        contents = finer
        left_out = [less - stage for less, stage in zip(left_out, stages, strict=True)]
    yield contents, left_out


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
