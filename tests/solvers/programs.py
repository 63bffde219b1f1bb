"""Programs whose optima are known by other means than a solver."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import highspy
import numpy as np

from optsched.model.milp import Block, FloatArray, Milp, block

INFINITY = float("inf")


def program(
    cost: list[float],
    *blocks: Block,
    lower: float | list[float] = 0.0,
    upper: float | list[float] = 1.0,
    integer: bool | list[bool] = True,
    offset: float = 0.0,
    name: str = "program",
) -> Milp:
    """A Milp with columns x_0, x_1, ..."""
    shape = (len(cost),)
    return Milp(
        name=name,
        cost=np.array(cost, dtype=np.float64),
        offset=offset,
        lower=np.broadcast_to(np.array(lower, dtype=np.float64), shape).copy(),
        upper=np.broadcast_to(np.array(upper, dtype=np.float64), shape).copy(),
        integer=np.broadcast_to(np.array(integer, dtype=np.bool_), shape).copy(),
        column_names=tuple(f"x_{j}" for j in range(len(cost))),
        blocks=blocks,
    )


def dense(
    matrix: list[list[float]], lower: float | list[float], upper: float | list[float],
    name: str = "rows",
) -> Block:  # fmt: skip
    """A block from a matrix written out; zeros are left out, empty rows are kept."""
    a = np.array(matrix, dtype=np.float64)
    row, column = np.nonzero(a)
    count = (a.shape[0],)
    return block(
        name, row, column, a[row, column],
        np.broadcast_to(np.array(lower, dtype=np.float64), count),
        np.broadcast_to(np.array(upper, dtype=np.float64), count),
    )  # fmt: skip


def every_integer_point(milp: Milp) -> FloatArray:
    """All integer points within the bounds, shape ``(points, columns)``."""
    ranges = [
        range(int(np.ceil(low)), int(np.floor(high)) + 1)
        for low, high in zip(milp.lower, milp.upper, strict=True)
    ]
    return np.array(list(product(*ranges)), dtype=np.float64)


def optimum(milp: Milp) -> float | None:
    """Least objective of an integer program by trying all points; None if there is none."""
    points = every_integer_point(milp)
    feasible = np.ones(len(points), dtype=np.bool_)
    for rows in milp.blocks:
        matrix = np.zeros((rows.rows, milp.columns))
        np.add.at(matrix, (rows.entry_rows(), rows.columns), rows.values)
        activity = points @ matrix.T
        feasible &= (activity >= rows.lower - 1e-9).all(1) & (activity <= rows.upper + 1e-9).all(1)
    values = milp.offset + points[feasible] @ milp.cost
    return float(values.min()) if values.size else None


def random_integer_program(rng: np.random.Generator) -> Milp:
    """Up to five columns and four rows: <=, >=, =, two-sided and empty; costs of either sign."""
    n, m = int(rng.integers(2, 6)), int(rng.integers(1, 5))
    lower = rng.integers(-2, 2, n).astype(float)
    upper = lower + rng.integers(0, 4, n)
    a = rng.integers(-6, 10, (m, n)).astype(float) * (rng.random((m, n)) < 0.8)
    if rng.random() < 0.3:
        a /= 10
    inside = a @ rng.integers(lower, upper + 1)
    low, high = np.full(m, -INFINITY), np.full(m, INFINITY)
    for r, kind in enumerate(rng.choice(["<=", ">=", "=", "range"], m)):
        if kind != ">=":
            high[r] = inside[r] + (0 if kind == "=" else rng.integers(0, 3))
        if kind != "<=":
            low[r] = inside[r] - (0 if kind == "=" else rng.integers(0, 3))
    if rng.random() < 0.2:  # perhaps infeasible
        high[0] = low[0] = float(rng.integers(-9, 30))
    scale = float(rng.choice([1.0, 1e-3, 1e-5]))
    return program(
        (rng.normal(size=n) * scale).tolist(),
        dense(a.tolist(), low.tolist(), high.tolist()),
        lower=lower.tolist(),
        upper=upper.tolist(),
        offset=float(rng.normal() * scale),
    )


def batch_times(rng: np.random.Generator) -> tuple[Milp, float]:
    """Tokens n_k of batches add up to a total; time t_k >= alpha + beta n_k for two pieces.

    The optimum, also returned, by trying all splits. Times in seconds, without upper bounds.
    """
    batches, total = int(rng.integers(1, 4)), int(rng.integers(1, 12))
    pieces = [(8e-3, 2e-6 * float(rng.integers(1, 9))), (1e-3, 1e-3 * float(rng.integers(1, 4)))]
    prices = rng.random(batches) * 1e-3
    rows, columns, values, low = [], [], [], []
    for k in range(batches):
        for alpha, beta in pieces:
            rows += [len(low)] * 2
            columns += [batches + k, k]
            values += [1.0, -beta]
            low.append(alpha)
    rows += [len(low)] * batches
    columns += list(range(batches))
    values += [1.0] * batches
    high = [INFINITY] * len(low) + [float(total)]
    low.append(float(total))
    milp = program(
        [*prices, *[1.0] * batches],
        block("batch_time", rows, columns, values, low, high),
        upper=[float(total)] * batches + [INFINITY] * batches,
        integer=[True] * batches + [False] * batches,
    )
    best = min(
        sum(price * n for price, n in zip(prices, split, strict=True))
        + sum(max(a + b * n for a, b in pieces) for n in split)
        for split in product(range(total + 1), repeat=batches)
        if sum(split) == total
    )
    return milp, float(best)


def market_split(columns: int = 40, rows: int = 4) -> tuple[Milp, FloatArray]:
    """Deviations from half the sum, hard for any branch and bound, and a feasible point.

    G. Cornuejols, M. Dawande, A class of hard small 0-1 programs, 1998.
    """
    rng = np.random.default_rng(7)
    weights = rng.integers(0, 100, (rows, columns)).astype(float)
    half = np.floor(weights.sum(1) / 2)
    a = np.hstack([weights, np.eye(rows), -np.eye(rows)])
    most = weights.sum(1).max()
    milp = program(
        [0.0] * columns + [1.0] * (2 * rows),
        dense(a.tolist(), half.tolist(), half.tolist(), name="split"),
        upper=[1.0] * columns + [float(most)] * (2 * rows),
        name="market_split",
    )
    return milp, np.concatenate([np.zeros(columns), half, np.zeros(rows)])


def read_model(path: Path) -> Milp:
    """A model file as a Milp, read by HiGHS."""
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    assert highs.readModel(str(path)) == highspy.HighsStatus.kOk
    highs.ensureRowwise()
    lp = highs.getLp()
    matrix = lp.a_matrix_
    kinds = lp.integrality_ or [highspy.HighsVarType.kContinuous] * lp.num_col_
    return Milp(
        name=path.stem,
        cost=np.array(lp.col_cost_),
        offset=float(lp.offset_),
        lower=np.array(lp.col_lower_),
        upper=np.array(lp.col_upper_),
        integer=np.array([kind == highspy.HighsVarType.kInteger for kind in kinds]),
        column_names=tuple(lp.col_names_),
        blocks=(
            Block(
                name="rows",
                lower=np.array(lp.row_lower_),
                upper=np.array(lp.row_upper_),
                starts=np.array(matrix.start_, dtype=np.int64),
                columns=np.array(matrix.index_, dtype=np.int64),
                values=np.array(matrix.value_),
            ),
        ),
    )
