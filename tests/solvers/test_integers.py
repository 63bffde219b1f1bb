"""The whole-number programs for CP-SAT are relaxations, and exact where nothing is rounded."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from optsched.errors import UnsupportedError
from optsched.model.milp import FloatArray, Milp, block
from optsched.solvers.box import in_a_box
from optsched.solvers.integers import IntegerProgram, whole_numbers
from optsched.solvers.scaling import in_solver_units
from tests.solvers.programs import (
    INFINITY,
    batch_times,
    dense,
    every_integer_point,
    optimum,
    program,
    random_integer_program,
)


def holds(whole: IntegerProgram, z: FloatArray) -> np.ndarray:
    """Which rows of z, shape ``(points, columns)``, satisfy the whole-number rows."""
    rows = whole.row_lower.size
    matrix = np.zeros((rows, whole.spans.size))
    at = np.repeat(np.arange(rows), np.diff(whole.starts))
    np.add.at(matrix, (at, whole.columns), whole.values)
    activity = z @ matrix.T
    inside = ((z >= 0) & (z <= whole.spans)).all(1)
    return inside & ((activity >= whole.row_lower) & (activity <= whole.row_upper)).all(1)


def all_z(whole: IntegerProgram) -> FloatArray:
    return np.array(list(product(*(range(int(s) + 1) for s in whole.spans))), dtype=np.float64)


def test_integer_programs_keep_their_optimum() -> None:
    rng = np.random.default_rng(40)
    for _ in range(400):
        milp = random_integer_program(rng)
        scaled = in_solver_units(milp)
        whole = whole_numbers(in_a_box(scaled.milp))
        z = all_z(whole)
        kept = z[holds(whole, z)]
        best = optimum(milp)
        if best is None:
            assert not len(kept)
            continue
        objective = kept @ whole.cost.astype(float) + whole.constant
        bound = whole.bound(float(objective.min())) / scaled.cost_unit
        size = abs(milp.offset) + np.abs(milp.cost) @ np.maximum(abs(milp.lower), abs(milp.upper))
        assert bound <= best + 1e-12 * size
        assert bound >= best - 1e-9 * size


def test_irrational_rows_cut_off_no_feasible_point() -> None:
    rng = np.random.default_rng(41)
    for _ in range(200):
        n = int(rng.integers(2, 5))
        a = rng.normal(size=(2, n))
        milp = program(
            rng.normal(size=n).tolist(),
            dense(a.tolist(), [-INFINITY, float(rng.normal())], [float(rng.normal()), INFINITY]),
            lower=-2,
            upper=2,
        )
        whole = whole_numbers(milp)
        points = every_integer_point(milp)
        rows = milp.blocks[0]
        feasible = np.array([rows.violation(point) <= 1e-9 for point in points])
        kept = holds(whole, points - milp.lower)
        assert np.all(kept[feasible])
        assert np.array_equal(kept, feasible)


def test_continuous_columns_lose_no_feasible_point_and_no_bound() -> None:
    rng = np.random.default_rng(42)
    for _ in range(200):
        milp, best = batch_times(rng)
        scaled = in_solver_units(milp)
        boxed = in_a_box(scaled.milp)
        assert np.isfinite(boxed.upper).all()
        whole = whole_numbers(boxed)
        batches = milp.columns // 2
        # All integer splits, each with the least times, are feasible in the box ...
        total = int(milp.upper[0])
        for split in product(range(total + 1), repeat=batches):
            if sum(split) != total:
                continue
            times = least_times(milp, np.array(split, dtype=float))
            x = scaled.start(np.concatenate([split, times]))
            z = whole.hint(x).astype(float)
            assert holds(whole, z[None, :])[0]
            objective = whole.bound(float(z @ whole.cost) + whole.constant) / scaled.cost_unit
            # ... and priced at most as in the original, and nearly as much.
            value = milp.value(np.concatenate([split, times]))
            assert value - 1e-8 <= objective <= value + 1e-15
            assert value >= best - 1e-15


def least_times(milp: Milp, split: FloatArray) -> FloatArray:
    rows = milp.blocks[0]
    times = np.zeros(split.size)
    for r in range(rows.rows - 1):
        here = slice(rows.starts[r], rows.starts[r + 1])
        entries = dict(zip(rows.columns[here], rows.values[here], strict=True))
        (k,) = (c for c in entries if c >= split.size)
        needed = rows.lower[r] - sum(v * split[c] for c, v in entries.items() if c < split.size)
        times[k - split.size] = max(times[k - split.size], needed)
    return times


def test_box_from_rows_and_from_dominance() -> None:
    milp = program(
        [1, 0, 1],
        block("rows", [0, 0, 1, 1], [0, 1, 1, 2], [1, -2, -3, 1], [4, -INFINITY], [INFINITY, 5]),
        lower=[0, 0, -INFINITY],
        upper=[INFINITY, 10, INFINITY],
        integer=[False, True, False],
    )
    with pytest.raises(UnsupportedError, match="'x_2'"):
        in_a_box(milp)
    boxed = in_a_box(program(
        [1, 0], block("rows", [0, 0], [0, 1], [1, -2], [4], [INFINITY]),
        upper=[INFINITY, 10], integer=[False, True],
    ))  # fmt: skip
    assert boxed.upper[0] == pytest.approx(24)  # 4 + 2 * 10, the most that the row asks for


def test_numbers_beyond_64_bits_are_refused() -> None:
    milp = program([1], dense([[3]], 1, INFINITY), upper=1e18)
    with pytest.raises(UnsupportedError, match="64-bit"):
        whole_numbers(milp)
