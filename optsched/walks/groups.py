"""Which stages closed walks follow in groups, and prices carried from one grouping to another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from optsched.walks.problem import FloatArray, WalkPrices

MOST_RESIDENTS = 32
_MOST_WAYS = 1_000_000  # pages times groups: steps of counting contents

Shape = tuple[int, int, int]  # pages at the first stage, stages, requests


@dataclass(frozen=True, kw_only=True)
class Grouping:
    """Per type: how many small stages are left out, and the numbers of stages of its groups."""

    left_out: list[int]
    groups: list[list[int]]

    @property
    def widths(self) -> tuple[int, ...]:
        """Numbers of stages of all groups."""
        return tuple(width for own in self.groups for width in own)


def grouping(shapes: Sequence[Shape], cap: int, width: int, most_contents: int) -> Grouping | None:
    """Groups of ``width`` stages, from the last stage of each type down to as small a size as
    leaves at most ``most_contents`` contents and 32 requests in memory. None if that leaves out
    more than half of a type's stages, or is too much to count."""
    largest = max(pages + stages - 1 for pages, stages, _ in shapes)
    if cap * sum(-(-stages // width) for _, stages, _ in shapes) > _MOST_WAYS:
        return None
    low, high = max(min(pages for pages, _, _ in shapes), cap // (MOST_RESIDENTS + 1) + 1), largest
    found = None
    while low <= high:  # the smallest size from which on stages can be followed
        middle = (low + high) // 2
        tried = _from_size(shapes, middle, width)
        if _number_of_contents(shapes, tried, cap, most_contents) <= most_contents:
            found, high = tried, middle - 1
        else:
            low = middle + 1
    if found is None or any(
        2 * less > stages for less, (_, stages, _) in zip(found.left_out, shapes, strict=True)
    ):
        return None
    return found


def _from_size(shapes: Sequence[Shape], size: int, width: int) -> Grouping:
    left_out, groups = [], []
    for pages, stages, _ in shapes:
        less = min(max(0, size - pages), stages - 1)
        whole, rest = divmod(stages - less, width)
        left_out.append(less)
        groups.append([rest] * (rest > 0) + [width] * whole)
    return Grouping(left_out=left_out, groups=groups)


def _number_of_contents(shapes: Sequence[Shape], tried: Grouping, cap: int, enough: int) -> int:
    """How many multisets of groups fit by their first stages; counting ends above ``enough``."""
    ways = [1] + [0] * cap
    for (pages, _, _), less, own in zip(shapes, tried.left_out, tried.groups, strict=True):
        for first in np.cumsum([pages + less, *own[:-1]]).tolist():
            for total in range(first, cap + 1):
                ways[total] += ways[total - first]
            if sum(ways) > enough:
                break
    return sum(ways)


def stage_prices(prices: WalkPrices, grouped: Grouping) -> list[FloatArray]:
    """Per type: the price of every event."""
    small = np.split(prices.small, np.cumsum(grouped.left_out)[:-1])
    found, kind = [], 0
    for less, own in zip(small, grouped.groups, strict=True):
        parts = [less]
        for width in own:
            beyond = prices.later[kind] + prices.growth * np.arange(width)
            beyond[0] = prices.first[kind]
            parts.append(beyond)
            kind += 1
        found.append(np.concatenate(parts))
    return found


def regrouped(stages: list[FloatArray], growth: float, grouped: Grouping) -> FloatArray:
    """Prices of ``grouped``, in the order of :meth:`WalkProblem.split`, from those of all events
    and a price of offset."""
    first, later, small = [], [], []
    for price, less, own in zip(stages, grouped.left_out, grouped.groups, strict=True):
        small.append(np.maximum(price[:less], 0.0))
        for part in np.split(price[less:], np.cumsum(own)[:-1]):
            first.append(part[0])
            beyond = part[1:] - growth * np.arange(1, part.size)
            later.append(beyond.mean() if beyond.size else 0.0)
    return np.concatenate((first, later, *small, [growth]))
