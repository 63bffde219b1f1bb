"""Memory patterns: which sets of KV sizes fit in one batch, and the dearest of them.

A *pattern* says how many requests of each type hold how many tokens after a batch: at most one
size per request, and whole pages that sum to at most M. Given a price for every (type, size) the
dearest pattern is a multiple-choice knapsack over the requests, solved by a dynamic program over
memory in O(requests x sizes x M) elementary steps, vectorised over memory.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optsched.instance import Instance
from optsched.model.types import request_types

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Items:
    """What a pattern may hold: one item per (type, tokens), shapes ``(items,)``.

    ``type`` and ``cached`` say which, ``pages`` its weight and ``capacity`` the limit, both in
    units of their greatest common divisor of all weights; ``slots`` lists the type of every
    request that can be part of a pattern.
    """

    type: IntArray
    cached: IntArray
    pages: IntArray
    capacity: int
    slots: tuple[int, ...]

    def __len__(self) -> int:
        return int(self.type.size)

    @property
    def effort(self) -> int:
        """Elementary steps of one dynamic program."""
        per_type = np.bincount(self.type)
        return int(sum(per_type[t] for t in self.slots)) * (self.capacity + 1)


def pattern_items(instance: Instance) -> Items:
    """The items of ``instance``: tokens I .. I+O-1 of every type."""
    limits, types = instance.limits, request_types(instance)
    pairs = [
        (t, kind.prompt_tokens + g)
        for t, kind in enumerate(types)
        for g in range(kind.output_tokens)
    ]
    type_, cached = np.array(pairs, dtype=np.int64).T
    pages = np.array([limits.pages(int(size)) for size in cached])
    unit = math.gcd(*pages.tolist())
    slots: list[int] = []
    for t, kind in enumerate(types):
        fit = limits.kv_tokens // limits.pages(kind.prompt_tokens)
        slots += [t] * min(kind.count, fit)
    return Items(
        type=type_, cached=cached, pages=pages // unit,
        capacity=limits.kv_tokens // unit, slots=tuple(slots),
    )  # fmt: skip


def dearest_pattern(items: Items, prices: FloatArray) -> tuple[float, IntArray]:
    """The largest total price of a pattern, and how often it has each item.

    Prices below zero are never taken. Whole prices give an exact value.
    """
    best: FloatArray = np.zeros(items.capacity + 1)
    taken: list[IntArray] = []
    of_type = [np.flatnonzero(items.type == t) for t in range(int(items.type.max()) + 1)]
    for t in items.slots:
        after, choice = best.copy(), np.full(best.size, -1)
        for item in of_type[t]:
            weight = items.pages[item]
            offer = best[:-weight] + prices[item]
            better = offer > after[weight:]
            after[weight:][better] = offer[better]
            choice[weight:][better] = item
        best = after
        taken.append(choice)
    counts = np.zeros(len(items), dtype=np.int64)
    room = int(np.argmax(best))
    value = float(best[room])
    for choice in reversed(taken):
        chosen = int(choice[room])
        if chosen >= 0:
            counts[chosen] += 1
            room -= int(items.pages[chosen])
    return value, counts
