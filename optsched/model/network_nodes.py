"""Nodes of the time-expanded network: where a request of a type can be after a batch.

Batch j is slot j of :mod:`optsched.model.network_slots`; a slot that is not used changes nothing.
After batch j (0 = before the first) an unfinished request of a type with g generated tokens is

- *waiting*: nothing of it is cached (or, for one partial fill, some tokens that are counted
  apart), at g = 0 from the start and at g >= 1 after an eviction; or
- *resident*: its I + g - 1 tokens before the last generated one are cached, g >= 1.

Every unit of flow is one request. It passes O fills or decodes, at most one per batch, so chain
lengths bound j on both sides: those windows are what keeps the network small.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optsched.model.network_slots import Slots
from optsched.model.types import RequestType

IntArray = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Window:
    """Batches ``first..last`` after which a node exists, its numbers from ``base``."""

    first: int
    last: int
    base: int

    @property
    def size(self) -> int:
        """Number of nodes; 0 if the window is empty."""
        return max(0, self.last - self.first + 1)


@dataclass(frozen=True, kw_only=True)
class Nodes:
    """Node numbers of all types; ``waiting[t][g]``, ``resident[t][g]`` are windows.

    ``sink[t]`` is the node of type t that finished requests enter, ``count`` the number of
    nodes. ``resident[t][0]`` is empty.
    """

    waiting: tuple[tuple[Window, ...], ...]
    resident: tuple[tuple[Window, ...], ...]
    sink: tuple[int, ...]
    count: int

    def source(self, type_: int, slots: int) -> int:
        """The node (waiting, 0 tokens, after so many slots) that requests of a type enter."""
        window = self.waiting[type_][0]
        return window.base + slots - window.first


def network_nodes(
    types: tuple[RequestType, ...], slots: Slots, fill_tokens: int, *, evict: bool
) -> Nodes:
    """Nodes for ``slots``, in each of which at most ``fill_tokens`` are prefilled.

    With b slots before those of the request and f = ceil(I / fill_tokens) batches for the first
    fill, token g exists after batch b + f + g - 1 at the earliest, an evicted request waits from
    the batch after that, and O - g batches must remain.
    """
    batches = slots.count
    waiting, resident, sink, count = [], [], [], 0

    def window(first: int, last: int) -> Window:
        nonlocal count
        made = Window(first=first, last=last, base=count)
        count += made.size
        return made

    for kind, before in zip(types, slots.before.tolist(), strict=True):
        first_fill = before - (-kind.prompt_tokens // fill_tokens)
        output = kind.output_tokens
        pools, held = [window(before, batches - output)], [window(1, 0)]
        for g in range(1, output):
            made, last = first_fill + g - 1, batches - (output - g)
            held.append(window(made, last))
            pools.append(window(made + 1, last if evict else made))
        waiting.append(tuple(pools))
        resident.append(tuple(held))
        sink.append(count)
        count += 1
    return Nodes(waiting=tuple(waiting), resident=tuple(resident), sink=tuple(sink), count=count)
