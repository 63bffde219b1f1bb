"""Seconds as whole numbers of a unit so small that every double of a certificate is a multiple."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from optsched.cost import CostModel

_GUARD = 2**40


@dataclass(frozen=True)
class Units:
    """A second has ``per_second`` units."""

    per_second: int

    def of(self, seconds: float | Fraction) -> int:
        """``seconds`` in units; must be a whole number of them."""
        value = Fraction(seconds) * self.per_second
        assert value.denominator == 1
        return value.numerator

    def seconds(self, units: int) -> Fraction:
        """A whole number of units as a rational number of seconds."""
        return Fraction(units, self.per_second)


def units_for(doubles: Iterable[float], shares: int) -> Units:
    """Units of which all ``doubles`` are even multiples, divided by ``shares`` or not.

    Doubles are dyadic, so the largest denominator is a multiple of all. Where a bound divides by
    anything else it rounds to the weaker side, by less than 2^-40 of the smallest unit needed.
    """
    largest = max((Fraction(x).denominator for x in doubles), default=1)
    return Units(2 * largest * shares * _GUARD)


def cost_doubles(cost: CostModel) -> Iterator[float]:
    """All doubles of a batch-time law that bounds use."""
    for piece in cost.pieces:
        yield from piece
    yield from (cost.d0, cost.d_kv, cost.d_req, cost.p0)
    yield from (cost.p_sq, cost.mixed, cost.p_kv, cost.p_req, cost.swap_tok)
