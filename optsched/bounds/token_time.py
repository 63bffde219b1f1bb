"""The batch-time law as a convex function of the tokens of a batch, and its supporting lines.

g(n) = max_k (alpha_k + beta_k n) matters at whole n >= 1 only, so it may be replaced by the largest
convex function that agrees with it there: linear between whole numbers, which is at least g, and at
n = 0 the larger of max_k alpha_k and 0 (slopes stay nondecreasing: if every alpha_k is negative
then g(1) < beta_k for the piece active at 1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optsched.cost import CostModel

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
_MIXTURES = (0.25, 0.5, 0.75)


@dataclass(frozen=True, kw_only=True)
class Line:
    """A line below g with an intercept >= 0: for every whole n from 0 to C

        g(n) >= intercept_s + slope_s * n + excess_s * max(0, n - knee_tokens).

    ``knee_tokens`` is where g leaves the line (C if it does not, with excess 0).
    """

    intercept_s: float
    slope_s: float
    knee_tokens: int
    excess_s: float


@dataclass(frozen=True, kw_only=True, eq=False)
class TokenLaw:
    """Convex, piecewise linear time of a batch's tokens: ``times_s`` at ``nodes``.

    ``nodes`` are whole numbers from 0 to C, shape ``(nodes,)``; between them g is linear.
    """

    nodes: IntArray
    times_s: FloatArray

    def time(self, tokens: ArrayLike) -> FloatArray:
        """g(n) at whole or fractional n in [0, C]."""
        times: FloatArray = np.interp(
            np.asarray(tokens, dtype=np.float64), self.nodes, self.times_s
        )
        return times

    @property
    def slopes_s(self) -> FloatArray:
        """Seconds per token between consecutive nodes, nondecreasing; shape ``(nodes - 1,)``."""
        slopes: FloatArray = np.diff(self.times_s) / np.diff(self.nodes)
        return slopes

    @property
    def best_tokens(self) -> int:
        """The n >= 1 with the least time per token g(n) / n."""
        per_token = self.times_s[1:] / self.nodes[1:]
        return int(self.nodes[1 + int(np.argmin(per_token))])

    def balanced(self, tokens: ArrayLike, batches: ArrayLike) -> FloatArray:
        """Least sum of g over ``batches`` batches that process ``tokens`` tokens in total.

        g is convex, so the most even split in whole tokens is best (Jensen).
        """
        x, count = np.asarray(tokens, dtype=np.int64), np.asarray(batches, dtype=np.int64)
        low, more = x // count, x % count
        time: FloatArray = (count - more) * self.time(low) + more * self.time(low + 1)
        return time

    def least(self, tokens: ArrayLike, at_least: ArrayLike) -> FloatArray:
        """Least of :meth:`balanced` over all batch counts >= ``at_least`` (and tokens / C).

        As a function of the count it is convex (the perspective of g), with its unconstrained
        minimum at tokens / best_tokens: the nearest admissible whole numbers contain the minimum.
        """
        x = np.asarray(tokens, dtype=np.int64)
        floor = np.maximum(np.asarray(at_least, dtype=np.int64), -(-x // int(self.nodes[-1])))
        floor = np.maximum(floor, 1)
        ideal = x // self.best_tokens
        candidates = [np.maximum(floor, ideal), np.maximum(floor, ideal + 1)]
        times: FloatArray = np.minimum(*[self.balanced(x, count) for count in candidates])
        return times


def token_law(cost: CostModel, batch_tokens: int, per_batch_s: float = 0.0) -> TokenLaw:
    """The law of ``cost`` on 0 .. ``batch_tokens``, with ``per_batch_s`` added to every batch."""
    pieces = cost.pieces
    nodes = {0, 1, batch_tokens}
    for k, (alpha, beta) in enumerate(pieces):
        for alpha2, beta2 in pieces[k + 1 :]:
            if beta != beta2:
                knot = (alpha - alpha2) / (beta2 - beta)
                if 1 < knot < batch_tokens:
                    nodes |= {math.floor(knot), math.ceil(knot)}
    whole = np.array(sorted(nodes), dtype=np.int64)
    times = cost.token_time(whole) + per_batch_s
    times[0] = max(max(alpha for alpha, _ in pieces) + per_batch_s, 0.0)
    return TokenLaw(nodes=whole, times_s=times)


def lines(law: TokenLaw) -> tuple[Line, ...]:
    """Supporting lines of ``law`` with intercept >= 0: its pieces, and mixtures at its knots.

    Any bound for a one-piece law holds with any of them (bounds L2). A knot's mixtures are the
    lines through it with a slope between those on either side; where the intercept turns negative
    the line through the origin ends the range.
    """
    slopes, found = law.slopes_s, []
    intercepts = law.times_s[:-1] - slopes * law.nodes[:-1]
    for k, (intercept, slope) in enumerate(zip(intercepts, slopes, strict=True)):
        knee = int(law.nodes[k + 1])
        following = slopes[k + 1] if k + 1 < len(slopes) else slope
        if intercept >= 0:
            found.append(_line(law, knee, slope, following))
        # The steepest line through the knee whose intercept is not negative.
        steepest = min(following, law.times_s[k + 1] / knee)
        if steepest <= slope:
            continue
        found += [
            _line(law, knee, slope + theta * (steepest - slope), following)
            for theta in (*_MIXTURES, 1.0)
            if intercept >= 0 and not (theta == 1.0 and steepest == following)
        ]
    return tuple(found)


def _line(law: TokenLaw, knee: int, slope: float, following: float) -> Line:
    at_knee = float(law.times_s[np.searchsorted(law.nodes, knee)])
    return Line(
        intercept_s=max(0.0, at_knee - float(slope) * knee), slope_s=float(slope),
        knee_tokens=knee, excess_s=max(0.0, float(following - slope)),
    )  # fmt: skip
