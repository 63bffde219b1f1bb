"""What the cheapest paths under prices of time and memory use: where prices should rise or fall.

Traces the paths of ``optsched/bounds/verify/clock/call_prices.py`` forwards through the cells. A
block is taken to use the machine, and to hold KV, evenly from when it can begin to when it ends, so
this is only a guess at how the bound changes with each price.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optsched.bounds.verify.clock.call_blocks import SECOND
from optsched.bounds.verify.clock.call_prices import Paths, level_of
from optsched.bounds.verify.clock.call_table import (
    HELD_BITS,
    HELD_SHIFT,
    LEAST_SHIFT,
    LEVELS,
    NEVER,
    PRICE,
    IntArray,
    Table,
    slack_entry,
)
from optsched.time_pricing import MEMORY_PRICE_BITS, CallPrices

FloatArray = NDArray[np.float64]
KEPT, SWAPPED, AGAIN = range(3)


@dataclass(frozen=True, kw_only=True, eq=False)
class Use:
    """Of the cheapest paths.

    Parameters
    ----------
    value_s : float
        Seconds that mean latency is at least.
    machine : float array, shape ``(buckets,)``
        Charges at a price of 1 per second of the bucket.
    memory : float array, shape ``(buckets,)``
        KV tokens held in the mean.
    """

    value_s: float
    machine: FloatArray
    memory: FloatArray


class _Steps:
    """What each block uses, and from when to when."""

    def __init__(self, blocks: int) -> None:
        self.begin: IntArray = np.zeros(blocks, dtype=np.int64)
        self.end: IntArray = np.zeros(blocks, dtype=np.int64)
        self.way: IntArray = np.zeros(blocks, dtype=np.int64)
        self.charge: FloatArray = np.zeros(blocks)
        self.held: FloatArray = np.zeros(blocks)


class TracedPaths(Paths):
    """Cheapest paths that can be followed."""

    def use(self) -> Use:
        """Follow the cheapest paths from the arrivals on."""
        table, further = self.table, list[IntArray]()
        value = float(self.value_s(self.costs(further)))
        order = np.argsort(-table.count, kind="stable")
        count = table.count[order]
        steps = _Steps(table.begin.size)
        cell = np.zeros(order.size, dtype=np.int64)
        for index in range(int(count.max())):
            active = int((count > index).sum())
            block = table.first[order[:active]] + index
            begin = table.begin[block]
            latest = begin + 1
            if index:
                before = self.milestones[block - 1]
                begin = np.maximum(before + self.lower[cell[:active]], begin)
                latest = before + self.upper[cell[:active]]
            left = count[:active] - 1 - index
            rest = np.stack([further[back][row] for row, back in enumerate(left.tolist())])
            ends = self.milestones[block, None]
            cost = self._charged(
                block, begin[:, None], latest[:, None], ends + self.lower, ends + self.upper
            )
            cell[:active] = (cost + rest).argmin(axis=1)
            self._note(steps, block, begin, latest, cell[:active])
        return Use(value_s=value, machine=self._machine(steps), memory=self._memory(steps))

    def _note(
        self, steps: _Steps, block: IntArray, begin: IntArray, latest: IntArray, cell: IntArray
    ) -> None:
        """What the blocks ``block`` use that end in the cells ``cell``."""
        table = self.table
        end = self.milestones[block] + self.upper[cell]
        resumed = begin + table.pause[block]
        entry = slack_entry(np.maximum(end - resumed - table.own[block], 0))
        last = self.machine.bucket(end)
        first = np.minimum(self.machine.bucket(resumed), last)
        prices = [
            line.least(first, last, level_of(last - first + 1))
            for line in (self.machine, self.memory)
        ]  # fmt: skip
        kept, again = (self._one_way(way, block, entry, *prices) for way in (0, 1))
        until = self.memory.until(resumed)
        held = until - self.memory.until(np.clip(latest, begin, resumed))
        held = (held >> MEMORY_PRICE_BITS - 16) * table.held[block]
        swapped = np.full(block.size, NEVER)
        if self.instance.limits.host_kv_tokens:
            first = np.minimum(self.machine.bucket(begin), last)
            swapped = self.machine.least(first, last, level_of(last - first + 1))
            swapped = swapped * table.swap[block]
        way = np.where(held <= swapped, KEPT, SWAPPED)
        way[kept[0] + np.minimum(held, swapped) > again[0]] = AGAIN
        way[table.held[block] == 0] = KEPT
        steps.begin[block], steps.end[block], steps.way[block] = begin, end, way
        steps.charge[block] = np.where(way == AGAIN, again[1], kept[1])
        steps.held[block] = table.memory[np.where(way == AGAIN, 1, 0), block] / 2**HELD_BITS

    def _one_way(
        self, way: int, block: IntArray, entry: IntArray, machine: IntArray, memory: IntArray
    ) -> tuple[FloatArray, FloatArray]:
        """Cost of blocks, and the charge at a price of 1 if they take the best time of at most that
        of ``entry``."""
        level = np.searchsorted(LEVELS, machine, side="right") - 1
        level = np.minimum(level, LEVELS.size - 2)
        least = self.table.least[way][block]
        rows = np.arange(block.size)
        rise = (least[rows, level + 1] - least[rows, level]).astype(np.float64)
        best = rise * 2.0**LEAST_SHIFT / (LEVELS[level + 1] - LEVELS[level])
        most = np.minimum(self.table.charge[way][block, entry], NEVER >> 20).astype(np.float64)
        charge = np.minimum(best, most) if way == 0 else np.where(most < NEVER >> 20, best, most)
        held = self.table.memory[way][block] * (memory / 2.0**HELD_SHIFT)
        return charge * machine + held, charge

    def _machine(self, steps: _Steps) -> FloatArray:
        table = self.table
        resumed = steps.begin + table.pause
        used = self._spread(resumed, steps.end, steps.charge)
        out = steps.way == SWAPPED
        until = np.maximum(resumed, steps.begin + 1)
        used += self._spread(steps.begin[out], until[out], table.swap[out].astype(np.float64))
        return used / (1 << self.machine.bits)

    def _memory(self, steps: _Steps) -> FloatArray:
        table = self.table
        resumed = steps.begin + table.pause
        used = self._spread(resumed, steps.end, steps.held * SECOND)
        held = (table.held > 0) & (steps.way == KEPT)
        tokens = (table.held * table.pause)[held].astype(np.float64)
        used += self._spread(steps.begin[held], resumed[held], tokens)
        return used / (1 << self.machine.bits)

    def _spread(self, begin: IntArray, end: IntArray, amount: FloatArray) -> FloatArray:
        """Amounts spread evenly over times, per bucket."""
        return spread(begin, end, amount, self.machine.bits, self.machine.count)


def spread(
    begin: IntArray, end: IntArray, amount: FloatArray, bits: int, buckets: int
) -> FloatArray:
    """Amounts spread evenly from ``begin`` to ``end``, per bucket of 2 ** ``bits``."""
    scale = 2.0**-bits
    a = np.minimum(begin * scale, buckets)
    b = np.maximum(np.minimum(end * scale, buckets), a + 1e-6)
    rate = amount / (b - a)
    from_, until = a.astype(np.int64), b.astype(np.int64)
    partial, rates = np.zeros(buckets + 2), np.zeros(buckets + 3)
    np.add.at(partial, from_, rate * (from_ + 1 - a))
    np.add.at(partial, until, -rate * (until + 1 - b))
    np.add.at(rates, from_ + 1, rate)
    np.add.at(rates, until + 1, -rate)
    return np.asarray(partial[:buckets] + np.cumsum(rates)[:buckets])


def concurrency(table: Table, bits: int, buckets: int) -> FloatArray:
    """How many blocks are under way in each bucket if every request had the machine alone."""
    resumed = table.begin + table.pause
    own = table.own.astype(np.float64)
    return spread(resumed, resumed + table.own, own, bits, buckets) / (1 << bits)


def with_prices(prices: CallPrices, machine: FloatArray, memory: FloatArray) -> CallPrices:
    """``prices`` of the same grid with other prices, in seconds."""
    return CallPrices(
        bucket_bits=prices.bucket_bits, machine=_whole(machine * PRICE),
        memory=_whole(memory * 2.0**MEMORY_PRICE_BITS), paces=prices.paces, block=prices.block,
        apart=prices.apart, milestones=prices.milestones, edges=prices.edges, moves=prices.moves,
    )  # fmt: skip


def _whole(values: FloatArray) -> tuple[int, ...]:
    return tuple(np.floor(values).astype(np.int64).tolist())
