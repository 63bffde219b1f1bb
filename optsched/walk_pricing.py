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
        Per type: prices of the token events of all its other stages; of groups of stages: those
        of the first stage of each.
    potentials : tuple of int
        One per multiset of followed stages that fits in memory, in the order of
        :func:`optsched.bounds.exact_walks.contents`; of groups of stages: one per multiset and
        offset that fit, by ascending offset.
    widths : tuple of tuple of int
        Per type: number of stages of each group; empty if every group is one stage.
    later : tuple of tuple of int
        Per type: price of an event of any other stage of each group; empty without groups.
    growth : int
        Price >= 0 of every page that a stage of a group is larger than the first.
    """

    intercept_s: float
    slope_s: float
    unit_bits: int
    small: tuple[tuple[int, ...], ...]
    followed: tuple[tuple[int, ...], ...]
    potentials: tuple[int, ...]
    widths: tuple[tuple[int, ...], ...] = ()
    later: tuple[tuple[int, ...], ...] = ()
    growth: int = 0

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Per type: number of stages of each group."""
        return self.widths or tuple((1,) * len(own) for own in self.followed)

    def __post_init__(self) -> None:
        for name in ("intercept_s", "slope_s"):
            value = getattr(self, name)
            require(0 <= value < float("inf"), name, value, "a finite number >= 0")
        require(0 <= self.unit_bits <= 1000, "unit_bits", self.unit_bits, "0 to 1000")
        types = len(self.followed)
        require(len(self.small) == types, "small", len(self.small), f"prices of {types} types")
        lowest = min((price for own in self.small for price in own), default=0)
        require(lowest >= 0, "small", lowest, "whole numbers >= 0")
        shapes = [len(own) for own in self.followed]
        for name in ("widths", "later"):
            given = [len(own) for own in getattr(self, name)]
            one_each = given == shapes or (not given and not self.widths)
            require(one_each, name, given, f"one number per group, {shapes}")
        narrowest = min((width for own in self.widths for width in own), default=1)
        require(narrowest >= 1, "widths", narrowest, "whole numbers >= 1")
        require(self.growth >= 0, "growth", self.growth, "a whole number >= 0")
