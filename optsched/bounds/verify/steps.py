"""Least times of steps: one decode, and a fill without an eviction in chunks, in units.

A prefill step of c tokens at m cached ones takes, besides b c for its tokens,

    p_sq c^2 + p_mc m c + p_kv m + p_req

With m c = ((m + c)^2 - m^2 - c^2) / 2 the first two terms of the chunks of a fill from m0 to S sum
to (p_mc / 2)(S^2 - m0^2) + (p_sq - p_mc / 2) sum c^2. The rest depends on the chunks, at least
ceil((S - m0) / F) of them.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from math import isqrt

from optsched.bounds.verify.events import pages_of, total_pages
from optsched.bounds.verify.units import Units
from optsched.certificate import Line
from optsched.cost import CostModel


@dataclass(frozen=True, kw_only=True)
class Decodes:
    """A decode after which S tokens are cached takes ``first`` + ``per_token`` (S - 1), and
    ``per_page`` for each of its pages."""

    first: int
    per_token: int
    per_page: int = 0
    block_tokens: int = 1

    def __call__(self, size: int) -> int:
        pages = pages_of(size, self.block_tokens)
        return self.first + self.per_token * (size - 1) + self.per_page * pages

    def total(self, size: int) -> int:
        """Sum over the sizes 1 .. ``size``."""
        pages = total_pages(1, size, self.block_tokens)
        total = self.first * size + self.per_token * (size * (size - 1) // 2)
        return total + self.per_page * pages


@dataclass(frozen=True, kw_only=True)
class Floor:
    """A fill of S tokens takes at least ``constant`` + ``linear`` S + ``square`` S^2, all >= 0."""

    constant: int
    linear: int
    square: int

    def reaches(self, decode: Decodes, more: int = 0) -> int | None:
        """A size from which on a fill surely takes ``more`` than the decode, at every size.

        S tokens take at most (S + b - 1) / b pages of b tokens, so b times the difference is at
        least a convex function of S: once it is >= 0 and grows it stays so. None if it never does.
        """
        b = decode.block_tokens
        linear = b * (self.linear - decode.per_token) - decode.per_page
        constant = b * (self.constant - decode.first + decode.per_token - more)
        constant -= decode.per_page * (b - 1)

        def spare(size: int) -> int:
            return b * self.square * size * size + linear * size + constant

        if not self.square:
            if linear > 0:
                return max(1, -(constant // linear))
            return 1 if linear == 0 and constant >= 0 else None
        low = max(1, -(linear // (2 * b * self.square)))
        high = low
        while spare(high) < 0:
            high *= 2
        return bisect_left(range(low, high), True, key=lambda size: spare(size) >= 0) + low


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

    def decodes(self, set_up: int = 0, per_page: int = 0, block_tokens: int = 1) -> Decodes:
        """Decodes that also pay ``set_up`` each, and ``per_page`` for each page."""
        return Decodes(
            first=self.token + self.d_req + set_up, per_token=self.d_kv, per_page=per_page,
            block_tokens=block_tokens,
        )  # fmt: skip

    @property
    def floor(self) -> Floor:
        """What a first fill or refill takes at least: chunks have sum c^2 <= S^2."""
        square = self.half + min(0, self.surplus)
        return Floor(constant=self.p_req, linear=self.token, square=square)

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
