"""B10: mean latency by prices of time.

Let pi(u) >= 0 be the price of a second of the machine at time u. The steps of a batch are charged
at most the integral of pi over it (``paces``), and batches are disjoint. So, C_i the end and T_i
the arrival of request i,

    sum (C_i - T_i) >= sum over i of min over paths [ C_i - T_i + charges ] - integral of pi

a *path* being a fill and O - 1 decodes one after the other, each in a batch whose duration the
request chooses. For mean TTFT the path is the fill alone. For a weighted sum of both, u the weight
of first tokens and v that of ends, a path costs u (F_i - T_i) + v (C_i - T_i) + charges: a second
costs u + v until the fill has ended, and v from then on.

**Cells.** Time is cut into cells and rounded down to them: a stretch from cell a to cell a + d took
at most d + 1 cells, and the d of a path add up to C_i - T_i but for less than one cell. What is
charged in it is charged at the lowest price of cells a to a + d at least.

**Stretches.** A path is a fill, then blocks of decodes, with waiting at no charge before any of
them. A block of L tokens takes at least L times the least duration of a pace; between two paces its
charge is at least that of L tokens in the time up to the latter. So it is enough to look at the
shortest stretch between two paces: a longer one from a to b at the same charge, at its lowest price
in cell m, costs no less than to wait until m (or until the shortest stretch ends at b), take the
shortest stretch there, and wait until b.

**Classes.** Requests of equal I + O - 1 and decodes left are at the same point of their paths, so
one recursion over blocks serves all O; a request whose O lies between classes is followed through
its last decodes only, those before being a stretch of their own where first tokens count, else one
with the fill. In I + O - 1 the charges are concave (least of linear ones), so is the cheapest path,
and so a request between two classes costs at least what lies between their costs.

All numbers are whole: a cell of time is ``CELL`` units, charges are rounded down.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction
from math import ceil, floor
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from optsched.bounds.verify.clock.paces import UNITS, block_charge, paces_of
from optsched.bounds.verify.refuted import hold
from optsched.bounds.verify.steps import steps_of
from optsched.bounds.verify.units import cost_doubles, units_for
from optsched.instance import Instance
from optsched.time_pricing import TimePrices

IntArray = NDArray[np.int64]
Number = TypeVar("Number", np.int64, np.float64)
CELL = 2**26
_SAFE = 2**61
_PARTS = 2**8  # of the way between two classes
_AHEAD = 512  # cells in which a fill is first looked for


def priced_mean(
    instance: Instance, prices: TimePrices, *, first: int = 0, whole: int = 1
) -> Fraction:
    """Seconds that ``first`` x mean TTFT + ``whole`` x mean latency is at least.

    Prices are those of a sum whose larger weight is 1.

    Raises
    ------
    RefutedError
        The prices do not fit the instance.
    """
    return _Paths(instance, prices, first, whole).mean_s()


class Timeline:
    """Prices by cell. Entry H stands for every cell from H on, where time costs nothing."""

    def __init__(self, prices: TimePrices) -> None:
        self.cells = prices.knots[-1]
        at = np.arange(self.cells, dtype=np.int64)
        knots, values = np.array(prices.knots), np.array(prices.prices)
        self.price: IntArray = np.zeros(self.cells + 1, dtype=np.int64)
        if self.cells:
            left = np.searchsorted(knots, at, side="right") - 1
            rise = (values[left + 1] - values[left]) * (at - knots[left])
            self.price[:-1] = values[left] + rise // (knots[left + 1] - knots[left])
        self._least = [self.price]

    def least(self, cells: int) -> IntArray:
        """Lowest price of the cells a to a + ``cells`` for every a."""
        width = min(cells, self.cells) + 1
        level = width.bit_length() - 1
        while len(self._least) <= level:
            last = self._least[-1]
            self._least.append(np.minimum(last, ahead(last, 1 << (len(self._least) - 1))))
        table = self._least[level]
        return np.minimum(table, ahead(table, width - (1 << level)))


def ahead(values: NDArray[Number], cells: int) -> NDArray[Number]:
    """Entries so many cells later; past the last one they stay the same."""
    if not cells:
        return values
    later = np.empty_like(values)
    kept = max(0, values.shape[-1] - cells)
    later[..., :kept] = values[..., values.shape[-1] - kept :]
    later[..., kept:] = values[..., -1:]
    return later


class _Paths:
    def __init__(self, instance: Instance, prices: TimePrices, first: int, whole: int) -> None:
        hold(not instance.has_calls, "prices of time do not cover calls")
        self.instance = instance
        self.prices = prices
        self.weights, self.unit = first + whole, max(first, whole)
        # What a cell of time costs after the first token, and before it.
        self.later = CELL * whole // self.unit
        self.sooner = self.later + CELL * first // self.unit
        self.merged = not first
        self.first_tokens = not whole
        self.cell_s = Fraction(prices.cell_s)
        self.time = Timeline(prices)
        self.paces = paces_of(instance.cost, instance.limits, prices.paces)
        # Charges count UNITS per second at one unit of price, costs CELL per cell.
        self.rate = Fraction(CELL, 2**prices.price_bits) / (self.cell_s * UNITS)
        self.most_units = floor(self.cell_s * UNITS) + 1
        self.finals = list(prices.finals)
        lengths = [r.output_tokens for r in instance.requests]
        sizes = [r.final_tokens for r in instance.requests]
        hold(
            self.finals[0] <= min(sizes) and max(sizes) <= self.finals[-1],
            "a final KV size is in no class",
        )
        hold(1 <= prices.outputs[0] <= min(lengths), "an output length is in no class")
        # Costs stay below the sum of one stretch per block and of waiting to the last cell.
        self.most = _SAFE // _PARTS // (len(prices.blocks) + 2)
        slowest = max(lengths) * self.paces.from_units[-1] // self.most_units
        hold((self.time.cells + slowest) * self.sooner < self.most, "too many cells")
        cells = np.arange(self.time.cells + 1, dtype=np.int64)
        self.waited, self.stayed = cells * self.sooner, cells * self.later
        start = min(r.arrival_s for r in instance.requests)
        self.release = [Fraction(r.arrival_s) - Fraction(start) for r in instance.requests]

    def mean_s(self) -> Fraction:
        """(sum of path costs - integral of prices - what arrivals were rounded by) / requests."""
        cells = [floor(release / self.cell_s) for release in self.release]
        alike: dict[int, dict[tuple[int, int, int], int]] = {}
        for r, cell in zip(self.instance.requests, cells, strict=True):
            output = self.prices.outputs[bisect_right(self.prices.outputs, r.output_tokens) - 1]
            of_class = alike.setdefault(output, defaultdict(int))
            of_class[r.prompt_tokens, r.final_tokens, cell] += 1
        total = 0
        fill = self._fills()
        for output, decodes in self._decodes(sorted(alike)):
            for (prompt, final, cell), count in alike[output].items():
                first, more = fill[prompt], self._more(prompt, final - output + 1)
                if self.merged:
                    first, more = (first[0] + more[0], first[1] + more[1]), (Fraction(0),) * 2
                rest = self._between(decodes, final)
                extra = self._stretch(*more) if more[0] and not self.first_tokens else None
                total += count * self._fill(*self._stretch(*first), extra, rest, cell)
        paid = Fraction(int(self.time.price.sum()), 2**self.prices.price_bits) * self.cell_s
        rounded = sum(self.release, Fraction(0)) - sum(cells) * self.cell_s
        seconds = (Fraction(total, CELL) * self.cell_s - paid) * self.unit - rounded * self.weights
        return seconds / len(self.instance)

    def _decodes(self, outputs: list[int]) -> Iterator[tuple[int, IntArray]]:
        """For each class of output lengths what its decodes cost from each cell on, by class of
        final sizes; shape ``(finals, cells + 1)``."""
        cost: IntArray = np.zeros((len(self.finals), self.time.cells + 1), dtype=np.int64)
        done, ends = 0, list(self.prices.blocks[1:])
        for output in outputs:
            while not self.first_tokens and ends and ends[0] <= output - 1:
                cost, done = self._block(cost, done, ends[0]), ends.pop(0)
            if self.first_tokens or done == output - 1:
                yield output, cost
            else:
                yield output, self._block(cost, done, output - 1)

    def _block(self, after: IntArray, left: int, end: int) -> IntArray:
        """Cost from each cell on with ``end`` decodes left, given that with ``left``."""
        tokens = end - left
        segments = [self.paces.segments(f - end + 1, f - left) for f in self.finals]
        starts = {
            max(0, -(-tokens * t // self.most_units) - 1) for t in self.paces.from_units
        }  # fmt: skip
        stretches = sorted(starts)
        best = np.full(after.shape, _SAFE, dtype=np.int64)
        for k, cells in enumerate(stretches):
            most = stretches[k + 1] * self.most_units if k + 1 < len(stretches) else None
            charges = [self._scaled(block_charge(s, tokens, most)) for s in segments]
            cost = np.array(charges, dtype=np.int64)[:, None] * self.time.least(cells)
            cost += ahead(after, cells)
            cost += cells * self.later
            np.minimum(best, cost, out=best)
        best += self.stayed
        best = np.minimum.accumulate(best[:, ::-1], axis=1)[:, ::-1]
        return np.asarray(best - self.stayed)

    def _scaled(self, charge: int) -> int:
        scaled = floor(charge * self.rate)
        hold(abs(scaled) * max(self.prices.prices) < self.most, "prices are too high")
        return scaled

    def _between(self, decodes: IntArray, final: int) -> tuple[IntArray, int, IntArray, int]:
        """Costs of the classes around a final size, and the weight of each."""
        above = min(bisect_right(self.finals, final), len(self.finals) - 1)
        below = max(0, above - 1)
        span = max(1, self.finals[above] - self.finals[below])
        # Charges grow with the size, so it may be rounded down.
        part = min(span, final - self.finals[below]) * _PARTS // span
        return decodes[below], _PARTS - part, decodes[above], part

    def _fill(
        self, cells: int, charge: int, extra: tuple[int, int] | None,
        rest: tuple[IntArray, int, IntArray, int], start: int,
    ) -> int:  # fmt: skip
        """Cost of one request from its arrival in cell ``start`` on: its fill, a stretch ``extra``
        of decodes if there is one, and the rest."""
        last = self.time.cells
        start, looked = min(start, last), _AHEAD
        price = self.time.least(cells)
        beyond = self.sooner if extra is None else self.later
        while True:
            stop = min(last + 1, start + looked)
            end = np.minimum(np.arange(start + cells, stop + cells), last)
            cost = self._rest(rest, end) if extra is None else self._extra(*extra, rest, end)
            cost += charge * price[start:stop] + self.waited[: stop - start]
            best = int(cost.min()) + cells * self.sooner
            if stop > last or best <= looked * beyond:
                return best
            looked *= 8

    @staticmethod
    def _rest(rest: tuple[IntArray, int, IntArray, int], end: IntArray) -> IntArray:
        below, near, above, far = rest
        return np.asarray((near * below[end] + far * above[end]) // _PARTS)

    def _extra(
        self, cells: int, charge: int, rest: tuple[IntArray, int, IntArray, int], begin: IntArray
    ) -> IntArray:
        """Cost from the consecutive cells ``begin`` on, until one of which to wait."""
        end = np.minimum(begin + cells, self.time.cells)
        cost = self._rest(rest, end) + charge * self.time.least(cells)[begin]
        waited = self.stayed[: begin.size]
        cost += waited
        best = np.minimum.accumulate(cost[::-1])[::-1]
        return np.asarray(best - waited + cells * self.later)

    def _fills(self) -> dict[int, tuple[Fraction, Fraction]]:
        """Seconds that a first fill takes, and what it is charged at a price of 1, by prompt.

        A fill in one batch takes alpha + beta I and its attention under every piece, and in several
        no less where alpha >= 0.
        """
        cost, limits, paces = self.instance.cost, self.instance.limits, self.paces
        units = units_for(cost_doubles(cost), limits.kv_tokens // limits.block_tokens)
        steps = steps_of(cost, limits.fill_tokens, units, token=0)
        pieces = [(Fraction(alpha), Fraction(beta)) for alpha, beta in cost.pieces]
        found = {}
        for prompt in {r.prompt_tokens for r in self.instance.requests}:
            attention = units.seconds(steps.fill(prompt))
            whole = [alpha + beta * prompt for alpha, beta in pieces if alpha >= 0]
            charge = (paces.fill_token + paces.fill_memory) * prompt
            charge += paces.fill_attention * attention
            found[prompt] = (max(whole, default=Fraction(0)) + attention, charge)
        return found

    def _more(self, prompt: int, reached: int) -> tuple[Fraction, Fraction]:
        """Seconds and charge of the decodes up to ``reached`` KV tokens as one stretch, at the
        shortest and the cheapest pace."""
        tokens = reached - prompt
        if not tokens:
            return Fraction(0), Fraction(0)
        least = self.paces.least(prompt + 1) + self.paces.least(reached)
        time_s = tokens * Fraction(self.paces.from_units[0], UNITS)
        return time_s, Fraction(tokens * least, 2 * UNITS)

    def _stretch(self, time_s: Fraction, charge_s: Fraction) -> tuple[int, int]:
        """Cells and scaled charge."""
        cells = max(0, ceil(time_s / self.cell_s) - 1)
        hold(cells * self.sooner < self.most, "cells are too short")
        return cells, self._scaled(floor(charge_s * UNITS))
