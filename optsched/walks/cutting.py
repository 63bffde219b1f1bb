"""Prices of closed walks by cutting planes: the most that all events can earn.

A linear program over the prices alone knows some cycles and maximises what all events earn within
a box around the best prices so far; under the prices that it proposes, value iteration finds the
cycles that cost least per batch, which cut them off, and how much all prices must shrink to be
covered by every walk (Kelley's method with a trust region).
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from optsched.model.milp import Milp, block
from optsched.solvers.interrupted import unless_interrupted
from optsched.solvers.lp import solve_lp
from optsched.walks.cycles import Cycle, cycles
from optsched.walks.problem import FloatArray, WalkProblem
from optsched.walks.sweeps import after_a_batch

_CLOSE = 1e-5  # of a batch: slack of the least mean cost per batch
_GAIN = 1e-4  # of the total: what further prices must promise
_CUTS = 20  # of one look
_MOST_CUTS = 2000
_MOST_BATCHES, _SETTLED = 300, 1e-9
_SWEEPS = 6  # between two looks for cycles
_MOST_LOOKS = 40
_WIDEN, _NARROW = 1.5, 0.9


@dataclass(frozen=True, kw_only=True, eq=False)
class _Mean:
    """Least mean cost of a batch less prices: proven lower end, the best cycle's, and cuts."""

    low_s: float
    high_s: float
    values: FloatArray
    cuts: list[Cycle]


def best_prices(
    problem: WalkProblem, start: FloatArray, radius: float, deadline: float
) -> FloatArray:
    """Prices that every closed walk covers, up to rounding, and under which all events earn most.

    Parameters
    ----------
    problem : WalkProblem
    start : float array
        Prices to start from, as for :meth:`WalkProblem.split`.
    radius : float
        How far from there the next prices may be, as a share of the prices by area.
    deadline : float
        On the monotonic clock: the best so far is returned then.
    """
    known: list[Cycle] = []
    values = np.zeros(problem.rows.fits.shape)
    vector = best = start
    best_s = -np.inf
    while True:
        mean = _least_mean(problem, values, vector, best_s, deadline)
        known = [*known, *mean.cuts][-_MOST_CUTS:]
        scaled = vector * _share(problem, mean.low_s)
        earned_s = float(problem.events @ scaled)
        if earned_s > best_s:
            best, best_s, values = scaled, earned_s, mean.values
            radius *= _WIDEN
        else:
            radius *= _NARROW
        if time.monotonic() > deadline:
            return best
        proposed = _proposed(problem, known, best, radius, deadline)
        if proposed is None or problem.events @ proposed < best_s + _GAIN * abs(best_s):
            return best
        vector = proposed


def _share(problem: WalkProblem, low_s: float) -> float:
    """Share of prices that batches cover which cost at least ``low_s`` more than all of them."""
    return 1.0 if low_s >= 0 else problem.batch_s / (problem.batch_s - low_s)


def _least_mean(
    problem: WalkProblem, values: FloatArray, vector: FloatArray, best_s: float, deadline: float
) -> _Mean:
    """Value iteration until the mean is known, or known to be too low to improve on ``best_s``."""
    rows, moves = problem.rows, problem.moves(problem.split(vector))
    low_s, high_s, cuts = -np.inf, np.inf, []
    for _ in range(_MOST_LOOKS):
        found = cycles(problem, values, vector)
        cuts += [cycle for cycle in found if cycle.mean_s < 0][:_CUTS]
        high_s = min(high_s, found[0].mean_s)
        if float(problem.events @ vector) * _share(problem, high_s) <= best_s:
            break
        for _ in range(_SWEEPS):
            after = after_a_batch(rows, values, moves)
            low_s = max(low_s, float((after - values)[rows.fits].min()))
            values = np.where(rows.fits, np.minimum(values, after - min(high_s, 0.0)), 0.0)
        if min(high_s, 0.0) - low_s < _CLOSE * problem.batch_s or time.monotonic() > deadline:
            break
    return _Mean(low_s=low_s, high_s=high_s, values=values, cuts=cuts)


def _proposed(
    problem: WalkProblem, cuts: list[Cycle], centre: FloatArray, radius: float, deadline: float
) -> FloatArray | None:
    """The prices in the box that earn most without more than the known cycles cost."""
    box = radius * problem.by_area
    lower = centre - box
    free = 2 * len(problem.rows.widths)
    lower[free:] = np.maximum(lower[free:], 0.0)
    made = np.array([cycle.made for cycle in cuts]).reshape(len(cuts), centre.size)
    row, column = np.nonzero(made)
    total = float(problem.events.max())
    solution = unless_interrupted(
        solve_lp(
            Milp(
                name="walk-prices", cost=-problem.events / total, offset=0.0, lower=lower,
                upper=centre + box, integer=np.zeros(centre.size, dtype=np.bool_),
                column_names=tuple(f"u{k}" for k in range(centre.size)),
                blocks=(
                    block(
                        "cycles", row, column, made[row, column].astype(np.float64),
                        np.full(len(cuts), -np.inf), np.array([cycle.cost_s for cycle in cuts]),
                    ),
                ),
            )
        )
    )  # fmt: skip
    return solution.point


def potentials(problem: WalkProblem, vector: FloatArray, deadline: float) -> FloatArray:
    """Least cost less prices of walks from the empty content to every other: the best potentials
    of prices that every closed walk covers; near them for others, and after ``deadline``."""
    moves = problem.moves(problem.split(vector))
    values = np.full(problem.rows.fits.shape, np.inf)
    values[0, 0] = 0.0
    for k in range(_MOST_BATCHES):
        lower = np.minimum(values, after_a_batch(problem.rows, values, moves))
        settled = not (lower < values - _SETTLED * problem.batch_s).any()
        values = lower
        if settled or (k and time.monotonic() > deadline):
            break
    return values
