"""Which argument in seconds a certificate names, for requests that are all there from the start.

Lines are those of the bounds in floating point, lowered until they lie below the law exactly.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from optsched.bounds.count_arguments import best_count
from optsched.bounds.events import token_runs
from optsched.bounds.phases import phases
from optsched.bounds.piecewise import Workload, best_line, jensen
from optsched.bounds.token_time import Line as FloatLine
from optsched.bounds.token_time import lines, token_law
from optsched.bounds.verify.law import Law, law_of
from optsched.bounds.verify.units import Units, cost_doubles, units_for
from optsched.bounds.verify.verdict import proven_bound
from optsched.certificate import BalancedTime, Count, Line, LineTime, OfflineTime, PhasesTime
from optsched.cost import CostModel
from optsched.instance import Instance

_INTERVALS = 2000
_MOST_THRESHOLDS = 4


def best_time(instance: Instance) -> OfflineTime:
    """The argument that proves the most for the requests of ``instance`` without arrivals."""
    batches, count = best_count(instance)
    workload = Workload(runs=token_runs(instance), limits=instance.limits, cost=instance.cost)
    supports = lines(workload.law)
    rated = [best_line(workload, (line,), batches, rereads=True) for line in supports]
    best = supports[int(np.argmax(rated))]
    values = {"line": max(rated), "balanced": jensen(workload, batches)}
    if phases(workload, batches) > max(values.values()) * (1 + 1e-12):
        return _best_phases(instance, workload, count)
    if values["balanced"] > values["line"] * (1 + 1e-12):
        return BalancedTime(count=count)
    return LineTime(count=count, line=exact_line(best, instance.cost, instance.limits.batch_tokens))


def _best_phases(instance: Instance, workload: Workload, count: Count) -> PhasesTime:
    """The split that proves the most, of a few."""
    remaining = workload.runs.remaining[workload.runs.first]
    levels = np.unique(remaining)
    picked = levels[np.linspace(0, levels.size - 1, _MOST_THRESHOLDS).astype(np.int64)]
    chosen = tuple(
        exact_line(line, instance.cost, instance.limits.batch_tokens, first=0)
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


def exact_line(line: FloatLine, cost: CostModel, batch_tokens: int, first: int = 1) -> Line:
    """``line`` with the slope of the nearest piece if it is one up to rounding, and the largest
    intercept with which it is below the law from n = ``first`` on, as an exact claim."""
    slope = next((b for _, b in cost.pieces if abs(b - line.slope_s) <= 1e-9 * b), line.slope_s)
    units = units_for([*cost_doubles(cost), slope, line.excess_s], 1)
    law = law_of(cost, batch_tokens, units)
    if first == 0:
        # Balanced tokens pay the first slope at least; see ``phases``.
        slope = max(slope, _at_least(units.seconds(law.first_slope)))
        units = units_for([*cost_doubles(cost), slope, line.excess_s], 1)
        law = law_of(cost, batch_tokens, units)
    return _lowered(law, units, slope, line)


def _lowered(law: Law, units: Units, slope: float, line: FloatLine) -> Line:
    """The line through the lowest point of g(n) - slope n - excess (n - knee)^+."""
    knee = min(max(1, line.knee_tokens), law.most)
    b, e = units.of(slope), units.of(line.excess_s)
    first = 0 if law(0) < law(1) - b else 1
    points = {n for n in law.corners if n >= first} | {knee}
    room = min(law(n) - b * n - e * max(0, n - knee) for n in points | {0})
    intercept = max(0.0, at_most(units.seconds(room)))
    return Line(intercept_s=intercept, slope_s=slope, knee_tokens=knee, excess_s=line.excess_s)


def at_most(value: Fraction) -> float:
    """The largest double that is no more than ``value``."""
    near = float(value)
    return near if Fraction(near) <= value else math.nextafter(near, -math.inf)


def _at_least(value: Fraction) -> float:
    return -at_most(-value)
