"""Which argument in seconds a certificate names, for requests that are all there from the start.

Lines are those of the bounds in floating point, lowered until they lie below the law exactly.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from optsched.bounds.count_arguments import best_count
from optsched.bounds.events import token_runs
from optsched.bounds.held_calls import held_calls
from optsched.bounds.phases import phases
from optsched.bounds.piecewise import Workload, best_line, jensen, piece_lines
from optsched.bounds.token_time import Line as FloatLine
from optsched.bounds.token_time import lines, token_law
from optsched.bounds.verify.law import law_of
from optsched.bounds.verify.units import cost_doubles, units_for
from optsched.bounds.verify.verdict import proven_bound
from optsched.certificate import (
    BalancedTime,
    Count,
    HeldTime,
    Line,
    LineTime,
    OfflineTime,
    PhasesTime,
)
from optsched.cost import CostModel
from optsched.instance import Instance

_INTERVALS = 2000
_MOST_THRESHOLDS = 4


def best_time(instance: Instance) -> OfflineTime:
    """The argument that proves the most for the requests of ``instance`` without arrivals."""
    batches, count = best_count(instance)
    workload = Workload(runs=token_runs(instance), limits=instance.limits, cost=instance.cost)
    supports = (*piece_lines(workload), *lines(workload.law))
    rated = [best_line(workload, (line,), batches, rereads=True) for line in supports]
    best = supports[int(np.argmax(rated))]
    values = {"line": max(rated), "balanced": jensen(workload, batches)}
    if phases(workload, batches) > max(values.values()) * (1 + 1e-12):
        return _best_phases(instance, workload, count)
    if values["balanced"] > values["line"] * (1 + 1e-12):
        return BalancedTime(count=count)
    return LineTime(count=count, line=exact_line(best, instance.cost, instance.limits.batch_tokens))


def best_held(instance: Instance) -> HeldTime:
    """The line, and the shares of work and memory, that prove the most; there are calls."""
    batches, count = best_count(instance)
    workload = Workload(runs=token_runs(instance), limits=instance.limits, cost=instance.cost)
    found = held_calls(instance, workload, batches)
    assert found is not None, "the proof is about calls"
    line = exact_line(found.line, instance.cost, instance.limits.batch_tokens)
    return HeldTime(count=count, line=line, memory_parts=found.memory_parts)


def _best_phases(instance: Instance, workload: Workload, count: Count) -> PhasesTime:
    """The split that proves the most, of a few."""
    remaining = workload.runs.remaining[workload.runs.first]
    levels = np.unique(remaining)
    picked = levels[np.linspace(0, levels.size - 1, _MOST_THRESHOLDS).astype(np.int64)]
    chosen = tuple(
        exact_line(line, instance.cost, instance.limits.batch_tokens)
        for line in lines(workload.law)
    )
    tried = [
        PhasesTime(count=count, remaining=int(t), lines=chosen, intervals=_INTERVALS)
        for t in np.unique(picked)
    ]
    return max(tried, key=lambda argument: proven_bound(instance, argument))


def exact_lines(cost: CostModel, batch_tokens: int) -> list[Line]:
    """All lines of the bounds, exactly below the law."""
    found = lines(token_law(cost, batch_tokens))
    return [exact_line(line, cost, batch_tokens) for line in found]


def exact_line(line: FloatLine, cost: CostModel, batch_tokens: int) -> Line:
    """``line`` with the largest intercept with which it is below the law exactly.

    A slope that is a piece's up to rounding becomes that; if rounding leaves no intercept >= 0,
    slope and excess are lowered until there is one.
    """
    slope = next((b for _, b in cost.pieces if abs(b - line.slope_s) <= 1e-9 * b), line.slope_s)
    excess, knee = line.excess_s, max(1, line.knee_tokens)
    cut = 2.0**-52
    while (room := _room(cost, batch_tokens, slope, knee, excess)) < 0:
        slope, excess, cut = slope * (1 - cut), excess * (1 - cut), min(1.0, 4 * cut)
    return Line(intercept_s=at_most(room), slope_s=slope, knee_tokens=knee, excess_s=excess)


def _room(cost: CostModel, batch_tokens: int, slope: float, knee: int, excess: float) -> Fraction:
    """Least g(n) - slope n - excess max(0, n - knee) over n = 0 .. C, in seconds."""
    units = units_for([*cost_doubles(cost), slope, excess], 1)
    law = law_of(cost, batch_tokens, units)
    b, e = units.of(slope), units.of(excess)
    points = {*law.corners, min(knee, batch_tokens)}
    return units.seconds(min(law(n) - b * n - e * max(0, n - knee) for n in points))


def at_most(value: Fraction) -> float:
    """The largest double that is no more than ``value``."""
    near = float(value)
    return near if Fraction(near) <= value else math.nextafter(near, -math.inf)
