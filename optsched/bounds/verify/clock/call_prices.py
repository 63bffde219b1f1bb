"""Mean latency by prices of machine time and of memory, for requests that may make calls.

Let pi(u) >= 0 be the price of a second of the machine at time u, and lam(u) >= 0 that of a KV token
held for a second. The steps of a batch are charged at most the integral of pi over it (``paces``),
batches are disjoint, and no more than M tokens are held at any time. So

    sum (C_i - T_i) >= sum over i of min over paths [ C_i - T_i + charges ]
                       - integral of (pi + M lam)

a *path* being when each block of a request (``call_blocks``) ends and how it goes on after calls.

**Time.** What a path takes beyond the own times of its blocks and its pauses is added up over its
blocks. A block takes at least its own time, and does not end before all blocks up to it could have
ended alone, pauses included. Its end lies in one of the *cells* between the ``edges`` after its
milestone; what is after the last edge ends at any time. So a block that begins in cell a, between
P and P', and ends in cell b, between Q and Q', takes Q - P' to Q' - P. It costs at least what it
takes beyond its own time if that is Q - P', and what it is charged if it takes Q' - P, at the
lowest prices between P and Q'; and at least what the two are at least for any time that it takes,
which is concave in the price and known for some prices: in between it is no less than linear.

**Calls.** The KV of m tokens that is there during a call is held throughout, and charged m lam; or
swapped out and in again, for which two batches take swap_tok m longer; or it is evicted and all
tokens are processed again.

**Moves.** Ends in a range of cells are looked at together, and the least further cost of any of
them is added.

Whole numbers: times 2^-24 s, costs 2^-40 s, all rounded to the weaker side.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from optsched.bounds.verify.clock.call_blocks import SECOND
from optsched.bounds.verify.clock.call_table import (
    HELD_BITS,
    HELD_SHIFT,
    LATE,
    LEAST_SHIFT,
    LEVELS,
    NEVER,
    PRICE,
    IntArray,
    Table,
    slack_entry,
    table_of,
)
from optsched.bounds.verify.refuted import hold
from optsched.instance import Instance
from optsched.time_pricing import MEMORY_PRICE_BITS, CallPrices


class Timeline:
    """Prices of one kind by bucket, the last entry standing for all time after them."""

    def __init__(self, prices: tuple[int, ...], bits: int) -> None:
        self.bits, self.count = bits, len(prices)
        self.price: IntArray = np.array([*prices, 0], dtype=np.int64)
        hold(sum(prices) << bits < NEVER, "prices are too high")
        self._whole = np.concatenate([[0], np.cumsum(self.price[:-1]) << bits])
        tables = [self.price]
        for level in range(self.count.bit_length()):
            last = tables[-1]
            later = np.concatenate([last[1 << level :], np.zeros(1 << level, dtype=np.int64)])
            tables.append(np.minimum(last, later[: last.size]))
        self._tables = np.stack(tables)

    @property
    def total(self) -> int:
        """Integral of the price."""
        return int(self._whole[-1])

    def bucket(self, at: IntArray) -> IntArray:
        """Bucket of each time."""
        return np.asarray(np.minimum(at >> self.bits, self.count))

    def least(self, first: IntArray, last: IntArray, level: IntArray) -> IntArray:
        """Lowest price of the buckets from ``first`` to ``last``, 2^level <= their number."""
        table = self._tables
        return np.minimum(table[level, first], table[level, last + 1 - (1 << level)])

    def until(self, at: IntArray) -> IntArray:
        """Integral of the price from 0 to each time."""
        bucket = self.bucket(at)
        within = at - (bucket << self.bits)
        return np.asarray(self._whole[bucket] + self.price[bucket] * within)


def level_of(count: IntArray) -> IntArray:
    """floor(log2) of whole numbers from 1 to 2^52."""
    return np.asarray(np.frexp(count.astype(np.float64))[1] - 1, dtype=np.int64)


class Paths:
    """Cheapest paths of all requests at once, from the last block to the first."""

    def __init__(self, instance: Instance, prices: CallPrices, table: Table | None = None) -> None:
        self.instance = instance
        self.table = table_of(instance, prices) if table is None else table
        blocks = self.table.begin.size
        hold(len(prices.milestones) == blocks, f"{blocks} blocks have no milestone each")
        self.machine = Timeline(prices.machine, prices.bucket_bits)
        self.memory = Timeline(prices.memory, prices.bucket_bits)
        self._check_size(prices)
        self.milestones: IntArray = np.array(prices.milestones, dtype=np.int64)
        edges = np.array(prices.edges, dtype=np.int64)
        self.lower = np.concatenate([[-LATE], edges])
        self.upper = np.concatenate([edges, [LATE]])
        self.moves = [*prices.moves, self.lower.size]

    def _check_size(self, prices: CallPrices) -> None:
        """Refute what 64 bits could not hold: sums of costs, or a product in between."""
        table, machine, memory = self.table, max(prices.machine) + 1, max(prices.memory) + 1
        often = 4 * int(table.count.max())
        most = int(table.charge[table.charge < NEVER].max()) + int(table.swap.max())
        hold(most * machine * often < NEVER, "prices are too high")
        rises = np.diff(table.least.astype(np.float64), axis=2) * np.diff(LEVELS)
        hold(float(rises.max()) < NEVER, "charges are too high")
        hold(int(table.least.max()) << LEAST_SHIFT < NEVER // often, "charges are too high")
        held = int(table.held.max()) * (self.memory.total >> HELD_BITS)
        hold(held < NEVER, "prices of memory are too high")
        hold(int(table.memory.max()) * memory < NEVER, "prices of memory are too high")

    def mean_s(self) -> Fraction:
        """Seconds that mean latency is at least."""
        return self.value_s(self.costs())

    def value_s(self, costs: IntArray) -> Fraction:
        """Mean of ``costs`` and of the times that requests take alone, less what prices are paid
        for, in seconds."""
        limits = self.instance.limits
        kv_tokens = limits.block_tokens * (limits.kv_tokens // limits.block_tokens)
        paid = Fraction(self.machine.total, PRICE * SECOND)
        paid += Fraction(self.memory.total, SECOND << MEMORY_PRICE_BITS) * kv_tokens
        alone = int((self.table.own + self.table.pause).sum())
        total = Fraction(int(costs.sum()) + alone * PRICE, PRICE * SECOND)
        return (total - paid) / len(self.instance)

    def costs(self, further: list[IntArray] | None = None) -> IntArray:
        """Least cost of each request beyond what it takes alone, 2^-40 s; shape ``(requests,)``.

        Least costs by cell after each block are appended to ``further``, last blocks first, for the
        requests of most blocks.
        """
        table = self.table
        order = np.argsort(-table.count, kind="stable")
        last = table.first[order] + table.count[order] - 1
        soonest = (table.begin[last] + table.pause[last] + table.own[last])[:, None]
        rest = np.where(self.milestones[last, None] + self.upper <= soonest, NEVER, 0)
        found = np.zeros(order.size, dtype=np.int64)
        for back in range(int(table.count.max())):
            if further is not None:
                further.append(rest)
            # Those with this block as their first are the last of the ones that are left.
            active = int((table.count > back).sum())
            more = int((table.count > back + 1).sum())
            block = last[:active] - back
            found[order[more:active]] = self._first(block[more:], rest[more:active])
            rest = self._block(block[:more], rest[:more])
        return found

    def _first(self, block: IntArray, rest: IntArray) -> IntArray:
        """Least cost of requests from their arrival on, ``block`` being their first ones."""
        begin = self.table.begin[block, None]
        ends = self.milestones[block, None]
        # Arrivals were rounded down.
        cost = self._charged(block, begin, begin + 1, ends + self.lower, ends + self.upper)
        return np.asarray((cost + rest).min(axis=1))

    def _block(self, block: IntArray, rest: IntArray) -> IntArray:
        """Least cost from each cell in which ``block`` can begin, given that from its end on."""
        before = self.milestones[block - 1, None]
        soonest = self.table.begin[block, None]
        begin = np.maximum(before + self.lower, soonest)
        latest = before + self.upper
        cells = self.lower.size
        windows = Windows(rest)
        best = np.full(rest.shape, NEVER, dtype=np.int64)
        previous = -cells
        for move in self.moves:
            low = np.clip(np.arange(cells) + previous + 1, 0, cells)
            high = np.clip(np.arange(cells) + move, -1, cells - 1)
            some = np.flatnonzero(low <= high)
            previous = move
            if some.size == 0:
                continue
            ends = self.milestones[block, None]
            cost = self._charged(
                block, begin[:, some], latest[:, some],
                ends + self.lower[low[some]], ends + self.upper[high[some]],
            )  # fmt: skip
            cost += windows.least(low[some], high[some])
            best[:, some] = np.minimum(best[:, some], cost)
        best[latest <= soonest] = NEVER
        return np.minimum(best, NEVER)

    def _charged(
        self, block: IntArray, begin: IntArray, latest: IntArray, soonest: IntArray, ends: IntArray
    ) -> IntArray:
        """Least cost of blocks that begin between ``begin`` and ``latest`` and end between
        ``soonest`` and ``ends``, pauses before them included."""
        table = self.table
        pause = table.pause[block, None]
        alone = pause + table.own[block, None]
        slack = ends - begin - alone
        entry = slack_entry(np.maximum(slack, 0))
        waited = np.maximum(soonest - latest - alone, 0) * PRICE
        last = self.machine.bucket(np.maximum(ends, 0))
        first = np.minimum(self.machine.bucket(begin + pause), last)
        level = level_of(last - first + 1)
        machine, memory = (line.least(first, last, level) for line in (self.machine, self.memory))
        kept = self._priced(0, block, entry, waited, machine, memory)
        called = table.held[block] > 0
        if called.any():
            after, at = block[called], begin[called]
            first = np.minimum(self.machine.bucket(at), last[called])
            until = at + table.pause[after, None]
            latest = np.clip(np.broadcast_to(latest, ends.shape)[called], at, until)
            held = self.memory.until(until) - self.memory.until(latest)
            held = (held >> HELD_BITS) * table.held[after, None]
            held >>= MEMORY_PRICE_BITS - 16 - HELD_BITS
            if self.instance.limits.host_kv_tokens:
                price = self.machine.least(first, last[called], level_of(last[called] - first + 1))
                held = np.minimum(held, price * table.swap[after, None])
            again = self._priced(
                1, after, entry[called], waited[called], machine[called], memory[called]
            )
            kept[called] = np.minimum(kept[called] + held, again)
        kept[slack < 0] = NEVER
        return kept

    def _priced(
        self, way: int, block: IntArray, entry: IntArray, waited: IntArray, machine: IntArray,
        memory: IntArray,
    ) -> IntArray:  # fmt: skip
        charge = self.table.charge[way][block[:, None], entry]
        cost = np.where(charge < NEVER, charge * machine + waited, NEVER)
        level = np.searchsorted(LEVELS, machine, side="right") - 1
        above = np.minimum(level + 1, LEVELS.size - 1)
        least = self.table.least[way]
        low, high = least[block[:, None], level], least[block[:, None], above]
        width = np.maximum(LEVELS[above] - LEVELS[level], 1)
        low = low + (high - low) * (machine - LEVELS[level]) // width
        cost = np.maximum(cost, low << LEAST_SHIFT)
        held = self.table.memory[way][block, None] * memory
        return np.asarray(cost + (held >> HELD_SHIFT))


class Windows:
    """Least entries of windows of columns."""

    def __init__(self, values: IntArray) -> None:
        self._tables = [values]
        for level in range(values.shape[1].bit_length() - 1):
            last = self._tables[-1]
            shorter = last.shape[1] - (1 << level)
            self._tables.append(np.minimum(last[:, :shorter], last[:, 1 << level :][:, :shorter]))

    def least(self, first: IntArray, last: IntArray) -> IntArray:
        """Of columns ``first`` to ``last``, for each window."""
        found = np.empty((self._tables[0].shape[0], first.size), dtype=np.int64)
        levels = level_of(last - first + 1)
        for level in np.unique(levels).tolist():
            some = np.flatnonzero(levels == level)
            table = self._tables[level]
            ends = last[some] + 1 - (1 << level)
            found[:, some] = np.minimum(table[:, first[some]], table[:, ends])
        return found


def call_mean(instance: Instance, prices: CallPrices) -> Fraction:
    """Seconds that mean latency is at least under ``prices``.

    Raises
    ------
    RefutedError
        The prices do not fit the instance.
    """
    return Paths(instance, prices).mean_s()
