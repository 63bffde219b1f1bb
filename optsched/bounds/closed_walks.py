"""B4, closed walks: the search for prices and potentials, where few requests fit in memory.

``exact_walks`` says what they prove. Good ones are the duals of a linear program over all memory
contents (``walk_program``). The duals are rounded to whole numbers and the potentials repaired:
lowered to least values over all batches until no batch raises them by more than it costs. So what
is returned holds whatever the solver did. Stages are merged to classes where there would be too
many contents.
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
from optsched.bounds.exact_walks import WalkGround, types_of, walk_ground
from optsched.bounds.piecewise import Workload, best_line, piece_lines
from optsched.bounds.token_time import Line, lines
from optsched.bounds.walk_program import walk_program
from optsched.bounds.walk_states import (
    IntArray,
    WalkPrices,
    WalkStates,
    after_a_batch,
    count_contents,
    walk_states,
)
from optsched.instance import Instance
from optsched.solvers.lp import solve_lp
from optsched.solvers.outcome import SolverOptions
from optsched.walk_pricing import WalkPricing

MOST_STATES = 3000
_UNIT_BITS = 46  # a potential of 10^5 batches of a second still fits in 64 bits
_MOST_SWEEPS = 2000
_SHRINK = (0.0, 1e-10, 1e-8, 1e-6)
_MOST_WIDTH = 4096
_BELOW = 1 - 1e-12


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
    widest : int
        Most stages of a class; 1 if none were merged.
    wall_s : float
        Seconds spent.
    """

    value_s: float
    pricing: WalkPricing
    contents: int
    widest: int
    wall_s: float


def closed_walk_bound(
    instance: Instance, *, time_limit_s: float, most_states: int = MOST_STATES
) -> ClosedWalkBound | None:
    """The closed-walk bound of ``instance``, which holds for every schedule.

    Parameters
    ----------
    instance : Instance
        Arrivals are ignored.
    time_limit_s : float
        Seconds for the linear program.
    most_states : int
        Most memory contents; stages are merged to classes as far as that needs.

    Returns
    -------
    ClosedWalkBound or None
        None if requests make calls, if even one class per type has too many contents, or if the
        program is not solved in time.
    """
    began = time.monotonic()
    if instance.has_calls:
        return None
    line = _line(instance)
    found = _classes(instance, line, most_states)
    if found is None:
        return None
    widths, ground = found
    states = walk_states(ground)
    program = walk_program(states, ground, _UNIT_BITS)
    solution = solve_lp(program.milp, SolverOptions(time_limit_s=time_limit_s))
    if solution.row_duals is None or not np.isfinite(solution.row_duals).all():
        return None
    duals = _Duals(*program.prices(solution.row_duals))
    repaired = _repaired(states, ground, duals)
    if repaired is None:
        return None
    prices, slack, potentials = repaired
    value = walk_total(ground, prices, slack, potentials)
    ends = np.cumsum([len(own) for own in widths])[:-1]
    return ClosedWalkBound(
        value_s=_rounded_down(value),
        pricing=WalkPricing(
            intercept_s=line.intercept_s, slope_s=line.slope_s, unit_bits=_UNIT_BITS, widths=widths,
            first=tuple(tuple(own.tolist()) for own in np.split(prices.first, ends)),
            later=tuple(tuple(own.tolist()) for own in np.split(prices.later, ends)),
            slack=slack, potentials=tuple(potentials[states.lexicographic].tolist()),
        ),
        contents=states.contents,
        widest=max(max(own) for own in widths),
        wall_s=time.monotonic() - began,
    )  # fmt: skip


@dataclass(frozen=True)
class _Duals:
    """Prices in seconds as a solver gave them."""

    first: np.ndarray
    later: np.ndarray
    slack: float
    potentials: np.ndarray


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


def _classes(
    instance: Instance, line: Line, most_states: int
) -> tuple[tuple[tuple[int, ...], ...], WalkGround] | None:
    """Widths of classes with at most ``most_states`` contents, the narrowest that do."""
    outputs = [output for _, output, _ in types_of(instance)]
    for width in range(1, min(max(outputs), _MOST_WIDTH) + 1):
        widths = tuple(_even(output, width) for output in outputs)
        ground = walk_ground(instance, widths, line.intercept_s, line.slope_s, _UNIT_BITS)
        pages = np.array([kind.pages for kind in ground.kinds], dtype=np.int64)
        if count_contents(pages, ground.cap) <= most_states:
            return widths, ground
    return None


def _even(stages: int, width: int) -> tuple[int, ...]:
    """Classes of at most ``width`` stages, as even as possible."""
    classes = -(-stages // width)
    low, more = divmod(stages, classes)
    return (low,) * (classes - more) + (low + 1,) * more


def _repaired(
    states: WalkStates, ground: WalkGround, duals: _Duals
) -> tuple[WalkPrices, int, IntArray] | None:
    """Whole prices and potentials that no batch violates; None if none are found near ``duals``."""
    scale = 2.0**_UNIT_BITS
    for shrink in _SHRINK:
        keep = scale * (1 - shrink)
        prices, slack = _whole(states, ground, duals, keep)
        potentials = np.floor(duals.potentials * keep).astype(np.int64)
        for _ in range(_MOST_SWEEPS):
            after = np.minimum(potentials, after_a_batch(states, potentials, prices))
            if np.array_equal(after, potentials):
                return prices, slack, potentials
            potentials = after
            if potentials.min() < -(2**62):
                break
    return None


def _whole(
    states: WalkStates, ground: WalkGround, duals: _Duals, keep: float
) -> tuple[WalkPrices, int]:
    first = np.floor(duals.first * keep).astype(np.int64)
    has_later = np.array([kind.later > 0 for kind in ground.kinds])
    later = np.where(has_later, np.floor(duals.later * keep), 0.0).astype(np.int64)
    slack = int(duals.slack * keep) if ground.surplus else 0
    refill = np.array([kind.refill for kind in ground.kinds], dtype=np.int64) - first
    again = np.array([kind.refill_later for kind in ground.kinds], dtype=np.int64) - later
    return WalkPrices(
        first=first, later=later, fill=np.where(has_later, np.minimum(refill, again), refill),
        batch=ground.batch - slack * states.free,
    ), slack  # fmt: skip


def walk_total(ground: WalkGround, prices: WalkPrices, slack: int, potentials: IntArray) -> Fraction:
    """W + p0 Np + sum of prices, in seconds."""
    earned = slack * ground.surplus + int(potentials.min()) - int(potentials[0])
    for kind, first, later in zip(
        ground.kinds, prices.first.tolist(), prices.later.tolist(), strict=True
    ):
        earned += kind.requests * first + kind.later * later
    return ground.base_s + Fraction(earned, 2**_UNIT_BITS)


def _rounded_down(value: Fraction) -> float:
    near = float(value)
    return near if Fraction(near) <= value else math.nextafter(near, -math.inf)
