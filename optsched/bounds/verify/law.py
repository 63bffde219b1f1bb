"""The time of a batch's tokens, g(n) = max_k (alpha_k + beta_k n) at whole n, in units.

At n = 0 it is extended by the larger of max_k alpha_k and 0, which keeps it convex: if all alpha_k
are negative, g(1) - 0 = alpha_k + beta_k < beta_k <= g(2) - g(1) for the k that is active at 1.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from optsched.bounds.verify.units import Units
from optsched.certificate import Line
from optsched.cost import CostModel


@dataclass(frozen=True)
class Law:
    """g for batches of up to ``most`` tokens with ``extra`` units added to every batch."""

    pieces: tuple[tuple[int, int], ...]
    most: int
    extra: int = 0

    def __call__(self, tokens: int) -> int:
        """g(n) for a whole n >= 0."""
        alpha, beta = self._envelope[bisect_right(self._starts, tokens)]
        largest = alpha + beta * tokens + self.extra
        return largest if tokens else max(0, largest)

    @cached_property
    def _envelope(self) -> tuple[tuple[int, int], ...]:
        """The pieces that are the largest somewhere, by slope."""
        kept: list[tuple[int, int]] = []
        for c, d in sorted(set(self.pieces), key=lambda piece: (piece[1], piece[0])):
            while kept and kept[-1][1] == d:
                kept.pop()
            # The last one is nowhere alone if the new one overtakes the one before it first.
            while len(kept) > 1:
                (a0, b0), (a, b) = kept[-2:]
                if (a0 - c) * (b - b0) > (a0 - a) * (d - b0):
                    break
                kept.pop()
            kept.append((c, d))
        return tuple(kept)

    @cached_property
    def _starts(self) -> tuple[int, ...]:
        """From which whole n on each piece of the envelope but the first is the largest."""
        return tuple(-((c - a) // (d - b)) for (a, b), (c, d) in pairwise(self._envelope))

    @property
    def first_slope(self) -> int:
        """g(1) - g(0), no more than any later difference."""
        return self(1) - self(0)

    @cached_property
    def corners(self) -> tuple[int, ...]:
        """Whole numbers from 0 to ``most``, ascending, between which g is linear."""
        found = {0, min(1, self.most), self.most}
        for start in self._starts:
            found |= {n for n in (start - 1, start, start + 1) if 0 < n < self.most}
        return tuple(sorted(found))

    @cached_property
    def cheapest_tokens(self) -> int:
        """A corner n >= 1 with the least time per token."""
        best = self.corners[1]
        for n in self.corners[2:]:
            if self(n) * best < self(best) * n:
                best = n
        return best

    def balanced(self, tokens: int, batches: int) -> int:
        """Time of ``tokens`` tokens spread as evenly as whole tokens allow."""
        low, more = divmod(tokens, batches)
        return (batches - more) * self(low) + (more * self(low + 1) if more else 0)

    def least(self, tokens: int, at_least: int) -> int:
        """Least time of ``tokens`` tokens in ``at_least`` batches or more.

        By convexity the even spread is best for each number N of batches, and its time
        is at most N g(tokens / N), g linear between whole numbers; that is convex in N and least at
        N = tokens / n*, so the least whole N is next to it, or the smallest admissible one.
        """
        fewest = max(1, at_least, -(-tokens // self.most))
        ideal = tokens // self.cheapest_tokens
        return min(self.balanced(tokens, max(fewest, n)) for n in (ideal, ideal + 1))

    def above(self, line: Line, units: Units, first: int) -> bool:
        """Whether ``line`` with its excess is at most g at every n from ``first`` to ``most``.

        Both are linear between the corners of g and the knee, so those points decide.
        """
        a, b, e = units.of(line.intercept_s), units.of(line.slope_s), units.of(line.excess_s)
        knee = line.knee_tokens
        points = {n for n in self.corners if n >= first} | {first}
        points |= {knee} if first <= knee <= self.most else set()
        return all(a + b * n + e * max(0, n - knee) <= self(n) for n in points)


def law_of(cost: CostModel, most: int, units: Units, extra: int = 0) -> Law:
    """The law of ``cost`` for batches of up to ``most`` tokens."""
    pieces = tuple((units.of(alpha), units.of(beta)) for alpha, beta in cost.pieces)
    return Law(pieces, most, extra)
