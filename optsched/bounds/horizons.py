"""How many batches a Lagrangian bound must look at, and what holds beyond.

A schedule with more than n batches takes at least W + gam(mu) (n + 1) + mu X for every mu with
gam(mu) >= 0 (see ``exact_lagrangian``). So a bound that is to reach a goal needs prices up to the
smallest n for which some mu proves the goal beyond n.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optsched.bounds.exact_lagrangian import Ground

FloatArray = NDArray[np.float64]
_BITS = 50  # so that mu is a double


@dataclass(frozen=True, kw_only=True, eq=False)
class Beyond:
    """Candidates for mu, ascending, with gam and mu X in seconds; all of shape ``(slopes,)``.

    ``work_s`` is W. ``value`` uses those with gam >= 0, ``flat_horizon`` the others.
    """

    slope_s: FloatArray
    constant_s: FloatArray
    tokens_s: FloatArray
    work_s: float

    def value(self, batches: int) -> float:
        """What schedules with ``batches`` or more batches take at least, in seconds."""
        return self.work_s + float(self._rising(batches).max())

    def best_slope(self, batches: int) -> float:
        """The mu that proves :meth:`value`."""
        return float(self.slope_s[int(self._rising(batches).argmax())])

    def horizon(self, goal_s: float) -> int | None:
        """Smallest n with ``value(n + 1) >= goal_s``; None if batches cost nothing."""
        missing = goal_s - self.work_s - self.tokens_s
        with np.errstate(divide="ignore", invalid="ignore"):
            needed = np.where(missing <= 0, 0.0, missing / self.constant_s)
        least = float(needed[self.constant_s >= 0].min())
        return max(0, math.ceil(least) - 1) if math.isfinite(least) else None

    def flat_horizon(self, goal_s: float) -> tuple[int, float]:
        """Largest n, and the mu with gam < 0, for which no schedule of at most n batches is
        shorter than ``goal_s``: W + gam n + mu X; n = 0 if there is none."""
        spare = self.work_s + self.tokens_s - goal_s
        falling = (self.constant_s < 0) & (spare > 0)
        if not falling.any():
            return 0, 0.0
        reach = np.where(falling, spare / np.minimum(self.constant_s, -1e-12), 0.0)
        best = int(reach.argmin())
        return math.floor(-float(reach[best])), float(self.slope_s[best])

    def _rising(self, batches: int) -> FloatArray:
        total = self.constant_s * batches + self.tokens_s
        return np.where(self.constant_s >= 0, total, -np.inf)


def beyond(base: Ground) -> Beyond:
    """mu at the slopes of the law, and where gam vanishes (batches of the least time per token)."""
    law, second = base.law, base.units.per_second
    corners = [n for n, _ in base.corners]
    beside = [time for _, time in base.corners]
    slopes = [beta - base.slope for _, beta in law.pieces]
    slopes += [max(0, slope - base.excess) for slope in slopes]
    slopes.append(max(0, min(time // n for n, time in base.corners)))
    found = []
    for mu in sorted({(slope << _BITS) // second for slope in slopes}):
        least = min(
            (time << _BITS) - mu * n * second for time, n in zip(beside, corners, strict=True)
        )
        slope_s = mu / 2**_BITS
        found.append((slope_s, least / second / 2**_BITS, slope_s * base.new_tokens))
    slope_s, constant_s, tokens_s = np.array(found).T
    return Beyond(
        slope_s=slope_s, constant_s=constant_s, tokens_s=tokens_s, work_s=base.work / second
    )
