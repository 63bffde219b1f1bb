"""A program in whole numbers whose optimum is a lower bound, for CP-SAT.

    x_j = lower_j + unit_j (z_j + f_j),   z_j a whole number from 0 to span_j

with unit 1 and f = 0 for integer columns, and 0 <= f < 1 for the fraction that a continuous column
loses. Every feasible x gives a feasible z of no larger objective:

- a row's coefficients are multiplied by a factor and rounded to q; its sides move outwards by
  the most that the rounding errors (q - a unit factor) z and the lost fractions can add up to;
- costs are multiplied by a factor and rounded down, which cannot raise the objective as z >= 0;
  what rounding to a near whole number raises is subtracted from the constant.

Rows whose coefficients are whole numbers, or become so after a power of ten, lose nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optsched.errors import UnsupportedError
from optsched.model.milp import Block, FloatArray, IntArray, Milp

POWERS = (1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6)
NEAR = 1e-9
ROW_RANGE = 2.0**40  # of rows that have to be rounded
COST_RANGE = 2.0**45
LARGEST = 2.0**60  # CP-SAT adds in 64 bits
COST_STEP = 2.0**-10
FINEST = 2.0**-30
OPEN = 2**62  # stands for infinity


@dataclass(frozen=True, kw_only=True, eq=False)
class IntegerProgram:
    """Minimise ``cost z + constant`` over 0 <= z <= spans and the rows; all whole numbers.

    ``lower + units z`` is x (a continuous x up to its unit), and the objective in the units of the
    original is at least ``(cost z + constant) / factor - slack``.
    """

    spans: IntArray
    cost: IntArray
    constant: int
    factor: float
    slack: float
    row_lower: IntArray
    row_upper: IntArray
    starts: IntArray
    columns: IntArray
    values: IntArray
    lower: FloatArray
    units: FloatArray

    def bound(self, objective: float) -> float:
        """Lower bound on the original that a lower bound on this program proves."""
        return objective / self.factor - self.slack

    def point(self, z: IntArray) -> FloatArray:
        """x of a z."""
        return self.lower + self.units * z

    def hint(self, point: FloatArray) -> IntArray:
        """z next to an x."""
        z = np.floor((point - self.lower) / self.units + 1e-6)
        return np.clip(z, 0, self.spans).astype(np.int64)


def whole_numbers(milp: Milp) -> IntegerProgram:
    """The whole-number program of ``milp``, whose columns must have finite bounds.

    Raises
    ------
    UnsupportedError
        A row or the objective can reach values beyond 64-bit integers.
    """
    lower = np.where(milp.integer, np.ceil(milp.lower - 1e-9), milp.lower)
    upper = np.where(milp.integer, np.floor(milp.upper + 1e-9), milp.upper)
    units = _units(milp, upper - lower)
    spans = np.maximum(np.floor((upper - lower) / units + 1e-9), -1)
    if np.any(spans > LARGEST):
        raise UnsupportedError(
            f"column {milp.column_names[int(spans.argmax())]!r} of {milp.name} reaches beyond "
            "64-bit integers, which CP-SAT needs",
            hint="use highs, or bound the columns more tightly",
        )
    rows, row_lower, row_upper = _rows(milp.matrix(), milp.integer, lower, units, spans)
    cost, constant, factor, slack = _costs(milp, lower, units, spans)
    return IntegerProgram(
        spans=spans.astype(np.int64),
        cost=cost,
        constant=constant,
        factor=factor,
        slack=slack,
        row_lower=row_lower,
        row_upper=row_upper,
        starts=rows.starts,
        columns=rows.columns,
        values=rows.values.astype(np.int64),
        lower=lower,
        units=units,
    )


def _units(milp: Milp, width: FloatArray) -> FloatArray:
    """1 for integer columns; for continuous ones fine, and a round cost if they have one."""
    fine = np.exp2(np.floor(np.log2(np.maximum(width, 1e-6)))) * FINEST
    costly = np.abs(milp.cost) > 1e-6
    priced = COST_STEP / np.where(costly, np.abs(milp.cost), 1.0)
    finest = np.minimum(fine, COST_STEP)
    return np.where(milp.integer, 1.0, np.where(costly, np.maximum(priced, fine / 64), finest))


def _rows(
    rows: Block, integer: np.ndarray, lower: FloatArray, units: FloatArray, spans: FloatArray
) -> tuple[Block, IntArray, IntArray]:
    at, columns = rows.entry_rows(), rows.columns
    free = spans[columns] > 0  # other columns are constants: only their lost fractions count
    step = rows.values * units[columns]
    reach = rows.row_sums(np.abs(step) * spans[columns])
    factors, exact = _row_factors(rows, np.where(free, step, 0.0), reach)
    exact &= rows.row_sums((~free & (step != np.rint(step))).astype(np.float64)) == 0
    scaled = step * factors[at]
    whole = np.where(free, np.rint(scaled), 0.0)
    rounding = (whole - scaled) * spans[columns]
    fraction = np.where(integer[columns], 0.0, scaled)
    origin = rows.row_sums(rows.values * lower[columns]) * factors
    # Rounding errors of the floating-point arithmetic here; none if all terms are whole numbers.
    size = reach * factors + np.abs(origin)
    noise = np.where(exact & (size < 2.0**52), 0.0, size * 2.0**-50)
    low = rows.lower * factors - origin
    low += (
        rows.row_sums(np.minimum(rounding, 0.0)) - rows.row_sums(np.maximum(fraction, 0.0)) - noise
    )
    high = rows.upper * factors - origin
    high += (
        rows.row_sums(np.maximum(rounding, 0.0)) - rows.row_sums(np.minimum(fraction, 0.0)) + noise
    )
    if np.any(reach * np.maximum(factors, 1.0) > LARGEST):
        raise UnsupportedError(
            f"a row of {rows.name} reaches beyond 64-bit integers, which CP-SAT needs",
            hint="use highs, or bound the columns more tightly",
        )
    kept = Block(
        name=rows.name, lower=rows.lower, upper=rows.upper, starts=rows.starts,
        columns=columns, values=whole,
    )  # fmt: skip
    return kept, _whole_side(low, np.ceil, -1), _whole_side(high, np.floor, 1)


def _row_factors(rows: Block, step: FloatArray, reach: FloatArray) -> tuple[FloatArray, np.ndarray]:
    """Factor per row, and whether all its coefficients are whole numbers as they are."""
    safe = np.maximum(reach, 1e-30)
    factors = np.exp2(np.floor(np.log2(ROW_RANGE / safe)))
    exact = np.zeros(rows.rows, dtype=np.bool_)
    for power in reversed(POWERS):
        scaled = step * power
        off = np.abs(scaled - np.rint(scaled)) > (0.0 if power == 1 else NEAR)
        # A coefficient that rounds to 0 is not near a whole number, it is lost.
        off |= (np.rint(scaled) == 0) & (step != 0)
        fits = (rows.row_sums(off.astype(np.float64)) == 0) & (reach * power <= LARGEST)
        factors[fits] = power
        if power == 1:
            exact = fits
    return factors, exact


def _whole_side(side: FloatArray, rounded: np.ufunc, sign: int) -> IntArray:
    """Sides moved outwards to whole numbers; beyond 64 bits means infinite."""
    slack = np.minimum(NEAR * np.maximum(np.abs(side), 1.0), 1e-6)
    moved: FloatArray = rounded(side + sign * slack)
    finite: FloatArray = np.where(np.abs(moved) < LARGEST, moved, np.sign(moved) * OPEN)
    return finite.astype(np.int64)


def _costs(
    milp: Milp, lower: FloatArray, units: FloatArray, spans: FloatArray
) -> tuple[IntArray, int, float, float]:
    """Whole costs and constant, their factor, and what the original objective may be below."""
    step = milp.cost * units
    reach = float(np.abs(step) @ np.maximum(spans, 0))
    base = float(milp.offset + milp.cost @ lower)
    size = reach + abs(base)
    factor = max(2.0 ** np.floor(np.log2(COST_RANGE / max(size, 1e-30))), 1 / COST_STEP)
    for power in reversed(POWERS):
        scaled = step * power
        near = np.abs(scaled - np.rint(scaled)) <= NEAR * np.maximum(np.abs(scaled), 1)
        if np.all(near & ((np.rint(scaled) != 0) | (step == 0))) and size * power <= LARGEST:
            factor = power
    if size * factor > LARGEST:
        raise UnsupportedError(
            f"the objective of {milp.name} reaches beyond 64-bit integers, which CP-SAT needs",
            hint="use highs, or bound the columns more tightly",
        )
    scaled = step * factor
    near = np.abs(scaled - np.rint(scaled)) <= NEAR * np.maximum(np.abs(scaled), 1)
    whole = np.where(spans > 0, np.where(near, np.rint(scaled), np.floor(scaled)), 0.0)
    raised = float(np.maximum(whole - scaled, 0.0) @ np.maximum(spans, 0)) / factor
    fractions = -float(np.minimum(step[~milp.integer], 0.0).sum())
    constant = int(np.floor(base * factor))
    slack = raised + fractions - (base - constant / factor) + size * 2.0**-50
    return whole.astype(np.int64), constant, factor, slack
