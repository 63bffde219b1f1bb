"""B4, closed walks: the search for prices and potentials, where few requests fit in memory.

``exact_walks`` says what they prove. Good ones are the duals of a linear program over all memory
contents (``walk_program``), made whole by ``walk_repair``. The smallest stages are left out where
there would be too many contents; where that is so, groups of stages (``grouped_walks``) may prove
more.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from optsched.bounds.batch_count import batch_count
from optsched.bounds.events import token_runs
from optsched.bounds.grouped_walks import grouped_walk_bound
from optsched.bounds.piecewise import Workload, best_line, piece_lines
from optsched.bounds.token_time import Line, lines
from optsched.bounds.walk_ground import types_of, walk_ground
from optsched.bounds.walk_program import walk_program
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
from optsched.solvers.interrupted import unless_interrupted
from optsched.solvers.lp import solve_lp
from optsched.solvers.outcome import SolverOptions
from optsched.walk_pricing import WalkPricing
from optsched.walks.problem import WalkPrices

__all__ = ["MOST_STATES", "ClosedWalkBound", "closed_walk_bound"]

MOST_STATES = 200_000
_MOST_TYPES = 64
_BELOW = 1 - 1e-12
_MOST_PACKING = 200_000  # columns that place a small stage in free pages
_COARSEST = 500  # contents; a program of fewer takes no time
_FINER = 4
_SHARE = 0.2  # of the time, for programs that leave stages out where none follows all of them
_GROWTH = 1.8  # of the time of a program in its contents
_PROMISING = 1 + 1e-6
_PROMISING_STATES = 2000  # as many should prove more than a coarser detail if any number does


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
    details = _details(instance, most_states)
    all_followed = bool(details) and not any(details[-1][1])
    share_s = time_limit_s if all_followed or most_states < _COARSEST else _SHARE * time_limit_s
    for states, left_out in details:
        found: list[ClosedWalkBound] = []
        for line in candidates:
            remaining = share_s - (time.monotonic() - began)
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
    if most_states < _COARSEST or (best is not None and best.left_out == 0):
        return best
    remaining = time_limit_s - (time.monotonic() - began)
    grouped = grouped_walk_bound(
        instance, candidates[0], most_contents=most_states, time_limit_s=remaining
    )
    return grouped if best is None or (grouped and grouped.value_s > best.value_s) else best


def _solved(
    instance: Instance, line: Line, left_out: list[int], time_limit_s: float
) -> ClosedWalkBound | None:
    began = time.monotonic()
    ground = walk_ground(instance, left_out, line.intercept_s, line.slope_s, UNIT_BITS)
    rows = rows_of(ground)
    program = walk_program(rows.contents, ground, UNIT_BITS)
    limits = SolverOptions(time_limit_s=max(time_limit_s, 0.0))
    solution = unless_interrupted(solve_lp(program.milp, limits))
    if solution.row_duals is None or not np.isfinite(solution.row_duals).all():
        return None
    duals = program.duals(solution.row_duals)
    prices = WalkPrices(
        first=duals.events, later=np.zeros_like(duals.events), small=duals.small, growth=0.0
    )
    whole = repaired(rows, ground, prices, duals.potentials[:, None])
    if whole is None:
        return None
    followed = [
        output - less for (_, output, _), less in zip(types_of(instance), left_out, strict=True)
    ]
    return ClosedWalkBound(
        value_s=proven_s(rows, ground, whole),
        pricing=WalkPricing(
            intercept_s=line.intercept_s, slope_s=line.slope_s, unit_bits=UNIT_BITS,
            small=by_type(whole.small, left_out), followed=by_type(whole.first, followed),
            potentials=in_order(rows, whole.potentials),
        ),
        contents=rows.contents.contents,
        left_out=max(left_out),
        wall_s=time.monotonic() - began,
    )  # fmt: skip


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
