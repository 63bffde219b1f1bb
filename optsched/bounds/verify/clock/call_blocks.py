"""Blocks in which a request with calls is followed: how long each takes alone, and what it is
charged at a price of 1 by how long it takes.

A block is up to so many tokens made one after the other. The first token of a request, and each
after a call that returns tokens, needs a *fill*; such a token is a block of its own if it processes
many tokens, else joined to those after it. After a call there are two ways on: the KV was kept (on
the GPU or in host memory) and what the call returned is appended, or all tokens are processed again
(``optsched/bounds/verify/work.py``).

**Tokens** are charged as in ``paces``: the block's charge falls, convexly, with the time it takes.

**Fills.** A chunk of c tokens in a batch under a pace from t to t' is charged at least the pace's
rate per token, c tokens take less than t', and the batch takes at least g(c) and at least t. So n
tokens under this pace take at least n min over c of max(t, g(c)) / c, and some under each pace
what lies between. Attention is charged at the least rate of all paces.

**Memory.** The batch that makes a token at S KV tokens holds S of them for g(1) at least. While a
fill to S goes on, the batch that processes the token at position p holds p tokens at least, for at
least min g(c) / c for each token that it processes.

Times and charges are whole numbers of 2^-24 s, charges rounded down.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from math import floor

from optsched.bounds.verify.clock.paces import UNITS, Paces, falling_hull, paces_of, slope
from optsched.bounds.verify.law import Law, law_of
from optsched.bounds.verify.steps import steps_of
from optsched.bounds.verify.units import Units, cost_doubles, units_for
from optsched.bounds.verify.work import token_sums
from optsched.instance import Instance, Request
from optsched.time_pricing import UNITS_PER_S, Pace

SECOND = UNITS_PER_S
_HALVES = (2 * UNITS // SECOND).bit_length() - 1
_MANY = 64
_SIZES = 8  # sizes of KV that are charged alike
Fall = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Charge:
    """What a block takes and is charged in one way of going on.

    Parameters
    ----------
    own : int
        Time that it takes alone.
    start : int
        Time at which the charge, ``most``, begins to fall with the time that is taken.
    falls : tuple of (int, int)
        Lengths of time and by how much the charge falls in each, steepest first.
    memory : Fraction
        Token-seconds of KV held at least.
    """

    own: int
    start: int
    most: int
    falls: tuple[Fall, ...]
    memory: Fraction

    def joined(self, other: Charge) -> Charge:
        """This and then ``other``."""
        falls = sorted(self.falls + other.falls, key=_steepness, reverse=True)
        return Charge(
            own=self.own + other.own, start=self.start + other.start,
            most=self.most + other.most, falls=tuple(falls), memory=self.memory + other.memory,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Block:
    """One block of a request.

    Parameters
    ----------
    kept : Charge
        If the KV was kept.
    again : Charge or None
        If all tokens are processed again; None if that is no choice, as no call comes before.
    pause : int
        Duration of the call before it, 0 if there is none.
    held : int
        KV tokens that there are during this call; 0 if there is none.
    """

    kept: Charge
    again: Charge | None = None
    pause: int = 0
    held: int = 0

    @property
    def own(self) -> int:
        """Least time that it takes, without the pause before it."""
        return self.kept.own if self.again is None else min(self.kept.own, self.again.own)


def _steepness(fall: Fall) -> Fraction:
    return Fraction(fall[1], max(fall[0], 1))


class Blocks:
    """Blocks of the requests of an instance under ``paces``."""

    def __init__(self, instance: Instance, paces: Sequence[Pace], block: int, apart: int) -> None:
        cost, limits = instance.cost, instance.limits
        self.instance, self.block, self.apart = instance, block, apart
        self.paces: Paces = paces_of(cost, limits, tuple(paces))
        self.units: Units = units_for(cost_doubles(cost), 1)
        law = law_of(cost, limits.batch_tokens, self.units)
        self._law = law
        self._filling = law_of(cost, limits.batch_tokens, self.units, self.units.of(cost.p0))
        self._steps = steps_of(cost, limits.fill_tokens, self.units, token=0)
        single = law(1) + self.units.of(cost.d0)
        self._decode = self._steps.decodes(set_up=single)
        self._attention = self._steps.decodes()
        self.shortest = self.units.seconds(law(1))
        best = min(self._filling(n) // n for n in self._filling.corners if n)
        self._upto = token_sums(
            max(r.final_tokens for r in instance.requests), self._fill, self._decode,
            replace(self._steps.floor, linear=best),
        )  # fmt: skip
        self.per_token = min(self.units.seconds(law(n)) / n for n in law.corners if n)
        self.swap_rate = self.paces.fill_attention
        self._fills = list(_fill_paces(instance, paces, law, self.units))
        self._of_tokens: dict[int, list[tuple[int, int]]] = {}
        self._segments: dict[tuple[int, int], tuple[int, int, list[Fall]]] = {}
        self._tokens: dict[tuple[int, int], Charge] = {}
        self._filled: dict[tuple[int, int], Charge] = {}

    def of(self, request: Request) -> list[Block]:
        """Its blocks, in order."""
        ends = [call.after_tokens for call in request.calls] + [request.output_tokens]
        low, made, blocks = request.prompt_tokens, 0, list[Block]()
        kept, again, before = self._filling_to(low, 0), None, Block(kept=self._none)
        for index, end in enumerate(ends):
            if index:
                call = request.calls[index - 1]
                held = low - 1
                low += call.response_tokens
                kept, again = self._appended(low, held), self._filling_to(low, 0)
                pause = floor(Fraction(call.duration_s) * SECOND)
                before = Block(kept=kept, again=again, pause=pause, held=held)
            processed = low - before.held
            first = replace(before, kept=kept, again=again)
            rest = list(self._pieces(low + 1, end - made - 1))
            if rest and processed <= self.apart:
                size, tokens = rest.pop(0)
                more = self._made(size, tokens)
                first = replace(
                    first, kept=kept.joined(more), again=again and again.joined(more)
                )  # fmt: skip
            blocks.append(first)
            blocks += [Block(kept=self._made(size, tokens)) for size, tokens in rest]
            low, made = low + end - made, end
        return blocks

    def _pieces(self, low: int, tokens: int) -> Iterator[tuple[int, int]]:
        """Blocks of about equal numbers of tokens, the first made at ``low`` KV tokens."""
        count = -(-tokens // self.block)
        for k in range(count):
            begin, end = tokens * k // count, tokens * (k + 1) // count
            yield low + begin, end - begin

    @property
    def _none(self) -> Charge:
        return Charge(own=0, start=0, most=0, falls=(), memory=Fraction(0))

    def _made(self, low: int, tokens: int) -> Charge:
        """Further tokens made at ``low`` KV tokens and more."""
        if (low, tokens) in self._tokens:
            return self._tokens[low, tokens]
        high = low + tokens - 1
        own = self.units.seconds(self._upto(high) - self._upto(low - 1))
        # Charges do not fall with the size, so it may be rounded down.
        near = low - low % _SIZES, high - high % _SIZES
        if near not in self._segments:
            self._segments[near] = self.paces.segments(max(near[0], 1), max(near[1], 1))
        time, most, falls = self._segments[near]
        found = Charge(
            own=floor(own * SECOND), start=time * tokens >> _HALVES, most=most * tokens >> _HALVES,
            falls=tuple((t * tokens >> _HALVES, -(-q * tokens >> _HALVES)) for t, q in falls),
            memory=self.shortest * tokens * Fraction(low + high, 2),
        )  # fmt: skip
        self._tokens[low, tokens] = found
        return found

    def _fill(self, size: int, before: int) -> int:
        new = size - before
        chunks = -(-new // self.instance.limits.fill_tokens)
        return self._steps.fill(size, before) + self._filling.least(new, chunks)

    def _appended(self, low: int, held: int) -> Charge:
        """What a call returned is appended to the KV that was kept."""
        return self._made(low, 1) if low == held + 1 else self._filling_to(low, held)

    def _filling_to(self, size: int, before: int) -> Charge:
        """A fill from ``before`` to ``size`` tokens, the last of which may be a decode."""
        if (size, before) in self._filled:
            return self._filled[size, before]
        new = size - before
        own, attention = self._fill(size, before), self._steps.fill(size, before)
        if new > 1:
            own = min(own, self._fill(size - 1, before) + self._decode(size))
            last = self._steps.fill(size - 1, before) + self._attention(size)
            attention = min(attention, last)
        fixed = self.paces.fill_attention * self.units.seconds(attention)
        fixed += self.paces.fill_memory * size
        hull = falling_hull(self._points(new))
        positions = Fraction(size * (size + 1) - before * (before + 1), 2)
        found = Charge(
            own=floor(self.units.seconds(own) * SECOND), start=hull[0][0],
            most=floor(fixed * SECOND) + hull[0][1],
            falls=tuple((t2 - t1, q1 - q2) for (t1, q1), (t2, q2) in pairwise(hull)),
            memory=max(self.shortest * size, self.per_token * positions),
        )  # fmt: skip
        self._filled[size, before] = found
        return found

    def _points(self, tokens: int) -> list[tuple[int, int]]:
        """(time, charge) of so many tokens under each pace, ascending times."""
        if tokens > _MANY:  # fewer take less time and are charged less
            tokens -= tokens % _MANY
        if tokens not in self._of_tokens:
            points = []
            for pace in self._fills:
                sizes = {min(tokens, pace.sizes[-1]), *(n for n in pace.sizes if n <= tokens)}
                scale = tokens * SECOND
                each = min(
                    scale * max(pace.start, self._law(n)) // (n * self.units.per_second)
                    for n in sizes
                )
                points.append((each, scale * pace.rate // UNITS))
            self._of_tokens[tokens] = sorted(points)
        return self._of_tokens[tokens]


@dataclass(frozen=True)
class _FillPace:
    """A pace: its least duration, sizes of chunks of which one takes the least time per token (or
    else the largest possible one does), and the charge per token."""

    start: int
    sizes: list[int]
    rate: int


def _fill_paces(
    instance: Instance, paces: Sequence[Pace], law: Law, units: Units
) -> Iterator[_FillPace]:
    """Those under which a chunk is possible."""
    most = instance.limits.fill_tokens
    pieces = [(Fraction(alpha), Fraction(beta)) for alpha, beta in instance.cost.pieces]
    starts = [floor(Fraction(pace.from_s) * units.per_second) for pace in paces]
    reached = [bisect_right(range(1, most + 1), start, key=law) for start in starts]
    for k, pace in enumerate(paces):
        # A batch takes less than the next pace's start, which was rounded down by less than a unit.
        largest = most if k + 1 == len(paces) else reached[k + 1]
        if largest:
            sizes = {largest, *law.corners, reached[k], reached[k] + 1}
            rate = floor(slope([Fraction(m) for m in pace.pieces], pieces) * UNITS)
            yield _FillPace(starts[k], sorted(n for n in sizes if 0 < n <= largest), rate)
