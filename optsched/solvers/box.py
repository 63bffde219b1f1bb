"""Finite bounds for every column, as CP-SAT needs them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from optsched.errors import UnsupportedError
from optsched.model.milp import Block, FloatArray, IntArray, Milp

ROUNDS = 10


def in_a_box(milp: Milp) -> Milp:
    """The same program with finite column bounds and the same optimal value.

    Infinite sides are replaced by what the rows imply for every feasible point, or else by what
    some optimal point satisfies: a column that costs something and that rows only ask to be
    large need not exceed what they ask for at worst.

    Raises
    ------
    UnsupportedError
        Neither bounds some column.
    """
    lower, upper = milp.lower.copy(), milp.upper.copy()
    rows = milp.matrix()
    at = rows.entry_rows()
    for _ in range(ROUNDS):
        if np.isfinite(lower).all() and np.isfinite(upper).all():
            break
        least = _least_of_others(rows, at, lower, upper)
        most = -_least_of_others(replace(rows, values=-rows.values), at, lower, upper)
        _tighten(milp, rows, at, least, most, lower, upper)
        _dominate(milp, rows, at, least, most, lower, upper)
    open_ended = np.flatnonzero(~np.isfinite(lower) | ~np.isfinite(upper))
    if open_ended.size:
        raise UnsupportedError(
            f"column {milp.column_names[open_ended[0]]!r} of {milp.name} has no finite bounds, "
            "which CP-SAT needs",
            hint="bound it, or use highs",
        )
    return replace(milp, lower=lower, upper=upper)


def _least_of_others(rows: Block, at: IntArray, lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Per entry: the least that the other entries of its row can sum to."""
    side = np.where(rows.values > 0, lower[rows.columns], upper[rows.columns])
    open_side = ~np.isfinite(side)
    term = rows.values * np.where(open_side, 0.0, side)
    total = rows.row_sums(term)
    opens = rows.row_sums(open_side.astype(np.float64))
    return np.where(opens[at] - open_side > 0, -np.inf, total[at] - term)


def _tighten(
    milp: Milp, rows: Block, at: IntArray, least: FloatArray, most: FloatArray,
    lower: FloatArray, upper: FloatArray,
) -> None:  # fmt: skip
    """Replace infinite bounds by what single rows imply; widened by rounding errors."""
    a, columns = rows.values, rows.columns
    with np.errstate(invalid="ignore"):
        highest = np.where(a > 0, rows.upper[at] - least, rows.lower[at] - most) / a
        lowest = np.where(a > 0, rows.lower[at] - most, rows.upper[at] - least) / a
    highest, lowest = _widened(milp, columns, highest, 1), _widened(milp, columns, lowest, -1)
    new_upper, new_lower = np.full(milp.columns, np.inf), np.full(milp.columns, -np.inf)
    np.minimum.at(new_upper, columns, np.where(np.isfinite(highest), highest, np.inf))
    np.maximum.at(new_lower, columns, np.where(np.isfinite(lowest), lowest, -np.inf))
    upper[:] = np.where(np.isfinite(upper), upper, np.maximum(new_upper, lower))
    lower[:] = np.where(np.isfinite(lower), lower, np.minimum(new_lower, upper))


def _dominate(
    milp: Milp, rows: Block, at: IntArray, least: FloatArray, most: FloatArray,
    lower: FloatArray, upper: FloatArray,
) -> None:  # fmt: skip
    """Replace infinite bounds on the side that neither cost nor rows favour."""
    a, columns = rows.values, rows.columns
    asks_more = np.where(a > 0, rows.upper[at] == np.inf, rows.lower[at] == -np.inf)
    asks_less = np.where(a > 0, rows.lower[at] == -np.inf, rows.upper[at] == np.inf)
    with np.errstate(invalid="ignore"):
        enough = np.where(a > 0, rows.lower[at] - least, rows.upper[at] - most) / a
        little = np.where(a > 0, rows.upper[at] - most, rows.lower[at] - least) / a
    for asks, needed, sign, bound, other in (
        (asks_more, enough, 1, upper, lower), (asks_less, little, -1, lower, upper),
    ):  # fmt: skip
        only = np.bincount(columns, weights=~asks, minlength=milp.columns) == 0
        worst = np.full(milp.columns, -np.inf)
        # Not a number: the row has no such side and asks for nothing.
        asked = np.nan_to_num(sign * needed, nan=-np.inf, posinf=np.inf, neginf=-np.inf)
        np.maximum.at(worst, columns, sign * _widened(milp, columns, sign * asked, sign))
        worst = np.maximum(worst, sign * other)
        free = ~np.isfinite(bound) & only & (sign * milp.cost >= 0) & np.isfinite(worst)
        bound[free] = sign * worst[free]


def _widened(milp: Milp, columns: IntArray, value: FloatArray, sign: int) -> FloatArray:
    """``value`` moved outwards by rounding errors, and to a whole number on integer columns."""
    size = np.where(np.isfinite(value), np.abs(value), 0.0)
    moved = value + sign * (1e-9 * size + 1e-9)
    whole = np.ceil(moved) if sign > 0 else np.floor(moved)
    return np.where(milp.integer[columns], whole, moved)
