"""B4 with groups of stages: for memory that holds too many contents to follow every stage.

Groups of consecutive stages keep the memory of a content exact and forget only which request is
how far within its group (``exact_walks``). So far fewer contents tell nearly as much, and prices
are so few that cutting planes find the best (``walks.cutting``), on ever narrower groups.
"""

from __future__ import annotations

import time

import numpy as np

from optsched.bounds.token_time import Line
from optsched.bounds.walk_ground import WalkGround, types_of, walk_ground
from optsched.bounds.walk_repair import (
    UNIT_BITS,
    ClosedWalkBound,
    by_type,
    in_order,
    proven_s,
    repaired,
    rows_of,
)
from optsched.instance import Instance
from optsched.walk_pricing import WalkPricing
from optsched.walks.cutting import best_prices, potentials
from optsched.walks.groups import Grouping, grouping, regrouped, stage_prices
from optsched.walks.problem import FloatArray, WalkProblem
from optsched.walks.rows import Rows

_GROUPS = (4, 8, 16)  # per type of the most stages, if none are left out; each splits the last
_MOST_STATES = 120_000
_OFFSETS = 20  # states per content, at most on average
_LEAST_S = 1.0
_FAR, _NEAR = 0.3, 0.05  # how far from the first prices to look first, as a share of them
_SEARCH = 0.8  # share of the time; potentials take the rest


def grouped_walk_bound(
    instance: Instance,
    line: Line,
    *,
    most_contents: int,
    time_limit_s: float,
    widths: tuple[int, ...] = (),
) -> ClosedWalkBound | None:
    """The best bound found with groups of stages; it holds for every schedule.

    Parameters
    ----------
    instance : Instance
        Arrivals are ignored.
    line : Line
        Below the batch-time law.
    most_contents : int
        Most multisets of groups.
    time_limit_s : float
    widths : tuple of int
        Numbers of stages per group to try in turn, chosen here if not given; prices of one are
        where the next one starts.

    Returns
    -------
    ClosedWalkBound or None
        None where pages hold several tokens, batches take no fixed time, or no detail is small
        enough.
    """
    deadline = time.monotonic() + time_limit_s
    if instance.limits.block_tokens != 1 or line.intercept_s <= 0:
        return None
    best, known, least_out = None, None, 0
    types = types_of(instance)
    most = max(output for _, output, _ in types)
    for width in widths or [-(-most // number) for number in _GROUPS]:
        remaining = deadline - time.monotonic()
        grouped = grouping(types, instance.limits.kv_tokens, width, most_contents)
        if grouped is None or remaining < _LEAST_S:
            continue
        if known is not None and sum(grouped.left_out) > least_out + width * len(types):
            break  # narrower groups of fewer stages
        ground = walk_ground(
            instance, grouped.left_out, line.intercept_s, line.slope_s, UNIT_BITS, grouped.groups
        )
        rows = rows_of(ground)
        if rows.states > min(_MOST_STATES, _OFFSETS * most_contents):
            continue
        problem = _problem(ground, rows)
        start = problem.by_area if known is None else regrouped(*known, grouped)
        radius = _FAR if known is None else _NEAR
        vector = best_prices(problem, start, radius, time.monotonic() + _SEARCH * remaining)
        prices = problem.split(vector)
        known = stage_prices(prices, grouped), prices.growth
        least_out = sum(grouped.left_out)
        bound = _bound(line, ground, problem, vector, grouped, deadline)
        if bound is not None and (best is None or bound.value_s > best.value_s):
            best = bound
    return best


def _problem(ground: WalkGround, rows: Rows) -> WalkProblem:
    unit = 2.0**-UNIT_BITS
    return WalkProblem(
        rows=rows, requests=np.array([kind.requests for kind in ground.kinds], dtype=np.int64),
        refill_s=tuple(np.array(kind.refill) * unit for kind in ground.kinds),
        batch_s=ground.batch * unit, small=ground.small,
    )  # fmt: skip


def _bound(
    line: Line, ground: WalkGround, problem: WalkProblem, vector: FloatArray, grouped: Grouping,
    deadline: float,
) -> ClosedWalkBound | None:  # fmt: skip
    began = time.monotonic()
    rows, prices = problem.rows, problem.split(vector)
    whole = repaired(rows, ground, prices, potentials(problem, vector, deadline))
    if whole is None:
        return None
    numbers = [len(own) for own in grouped.groups]
    return ClosedWalkBound(
        value_s=proven_s(rows, ground, whole),
        pricing=WalkPricing(
            intercept_s=line.intercept_s, slope_s=line.slope_s, unit_bits=UNIT_BITS,
            small=by_type(whole.small, grouped.left_out), followed=by_type(whole.first, numbers),
            potentials=in_order(rows, whole.potentials),
            widths=tuple(map(tuple, grouped.groups)), later=by_type(whole.later, numbers),
            growth=whole.growth,
        ),
        contents=rows.contents.contents, left_out=max(grouped.left_out),
        wall_s=time.monotonic() - began,
    )  # fmt: skip
