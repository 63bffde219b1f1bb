"""Units that suit a solver's absolute tolerances: costs in microseconds, times likewise.

A feasibility tolerance of 1e-6 is harmless on a count and fatal on a time in seconds, where it is
several tokens. So costs become microseconds, a continuous column that costs much per unit (a
time) is measured in about microseconds too, and the rows that define it are raised by the same
factor. Columns and rows are scaled by powers of two, which is exact in floating point.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from optsched.model.milp import Block, FloatArray, Milp

MICROSECONDS = 1e6
LARGEST_COST = 1e9


@dataclass(frozen=True, kw_only=True, eq=False)
class Scaled:
    """A program in solver units, and the way back.

    Parameters
    ----------
    milp : Milp
        What the solver sees: x' = column_units x, rows multiplied by their units, objective
        multiplied by ``cost_unit``.
    cost_unit : float
        Solver objective per second.
    column_units, row_units : float arrays, shapes ``(columns,)`` and ``(rows,)``
        Powers of two.
    """

    milp: Milp
    cost_unit: float
    column_units: FloatArray
    row_units: FloatArray

    def point(self, found: FloatArray) -> FloatArray:
        """A solver's point in the model's units."""
        return np.asarray(found, dtype=np.float64) / self.column_units

    def start(self, point: FloatArray) -> FloatArray:
        """A point of the model in the solver's units."""
        return point * self.column_units

    def seconds(self, objective: float) -> float | None:
        """A solver's objective or bound in seconds; None if it is not finite."""
        return objective / self.cost_unit if np.isfinite(objective) else None

    def row_duals(self, duals: FloatArray) -> FloatArray:
        """A solver's row duals in seconds per unit of the model's rows."""
        return np.asarray(duals, dtype=np.float64) * self.row_units / self.cost_unit

    def rows(self, rows: Block) -> tuple[Block, FloatArray]:
        """Further rows of the model in the solver's units, and their row units."""
        return _scale_rows(rows, self.column_units)


def in_microseconds(milp: Milp) -> Scaled:
    """The program in solver units.

    Costs are multiplied by 1e6, or by a smaller power of ten where the largest would pass 1e9
    (programs that are not in seconds).
    """
    largest = float(np.abs(milp.cost).max(initial=0.0))
    cost_unit = MICROSECONDS
    while cost_unit > 1 and largest * cost_unit > LARGEST_COST:
        cost_unit /= 10
    cost = milp.cost * cost_unit
    column_units = np.ones(milp.columns)
    costly = ~milp.integer & (np.abs(cost) > 1)
    column_units[costly] = np.exp2(np.rint(np.log2(np.abs(cost[costly]))))
    rows, row_units = _scale_rows(milp.matrix(), column_units)
    scaled = replace(
        milp,
        cost=cost / column_units,
        offset=milp.offset * cost_unit,
        lower=milp.lower * column_units,
        upper=milp.upper * column_units,
        blocks=(rows,),
    )
    return Scaled(milp=scaled, cost_unit=cost_unit, column_units=column_units, row_units=row_units)


def _scale_rows(rows: Block, column_units: FloatArray) -> tuple[Block, FloatArray]:
    of_entries = column_units[rows.columns]
    entry_rows = rows.entry_rows()
    row_units = np.ones(rows.rows)
    np.maximum.at(row_units, entry_rows, of_entries)
    scaled = replace(
        rows,
        lower=rows.lower * row_units,
        upper=rows.upper * row_units,
        values=rows.values * (row_units[entry_rows] / of_entries),
    )
    return scaled, row_units
