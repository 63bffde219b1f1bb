"""Proximal bundle: maximise a concave function that is only known by values and slopes.

The function is below each of its tangents, so their minimum is a model of it. A step maximises the
model less a quadratic distance from the best point so far; the step grows when the function
follows the model and shrinks when it does not. See Kiwiel, "Proximity control in bundle methods
for convex nondifferentiable minimization" (Mathematical Programming 46, 1990).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

_MOST_TANGENTS = 80
_INNER_STEPS = 200
_ACCEPTED, _GOOD = 0.1, 0.5  # of the promised rise
_GROWTH, _SHRINKAGE, _DRIFT = 1.7, 0.8, 0.97


@dataclass(frozen=True, kw_only=True, eq=False)
class Best:
    """The best point found, the function there, how large steps were, and how many evaluations."""

    point: FloatArray
    value: float
    step: float
    evaluations: int


def maximise(
    function: Callable[[FloatArray], tuple[float, FloatArray]],
    start: FloatArray,
    *,
    lower: FloatArray,
    upper: FloatArray,
    step: float,
    most_evaluations: int,
    relative_gap: float,
    stop: Callable[[float], bool] = lambda value: False,
) -> Best:
    """Climb from ``start`` within the box from ``lower`` to ``upper``.

    Parameters
    ----------
    function : callable
        Point to value and slope (a supergradient); all coordinates of similar scale.
    step : float
        How far to go along a unit slope at first.
    relative_gap : float
        Stop when the model promises no more than this above the best value.
    stop : callable
        Asked with the best value after every evaluation.
    """
    value, slope = function(start)
    tangents, levels = [slope], [value - slope @ start]
    weights = np.ones(1)
    centre, best, evaluations = start, value, 1
    while evaluations < most_evaluations and not stop(best):
        point, weights, promised = _step(
            np.array(tangents), np.array(levels), centre, step, lower, upper, weights
        )
        rise = promised - best
        if rise <= relative_gap * abs(best):
            break
        value, slope = function(point)
        evaluations += 1
        if value > best + _ACCEPTED * rise:
            step *= _GROWTH if value > best + _GOOD * rise else 1.0
            centre, best = point, value
        else:
            step *= _SHRINKAGE if value < best - rise else _DRIFT
        if len(tangents) == _MOST_TANGENTS:
            least = int(weights.argmin())
            del tangents[least], levels[least]
            weights = np.delete(weights, least)
            weights = weights / weights.sum() if weights.sum() else np.eye(1, weights.size)[0]
        tangents.append(slope)
        levels.append(value - slope @ point)
        weights = np.append(weights, 0.0)
    return Best(point=centre, value=best, step=step, evaluations=evaluations)


def _step(
    tangents: FloatArray, levels: FloatArray, centre: FloatArray, step: float,
    lower: FloatArray, upper: FloatArray, weights: FloatArray,
) -> tuple[FloatArray, FloatArray, float]:  # fmt: skip
    """Maximise min of the tangents - |x - centre|^2 / (2 step) over the box.

    By accelerated projected gradients on the dual: the weights of the tangents, which sum to 1.

    Returns
    -------
    point : float array
    weights : float array, shape ``(tangents,)``
    promised : float
        The model at ``point``.
    """
    curvature = step * float(np.linalg.norm(tangents, 2)) ** 2 or 1.0
    ahead, pace = weights, 1.0
    for _ in range(_INNER_STEPS):
        point = np.clip(centre + step * (ahead @ tangents), lower, upper)
        moved = _on_simplex(ahead - (levels + tangents @ point) / curvature)
        next_pace = (1 + np.sqrt(1 + 4 * pace * pace)) / 2
        ahead = moved + (pace - 1) / next_pace * (moved - weights)
        weights, pace = moved, next_pace
    point = np.clip(centre + step * (weights @ tangents), lower, upper)
    return point, weights, float((levels + tangents @ point).min())


def _on_simplex(values: FloatArray) -> FloatArray:
    """The nearest point whose coordinates are >= 0 and sum to 1."""
    falling = np.sort(values)[::-1]
    excess = (np.cumsum(falling) - 1) / np.arange(1, values.size + 1)
    nearest: FloatArray = np.maximum(values - excess[falling > excess][-1], 0.0)
    return nearest
