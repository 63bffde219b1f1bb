"""Prices of stages and potentials of memory contents: the numbers of a closed-walk bound (B4).

They are whole numbers of a binary fraction of a second, so that what is stored is exactly what is
checked. ``bounds.exact_walks`` says what they prove.
"""

from __future__ import annotations

import msgspec

from optsched.errors import require


class WalkPricing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that a closed-walk bound consists of.

    Parameters
    ----------
    intercept_s, slope_s : float
        A line below the batch-time law: a batch of n tokens takes at least
        intercept_s + slope_s n.
    unit_bits : int
        Prices and potentials count units of 2 ** -unit_bits seconds.
    widths : tuple of tuple of int
        Per type of request, by (prompt, output): how many consecutive stages each of its classes
        has; the widths of a type sum to its output tokens.
    first : tuple of tuple of int
        Per type and class: price of a token event that is the first of its class.
    later : tuple of tuple of int
        Per type and class: price >= 0 of each further token event of the class.
    slack : int
        Price >= 0 of a page of a batch that the classes' smallest stages leave free.
    potentials : tuple of int
        One per multiset of classes that fits in memory, in the order of
        :func:`optsched.bounds.exact_walks.contents`.
    """

    intercept_s: float
    slope_s: float
    unit_bits: int
    widths: tuple[tuple[int, ...], ...]
    first: tuple[tuple[int, ...], ...]
    later: tuple[tuple[int, ...], ...]
    slack: int
    potentials: tuple[int, ...]

    def __post_init__(self) -> None:
        for name in ("intercept_s", "slope_s"):
            value = getattr(self, name)
            require(0 <= value < float("inf"), name, value, "a finite number >= 0")
        require(0 <= self.unit_bits <= 1000, "unit_bits", self.unit_bits, "0 to 1000")
        shape = [len(own) for own in self.widths]
        for name in ("first", "later"):
            given = [len(own) for own in getattr(self, name)]
            require(given == shape, name, given, f"one price per class, {shape}")
        narrowest = min((w for own in self.widths for w in own), default=0)
        require(narrowest >= 1, "widths", narrowest, "at least one stage per class")
        lowest = min(price for own in self.later for price in own)
        require(lowest >= 0, "later", lowest, "whole numbers >= 0")
        require(self.slack >= 0, "slack", self.slack, "a whole number >= 0")
