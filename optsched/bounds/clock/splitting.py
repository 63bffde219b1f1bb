"""A convex quadratic program by operator splitting, good enough for prices.

Minimise q'x + x'Hx / 2 over rows low <= A x <= high: x and z = A x are updated in turn, prices y
collect the difference (Boyd et al. 2011, the iteration of Stellato et al. 2020). Every step is a
product with a matrix that is inverted once, so that small programs take a few thousand steps a
second. What comes out is nearly feasible and nearly optimal; a bound that holds at any point and
prices >= 0 makes that exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
_REGULAR = 1e-9
_RELAX = 1.6
_EQUALITY = 1e3  # penalty of equalities over that of inequalities
_CHECK = 50


@dataclass(frozen=True, kw_only=True, eq=False)
class Program:
    """Shapes: ``linear`` (columns,), ``square`` (columns, columns) positive semidefinite, ``rows``
    (rows, columns), ``low`` and ``high`` (rows,). All of about unit size."""

    linear: FloatArray
    square: FloatArray
    rows: FloatArray
    low: FloatArray
    high: FloatArray


def solve(
    program: Program, *, penalty: float, steps: int, accuracy: float
) -> tuple[FloatArray, FloatArray]:
    """A point, shape ``(columns,)``, and prices of the rows, positive at an upper limit."""
    A = program.rows
    weight = np.where(program.low == program.high, penalty * _EQUALITY, penalty)
    inverse = np.linalg.inv(
        program.square + _REGULAR * np.eye(program.linear.size) + (A.T * weight) @ A
    )
    x = np.zeros_like(program.linear)
    z, y = np.zeros_like(program.low), np.zeros_like(program.low)
    for step in range(1, steps + 1):
        ahead = inverse @ (_REGULAR * x - program.linear + A.T @ (weight * z - y))
        moved = _RELAX * (A @ ahead) + (1 - _RELAX) * z
        x = _RELAX * ahead + (1 - _RELAX) * x
        fitted = np.clip(moved + y / weight, program.low, program.high)
        y = y + weight * (moved - fitted)
        z = fitted
        if step % _CHECK == 0:
            primal = float(np.abs(A @ x - z).max())
            dual = float(np.abs(program.square @ x + program.linear + A.T @ y).max())
            if max(primal, dual) < accuracy:
                break
    return x, y
