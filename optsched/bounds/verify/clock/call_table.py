"""Blocks of all requests as arrays: what each takes, and what it is charged by how long it takes.

A charge falls with the time that a block takes, linearly in between (``call_blocks``). It is looked
up by the time beyond the least, at the end of the entry that this lies in. And for some prices of
the machine it is known what time and charge are together at least.

Whole numbers: times 2^-24 s, costs 2^-40 s, all rounded to the weaker side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor

import numpy as np
from numpy.typing import NDArray

from optsched.bounds.verify.clock.call_blocks import SECOND, Blocks, Charge
from optsched.bounds.verify.refuted import hold
from optsched.instance import Instance
from optsched.time_pricing import MACHINE_PRICE_BITS, MEMORY_PRICE_BITS, CallPrices

IntArray = NDArray[np.int64]
PRICE = 2**MACHINE_PRICE_BITS
NEVER = 2**60
LATE = 2**43  # later than anything
LEAST_SHIFT = 12  # from 2^-40 s
HELD_BITS = 10  # of token-seconds
HELD_SHIFT = HELD_BITS + MEMORY_PRICE_BITS - 40  # of token-seconds at a price
LEVELS: IntArray = np.concatenate([  # of machine prices
    [0], np.unique(np.geomspace(2**8, 2**24, 65).astype(np.int64))
])  # fmt: skip
_FINE, _COARSE, _ENTRIES = 12, 17, 160
_MOST_BLOCKS = 100_000


@dataclass(frozen=True, eq=False)
class Table:
    """Blocks of all requests, one after the other.

    Parameters
    ----------
    first, count : int arrays, shape ``(requests,)``
        Index of a request's first block, and how many it has.
    begin : int array, shape ``(blocks,)``
        Soonest that the time before the block, with its pause, can begin.
    own, pause, held : int arrays, shape ``(blocks,)``
    swap : int array, shape ``(blocks,)``
        Charge at a price of 1 of swapping out and in.
    charge : int array, shape ``(2, blocks, entries)``
        Charge by time beyond ``own``, if the KV was kept or not.
    least : int array, shape ``(2, blocks, levels)``
        Least time beyond ``own`` and charge together at each of ``LEVELS``, 2^-28 s.
    memory : int array, shape ``(2, blocks)``
        Token-seconds of KV in 2^-10.
    """

    first: IntArray
    count: IntArray
    begin: IntArray
    own: IntArray
    pause: IntArray
    held: IntArray
    swap: IntArray
    charge: IntArray
    least: IntArray
    memory: IntArray


def slack_entry(slack: IntArray) -> IntArray:
    """Entry of a table of charges for so much time beyond the least."""
    fine, coarse = slack >> _FINE, _ENTRIES + (slack >> _COARSE)
    return np.asarray(np.where(fine < _ENTRIES, fine, np.minimum(coarse, 2 * _ENTRIES)))


class _Falling:
    """A charge by the time that is taken: linear between its falls."""

    def __init__(self, charge: Charge) -> None:
        self.charge = charge
        self.lengths = np.array([0, *(length for length, _ in charge.falls)], dtype=np.int64)
        self.falls = np.array([0, *(fall for _, fall in charge.falls)], dtype=np.int64)
        self.ends, self.fallen = np.cumsum(self.lengths), np.cumsum(self.falls)

    def after(self, time: IntArray) -> IntArray:
        """Charge of a block that takes so long."""
        left = np.clip(time - self.charge.start, 0, self.ends[-1])
        # Within the last fall that has begun, in whole or in part; of no length it is complete.
        at = np.minimum(np.searchsorted(self.ends, left, side="right"), self.ends.size - 1)
        length = np.maximum(self.lengths[at], 1)
        part = -(-self.falls[at] * (left - (self.ends[at] - self.lengths[at])) // length)
        value = self.charge.most - (self.fallen[at] - self.falls[at]) - part
        return np.asarray(np.maximum(value, 0))

    def entries(self, own: int) -> IntArray:
        """Charges for the entries of ``slack_entry``, each at its end."""
        step = np.arange(1, _ENTRIES + 1, dtype=np.int64)
        slack = np.concatenate([step << _FINE, step << _COARSE, [LATE]])
        value = self.after(own + slack)
        value[slack <= self.charge.own - own] = NEVER  # not possible in so little time
        return value

    def least(self, own: int) -> IntArray:
        """Least time beyond ``own`` and charge together at ``LEVELS``."""
        time = np.maximum(self.charge.start + self.ends, self.charge.own)
        time = np.concatenate([[self.charge.own], time])
        both = LEVELS[:, None] * self.after(time) + (time - own) * PRICE
        return np.asarray(both.min(axis=1) >> LEAST_SHIFT)


def table_of(instance: Instance, prices: CallPrices) -> Table:
    """The blocks of every request.

    Raises
    ------
    RefutedError
        There are too many, or their times and charges are too long.
    """
    blocks = Blocks(instance, prices.paces, prices.block, prices.apart)
    each = [blocks.of(request) for request in instance.requests]
    flat = [block for own in each for block in own]
    hold(len(flat) <= _MOST_BLOCKS, f"{len(flat)} blocks are too many")
    begin: list[int] = []
    start = min(Fraction(r.arrival_s) for r in instance.requests)
    for request, own in zip(instance.requests, each, strict=True):
        at = floor((Fraction(request.arrival_s) - start) * SECOND)
        for block in own:
            begin.append(at)
            at += block.pause + block.own
    hold(max(begin) < 2**42, "times are too long")
    hold(max(max(b.pause, b.own, b.kept.most) for b in flat) < 2**34, "a block is too long")
    rate = blocks.swap_rate * Fraction(instance.cost.swap_tok) * SECOND
    count = np.array([len(own) for own in each], dtype=np.int64)
    kept = [_Falling(b.kept) for b in flat]
    again = [None if b.again is None else _Falling(b.again) for b in flat]
    never = np.full(_ENTRIES * 2 + 1, NEVER)
    return Table(
        first=np.cumsum(count) - count,
        count=count,
        begin=_column(begin),
        own=_column([b.own for b in flat]),
        pause=_column([b.pause for b in flat]),
        held=_column([b.held for b in flat]),
        swap=_column([floor(2 * b.held * rate) for b in flat]),
        charge=np.stack([
            [f.entries(b.own) for f, b in zip(kept, flat, strict=True)],
            [never if f is None else f.entries(b.own) for f, b in zip(again, flat, strict=True)],
        ]),
        least=np.stack([
            [f.least(b.own) for f, b in zip(kept, flat, strict=True)],
            [0 * LEVELS if f is None else f.least(b.own) for f, b in zip(again, flat, strict=True)],
        ]),
        memory=np.stack([
            [_memory(b.kept) for b in flat], [_memory(b.again or b.kept) for b in flat]
        ]),
    )  # fmt: skip


def _column(values: Sequence[int]) -> IntArray:
    return np.array(values, dtype=np.int64)


def _memory(charge: Charge) -> int:
    tokens: int = floor(charge.memory * 2**HELD_BITS)
    return min(tokens, 2**50)
