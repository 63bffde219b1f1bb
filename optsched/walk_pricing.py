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
    small : tuple of tuple of int
        Per type of request, by (prompt, output): prices >= 0 of the token events of its first
        stages, those that walks do not follow.
    followed : tuple of tuple of int
        Per type: prices of the token events of all its other stages.
    potentials : tuple of int
        One per multiset of followed stages that fits in memory, in the order of
        :func:`optsched.bounds.exact_walks.contents`.
    """

    intercept_s: float
    slope_s: float
    unit_bits: int
    small: tuple[tuple[int, ...], ...]
    followed: tuple[tuple[int, ...], ...]
    potentials: tuple[int, ...]

    def __post_init__(self) -> None:
        for name in ("intercept_s", "slope_s"):
            value = getattr(self, name)
            require(0 <= value < float("inf"), name, value, "a finite number >= 0")
        require(0 <= self.unit_bits <= 1000, "unit_bits", self.unit_bits, "0 to 1000")
        types = len(self.followed)
        require(len(self.small) == types, "small", len(self.small), f"prices of {types} types")
        lowest = min((price for own in self.small for price in own), default=0)
        require(lowest >= 0, "small", lowest, "whole numbers >= 0")
