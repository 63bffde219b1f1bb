"""Least times of steps: one decode, and a fill without an eviction in chunks, in units.

A prefill step of c tokens at m cached ones takes, besides b c for its tokens,

    p_sq c^2 + p_mc m c + p_kv m + p_req

With m c = ((m + c)^2 - m^2 - c^2) / 2 the first two terms of the chunks of a fill from m0 to S sum
to (p_mc / 2)(S^2 - m0^2) + (p_sq - p_mc / 2) sum c^2. The rest depends on the chunks, at least
ceil((S - m0) / F) of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isqrt

from optsched.bounds.verify.units import Units
from optsched.certificate import Line
from optsched.cost import CostModel


@dataclass(frozen=True, kw_only=True)
class Steps:
    """Prices in units. ``half`` is p_mc / 2, ``surplus`` p_sq - p_mc / 2; a fill also pays
    ``excess`` for every token of a chunk beyond ``knee``."""

    token: int
    d_kv: int
    d_req: int
    half: int
    surplus: int
    p_kv: int
    p_req: int
    fill_tokens: int
    knee: int = 1
    excess: int = 0

    def decode(self, size: int) -> int:
        """A decode after which ``size`` tokens are cached."""
        return self.token + self.d_kv * (size - 1) + self.d_req

    def fill(self, size: int, before: int = 0) -> int:
        """Least time of an uninterrupted fill from ``before`` to ``size`` tokens."""
        tokens = size - before
        chunks = self._chunks(size, before)
        if self.excess and not before:
            # The excess of chunk c is charged to itself, (c - knee)^+; squares then count with the
            # least that any chunks have.
            longest = 1 if self.surplus > 0 else min(tokens, self.fill_tokens)
            chunks = max(chunks, self.surplus * tokens * longest + self._rereads(size))
        return self.token * tokens + self.half * (size * size - before * before) + chunks

    def _chunks(self, size: int, before: int) -> int:
        """Least sum of surplus c^2 + p_kv m + p_req over chunks of at most F tokens.

        The j-th chunk from the end (j from 1) leaves at most j F tokens to be filled, so it starts
        at m >= S - j F, and all but the first of them are sure to exist.
        """
        tokens, F = size - before, self.fill_tokens
        fewest = -(-tokens // F)
        starts = (fewest - 1) * size - F * (fewest * (fewest - 1) // 2)
        reads = self.p_kv * (before + starts)
        if self.surplus <= 0:
            # sum c^2 <= (largest c) (sum c)
            return reads + self.p_req * fewest + self.surplus * tokens * min(tokens, F)
        # q chunks have sum c^2 >= tokens^2 / q, rounded down here; convex in q.
        square = self.surplus * tokens * tokens
        ideal = isqrt(square // self.p_req) if self.p_req else tokens
        counts = {min(max(q, fewest), tokens) for q in (ideal, ideal + 1)}
        return reads + min(square // q + self.p_req * q for q in counts)

    def _rereads(self, size: int) -> int:
        """Least sum of p_req + p_kv m + excess (c - knee)^+ over all chunkings of a first fill.

        Counted per token: one in the j-th chunk from the end (j from 0) is cached before j later
        chunks, p_kv j. The first ``knee`` tokens of each chunk pay no more; others pay the excess,
        and are best put into the last chunk. So a further chunk j saves excess - p_kv j on each of
        the ``knee`` tokens that it takes, and costs p_req: take chunks while that pays.
        """
        knee, excess = self.knee, self.excess
        whole, rest = divmod(size, knee)
        if whole == 0:
            return self.p_req
        further = whole - 1
        gain = knee * excess - self.p_req  # of chunk j, plus knee p_kv j
        if gain <= 0:
            further = 0
        elif self.p_kv:
            further = min(further, gain // (knee * self.p_kv))
        cost = self.p_req * (1 + further) + excess * (size - knee * (1 + further))
        cost += self.p_kv * knee * (further * (further + 1) // 2)
        # A last chunk of the ``rest``, if every full one was worth it.
        partial = rest * (excess - self.p_kv * whole) - self.p_req
        return cost - partial if further == whole - 1 and partial > 0 else cost

    def without_excess(self) -> Steps:
        """The same prices but for the excess."""
        return replace(self, excess=0)


def steps_of(
    cost: CostModel, fill_tokens: int, units: Units, token: int, line: Line | None = None
) -> Steps:
    """Prices of ``cost`` with ``token`` units per token, and the excess of ``line`` if given."""
    half = units.of(cost.mixed) // 2
    return Steps(
        token=token, d_kv=units.of(cost.d_kv), d_req=units.of(cost.d_req), half=half,
        surplus=units.of(cost.p_sq) - half, p_kv=units.of(cost.p_kv), p_req=units.of(cost.p_req),
        fill_tokens=fill_tokens, knee=line.knee_tokens if line else 1,
        excess=units.of(line.excess_s) if line else 0,
    )  # fmt: skip
