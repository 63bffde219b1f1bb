"""Units that suit a solver's absolute tolerances, whatever the seconds per batch.

A feasibility tolerance of 1e-6 is harmless on a count and fatal on a time in seconds, where it is
several tokens; costs of 1e9 are as bad, for then products of costs lose the last digits and
presolve draws false conclusions from them. So costs become microseconds, or another power of ten
seconds where the largest would not be moderate. A continuous column that is a time is measured in
about that unit too, and the rows that define it are multiplied by the same factor. Columns and rows
are scaled by powers of two, which is exact in floating point.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from optsched.model.milp import Block, FloatArray, Milp

BoolArray = NDArray[np.bool_]

MICROSECONDS = 1e6
LARGEST_COST = 1e6
# Gaps are proven to about 1e-6 of a solver's objective, so that should be no less than this.
LEAST_OF_LARGEST = 1e3
LEAST_COST = 1e-3


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
    timed : bool array, shape ``(columns,)``
        Continuous columns with a cost, whose units decide those of rows.
    """

    milp: Milp
    cost_unit: float
    column_units: FloatArray
    row_units: FloatArray
    timed: BoolArray

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
        return _scale_rows(rows, self.column_units, self.timed)


def in_solver_units(milp: Milp) -> Scaled:
    """The program in solver units: costs in microseconds, or what :func:`_cost_unit` says."""
    rows = milp.matrix()
    timed = ~milp.integer & (milp.cost != 0)
    reach = _reach(rows, timed)
    cost_unit = _cost_unit(milp, reach)
    cost = milp.cost * cost_unit
    column_units = _column_units(milp, cost, reach)
    scaled_rows, row_units = _scale_rows(rows, column_units, timed)
    scaled = replace(
        milp,
        cost=cost / column_units,
        offset=milp.offset * cost_unit,
        lower=milp.lower * column_units,
        upper=milp.upper * column_units,
        blocks=(scaled_rows,),
    )
    return Scaled(
        milp=scaled,
        cost_unit=cost_unit,
        column_units=column_units,
        row_units=row_units,
        timed=timed,
    )


def _reach(rows: Block, timed: BoolArray) -> FloatArray:
    """Per continuous column with a cost, how far one unit of a count can move it, at most.

    The largest ratio of a count's entry to its own over its rows; shape ``(columns,)``, else 0.
    """
    at, own = rows.entry_rows(), timed[rows.columns]
    largest = np.zeros(rows.rows)
    np.maximum.at(largest, at[~own], np.abs(rows.values[~own]))
    reach = np.zeros(timed.size)
    np.maximum.at(reach, rows.columns[own], largest[at[own]] / np.abs(rows.values[own]))
    return reach


def _cost_unit(milp: Milp, reach: FloatArray) -> float:
    """Solver objective per second: 1e6, or the power of ten nearest to it that is moderate.

    The largest price, of an integer column or of what moves a continuous one, shall be 1e3 to
    1e6, and the least not below 1e-3 if the largest leaves room.
    """
    prices = np.abs(milp.cost) * np.where(reach > 0, reach, 1.0)
    prices = prices[prices > 0]
    if not prices.size:
        return MICROSECONDS
    power, largest, least = 6, float(prices.max()), float(prices.min())
    while largest * 10.0**power > LARGEST_COST * (1 + 1e-9):
        power -= 1
    while largest * 10.0**power < LEAST_OF_LARGEST or (
        least * 10.0**power < LEAST_COST and largest * 10.0 ** (power + 1) <= LARGEST_COST
    ):
        power += 1
    return 10.0**power


def _column_units(milp: Milp, cost: FloatArray, reach: FloatArray) -> FloatArray:
    """Powers of two that make a continuous column cost about 1, if that keeps its rows moderate.

    A column that costs less than 1 is shrunk only as far as entries above 1e6 in its rows ask.
    """
    price = np.abs(cost)
    shrunk = np.minimum(np.maximum(price, LARGEST_COST / np.maximum(reach, LARGEST_COST)), 1.0)
    wanted = np.where(price > 1, price, np.where(reach > LARGEST_COST, shrunk, 1.0))
    wanted = np.where(milp.integer | (price == 0), 1.0, wanted)
    return np.exp2(np.rint(np.log2(wanted)))


def _scale_rows(
    rows: Block, column_units: FloatArray, timed: BoolArray
) -> tuple[Block, FloatArray]:
    """Rows for scaled columns, multiplied by the largest unit of a time in them."""
    of_entries = column_units[rows.columns]
    entry_rows = rows.entry_rows()
    row_units = np.zeros(rows.rows)
    np.maximum.at(row_units, entry_rows, np.where(timed[rows.columns], of_entries, 0.0))
    row_units[row_units == 0] = 1.0
    scaled = replace(
        rows,
        lower=rows.lower * row_units,
        upper=rows.upper * row_units,
        values=rows.values * (row_units[entry_rows] / of_entries),
    )
    return scaled, row_units
