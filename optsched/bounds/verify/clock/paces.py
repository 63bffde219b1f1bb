"""What a step pays for its part of a batch, in units of one price, by how long the batch takes.

Let a step be charged c times the integral of the prices over its batch, with

    c = (sum over pieces k of m_k w_k + n S) / t

t the duration of the batch, w_k = beta_k (tokens) + attention the work of the step, S its KV after
the batch. The steps of a batch are then charged at most the integral itself, since the work of all
of them is at most t - alpha_k for every k and their KV at most M: what is needed is

    sum over k of m_k (t - alpha_k) + n M <= t

for every duration t. Each *pace* gives m and n for the durations from its ``from_s`` to the next
one's, where both sides are linear in t: the ends of the interval suffice, and for the last pace
sum m_k <= 1 besides. So at one price a step costs q_i(S) = sum m_k w_k + n S under pace i and takes
at least ``from_s`` seconds.

A decode has w_k = beta_k + d_kv (S - 1) + d_req. A refill in its place ends in a batch of its pace
and processes S tokens, in batches of any pace, so it costs at least (least sum m_k beta_k) S + n S.
The first fill costs at least (least sum m_k beta_k) I + (least sum m_k) (its attention), and I
times the least n.

Charges are whole numbers of ``UNITS`` per second. They are linear in S up to the smaller of two
lines, and rounded down as such.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import floor

from optsched.bounds.verify.refuted import hold
from optsched.cost import CostModel
from optsched.instance import Limits
from optsched.time_pricing import Pace

UNITS = 2**70
_Line = tuple[int, int]


@dataclass(frozen=True)
class Paces:
    """Charges of decodes and fills.

    Parameters
    ----------
    from_units : list of int
        Least duration of each pace.
    decode, refill : list of (int, int)
        Charge of a token as (constant, per KV token), for each pace.
    fill_token, fill_attention, fill_memory : Fraction
        Seconds per token, charge per second of attention, and seconds per KV token of a fill.
    """

    from_units: list[int]
    decode: list[_Line]
    refill: list[_Line]
    fill_token: Fraction
    fill_attention: Fraction
    fill_memory: Fraction

    def charge(self, pace: int, size: int) -> int:
        """Least charge of a token that is made at ``size`` KV tokens under a pace."""
        (a, b), (c, d) = self.decode[pace], self.refill[pace]
        return min(a + b * size, c + d * size)

    def least(self, size: int) -> int:
        """Least charge of a token that is made at ``size`` KV tokens, concave in the size."""
        return min(self.charge(pace, size) for pace in range(len(self.from_units)))

    def segments(self, smallest: int, largest: int) -> tuple[int, int, list[tuple[int, int]]]:
        """Half a token made at ``smallest`` and half at ``largest``: twice the least duration and
        charge, and by how much the charge falls with more of the former.

        A block of tokens at KV sizes in equal steps costs at least as much as half of its tokens
        at either end: the least of linear functions of S, charge + (a price of time) from_s, is
        concave in S. So what time it takes and what it is charged lie above the convex function
        through the segments (time, fall), steepest first.
        """
        start, time, falls = 0, 0, []
        for size in (smallest, largest):
            points = [(t, self.charge(i, size)) for i, t in enumerate(self.from_units)]
            hull = falling_hull(points)
            time += hull[0][0]
            start += hull[0][1]
            falls += [(t2 - t1, q1 - q2) for (t1, q1), (t2, q2) in pairwise(hull)]
        falls.sort(key=lambda s: Fraction(s[1], s[0]), reverse=True)
        return time, start, falls


def block_charge(
    segments: tuple[int, int, list[tuple[int, int]]], tokens: int, units: int | None
) -> int:
    """Least charge of a block of ``tokens`` tokens in ``units`` of time, or any, rounded down."""
    time, start, falls = segments
    charge = tokens * start
    # In less time than it takes a block is not possible, and may have any charge.
    left = None if units is None else max(0, 2 * units - tokens * time)
    for length, fall in falls:
        if left is None:
            charge -= tokens * fall
        elif left >= tokens * length:
            left -= tokens * length
            charge -= tokens * fall
        else:
            charge -= -(-fall * left // length)
            break
    return charge // 2


def paces_of(cost: CostModel, limits: Limits, paces: tuple[Pace, ...]) -> Paces:
    """Charges under ``paces``, which are checked.

    Raises
    ------
    RefutedError
        The steps of some batch could be charged more than its time.
    """
    kv_tokens = limits.block_tokens * (limits.kv_tokens // limits.block_tokens)
    pieces = [(Fraction(alpha), Fraction(beta)) for alpha, beta in cost.pieces]
    shortest = max(alpha + beta for alpha, beta in pieces)
    hold(Fraction(paces[0].from_s) <= shortest, "no pace for the shortest batch")
    decode, refill, times = [], [], []
    rates = [[Fraction(m) for m in pace.pieces] for pace in paces]
    for i, (pace, m) in enumerate(zip(paces, rates, strict=True)):
        hold(len(m) == len(pieces), f"pace {i} has {len(m)} rates for {len(pieces)} pieces")
        ends = [Fraction(p.from_s) for p in paces[i : i + 2]]
        for t in ends:
            used = sum((r * (t - alpha) for r, (alpha, _) in zip(m, pieces, strict=True)),
                       Fraction(pace.memory_s) * kv_tokens)  # fmt: skip
            hold(used <= t, f"pace {i} charges more than a batch of {float(t)} s takes")
        hold(len(ends) == 2 or sum(m) <= 1, "the last pace charges more than long batches take")
    per_token = min(slope(m, pieces) for m in rates)
    for pace, m in zip(paces, rates, strict=True):
        memory = Fraction(pace.memory_s)
        fixed = slope(m, pieces) + sum(m) * (Fraction(cost.d_req) - Fraction(cost.d_kv))
        grows = sum(m) * Fraction(cost.d_kv) + memory
        decode.append((floor(fixed * UNITS), floor(grows * UNITS)))
        refill.append((0, floor((per_token + memory) * UNITS)))
        times.append(floor(Fraction(pace.from_s) * UNITS))
    return Paces(
        from_units=times, decode=decode, refill=refill, fill_token=per_token,
        fill_attention=min(sum(m, Fraction(0)) for m in rates),
        fill_memory=min(Fraction(pace.memory_s) for pace in paces),
    )  # fmt: skip


def slope(rates: list[Fraction], pieces: list[tuple[Fraction, Fraction]]) -> Fraction:
    return sum((m * beta for m, (_, beta) in zip(rates, pieces, strict=True)), Fraction(0))


def falling_hull(points: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Lower convex hull of (time, charge), ascending times, as far as charges fall."""
    hull: list[tuple[int, int]] = []
    for t, q in points:
        if hull and q >= hull[-1][1]:
            continue
        while len(hull) > 1:
            (t1, q1), (t2, q2) = hull[-2:]
            if (q1 - q2) * (t - t2) > (q2 - q) * (t2 - t1):
                break
            hull.pop()
        hull.append((t, q))
    return hull
