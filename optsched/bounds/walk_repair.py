"""Whole prices and potentials of closed walks near those that a search in doubles found.

Prices are rounded down to whole numbers, and the potentials lowered to least values over all
batches until no batch raises them by more than it costs; so what is returned holds whatever the
search did.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import msgspec
import numpy as np

from optsched.bounds.exact_walks import best_earnings
from optsched.bounds.walk_ground import WalkGround
from optsched.walk_pricing import WalkPricing
from optsched.walks.contents import IntArray, contents_of
from optsched.walks.problem import FloatArray, WalkPrices
from optsched.walks.rows import Rows
from optsched.walks.sweeps import BatchPrices, after_a_batch

UNIT_BITS = 46
_SAFE = 2**56  # 1024 s: sums of a batch's prices with a potential then stay within 64 bits
_MOST_SWEEPS = 60
_MOST_ROUNDS = 8
_BELOW = 1 - 1e-12


class ClosedWalkBound(msgspec.Struct, frozen=True, kw_only=True):
    """What the prices found prove.

    Parameters
    ----------
    value_s : float
        The bound in seconds; the exact value rounded down.
    pricing : WalkPricing
        The proof, for ``exact_walks.walk_value``.
    contents : int
        Number of memory contents.
    left_out : int
        Most small stages of a type that are left out of the contents.
    wall_s : float
        Seconds spent.
    """

    value_s: float
    pricing: WalkPricing
    contents: int
    left_out: int
    wall_s: float


@dataclass(frozen=True, kw_only=True, eq=False)
class WholeWalks:
    """Prices and potentials (shape of :class:`Rows`) as whole numbers of 2 ** -UNIT_BITS s."""

    first: IntArray
    later: IntArray
    small: IntArray
    growth: int
    potentials: IntArray


def rows_of(ground: WalkGround) -> Rows:
    """All contents of ``ground`` with their offsets."""
    pages = np.array([kind.pages for kind in ground.kinds], dtype=np.int64)
    moves_on = np.array([kind.moves_on for kind in ground.kinds], dtype=np.bool_)
    widths = tuple(kind.width for kind in ground.kinds)
    return Rows(contents=contents_of(pages, moves_on, ground.cap), widths=widths)


def repaired(
    rows: Rows, ground: WalkGround, prices: WalkPrices, potentials: FloatArray
) -> WholeWalks | None:
    """Whole prices and potentials that no batch violates; None if none are found near those given.

    Parameters
    ----------
    prices : WalkPrices
    potentials : float array, shape of ``rows``
        Seconds.
    """
    scale = 2.0**UNIT_BITS
    known = np.where(rows.fits, potentials, 0.0)
    small, growth = np.maximum(prices.small, 0.0), np.maximum([prices.growth], 0.0)
    parts = (prices.first, prices.later, small, growth, known)
    if not max(float(np.abs(part).max(initial=0.0)) for part in parts) * scale < _SAFE:
        return None
    whole = np.floor(known * scale).astype(np.int64)
    for _ in range(_MOST_ROUNDS):
        numbers = [np.floor(part * scale).astype(np.int64) for part in parts[:-1]]
        found = WholeWalks(
            first=numbers[0], later=numbers[1], small=numbers[2], growth=int(numbers[3][0]),
            potentials=whole,
        )  # fmt: skip
        moves = _moves(rows, ground, found)
        excess = 0
        for _ in range(_MOST_SWEEPS):
            after = after_a_batch(rows, whole, moves)
            excess = int((whole - after)[rows.fits].max())
            if excess <= 0:
                return replace(found, potentials=whole)
            whole = np.where(rows.fits, np.minimum(whole, after), 0)
            if whole.min() < -_SAFE:
                return None
        # Where no refill is cheaper than its decode, a batch costs enough for prices and potentials
        # that are smaller in this proportion.
        keep = ground.batch / (ground.batch + excess) * _BELOW
        scale *= keep
        whole = np.floor(whole * keep).astype(np.int64)
    return None


def _moves(rows: Rows, ground: WalkGround, whole: WholeWalks) -> BatchPrices:
    fill = []
    for kind, own, others in zip(ground.kinds, whole.first, whole.later, strict=True):
        less = np.array(kind.refill, dtype=np.int64)
        less[0] -= own
        less[1:] -= others
        fill.append(less)
    small = zip([pages for pages, _ in ground.small], whole.small.tolist(), strict=True)
    best = np.array(best_earnings(ground.cap, small), dtype=np.int64)
    return BatchPrices(
        first=whole.first, later=whole.later, fill=tuple(fill),
        batch=ground.batch - best[rows.free] - whole.growth * rows.offsets,
    )  # fmt: skip


def proven_s(rows: Rows, ground: WalkGround, whole: WholeWalks) -> float:
    """W + p0 Np + sum of prices, in seconds, rounded down."""
    earned = int(whole.potentials[rows.fits].min()) - int(whole.potentials[0, 0])
    prices = zip(ground.kinds, whole.first.tolist(), whole.later.tolist(), strict=True)
    for kind, own, others in prices:
        earned += kind.requests * own + kind.later_events * others
        earned += kind.growth_events * whole.growth
    for (_, count), price in zip(ground.small, whole.small.tolist(), strict=True):
        earned += count * price
    return _rounded_down(ground.base_s + Fraction(earned, 2**UNIT_BITS))


def by_type(prices: IntArray, numbers: list[int]) -> tuple[tuple[int, ...], ...]:
    """``prices`` in parts, one per type, of so many each."""
    return tuple(tuple(own.tolist()) for own in np.split(prices, np.cumsum(numbers)[:-1]))


def in_order(rows: Rows, potentials: IntArray) -> tuple[int, ...]:
    """Potentials in the order of a :class:`WalkPricing`."""
    order = rows.contents.lexicographic
    return tuple(potentials[order][rows.fits[order]].tolist())


def _rounded_down(value: Fraction) -> float:
    near = float(value)
    return near if Fraction(near) <= value else math.nextafter(near, -math.inf)
