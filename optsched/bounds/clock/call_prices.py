"""Mean latency of requests that may make calls, by prices of machine time and of memory.

``optsched/bounds/verify/clock/call_prices.py`` has the argument and evaluates prices exactly. They
begin at what they are if as many requests run at any time as would if each had the machine alone: k
decodes of work w in each batch, alpha + k w long, are what is cheapest at a price of k^2 w / alpha.
Then they are raised where paths use more than there is, and lowered where they use less.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from optsched.bounds.clock.call_paces import call_paces
from optsched.bounds.clock.call_paths import TracedPaths, Use, concurrency, with_prices
from optsched.bounds.clock.first_prices import machine_prices
from optsched.bounds.clock.found import Found, Question
from optsched.bounds.clock.pace_choice import mean_resident
from optsched.bounds.verify.clock.call_table import Table, table_of
from optsched.bounds.verify.refuted import RefutedError
from optsched.errors import InvalidInputError
from optsched.instance import Instance
from optsched.objective import Objective
from optsched.time_pricing import MOST_MOVES, UNITS_PER_S, CallPrices

FloatArray = NDArray[np.float64]
CALL_PRICES = "B10 call prices"
_ROUNDS = {"quick": 0, "normal": 6, "thorough": 60}
_SCALES = {"quick": (1.0,), "normal": (0.5, 1.0, 2.0), "thorough": (0.35, 0.7, 1.0, 1.4, 2.0)}
_LEAST_S, _LEAST_S_EACH = 0.2, 1e-2  # without so much time, per request, nothing is begun
_BLOCK, _APART = 64, 64
_SMOOTH = 1.0  # of prices, as a multiple of the mean time that a request takes alone
_BUCKETS_EACH = 16  # in that time
_MOST_BUCKETS = 20_000
_BEYOND = 1.3  # the horizon as a multiple of the last end if each had the machine alone
_STEP, _SLOWER = 0.5, 8.0  # of the first round; rounds after which steps are half as long
_MOST_PRICE = 200.0


@dataclass(frozen=True, kw_only=True)
class Grid:
    """How finely paths are followed, in multiples of the mean time a request takes alone.

    Parameters
    ----------
    cell : float
        Least length of a cell.
    growth : float
        Length of later cells over how late they are.
    latest : float
        Where the last cell begins.
    move : float
        Ratio of successive moves.
    """

    cell: float = 0.008
    growth: float = 0.02
    latest: float = 7.0
    move: float = 1.2


def call_price_bounds(question: Question) -> dict[str, Found]:
    """The bound on mean latency where requests make calls; nothing if time does not suffice."""
    if question.objective is not Objective.MEAN_LATENCY or not question.instance.has_calls:
        return {}
    if question.left_s < _LEAST_S + _LEAST_S_EACH * len(question.instance):
        return {}
    try:
        value, prices = _Search(question).best()
    except (RefutedError, InvalidInputError):  # more than the exact evaluation can hold
        return {}
    return {CALL_PRICES: Found(value=value, argument=prices)}


class _Search:
    def __init__(self, question: Question) -> None:
        self.question, self.instance = question, question.instance
        grid = CallPrices(
            bucket_bits=4, machine=(0,), memory=(0,), paces=call_paces(self.instance),
            block=_BLOCK, apart=_APART, milestones=(0,), edges=(0,), moves=(0,),
        )  # fmt: skip
        self.table: Table = table_of(self.instance, grid)
        ends = self.table.begin + self.table.pause + self.table.own
        each = max(float(self.table.own.sum()) / len(self.instance), 2.0**8)
        self.served = machine_prices(self.instance.release_s, self._work_s())
        served = float(self.served[0][-1]) * UNITS_PER_S
        horizon = _BEYOND * max(float(ends.max()), served)
        bits = int(np.log2(max(each / _BUCKETS_EACH, horizon / _MOST_BUCKETS, 2.0**4)))
        self.buckets = (int(horizon) >> bits) + 1
        self.half = max(1, int(_SMOOTH * each / 2**bits / 2))
        edges, moves = self._cells(served, each)
        self.grid = CallPrices(
            bucket_bits=bits, machine=(0,), memory=(0,), paces=grid.paces, block=_BLOCK,
            apart=_APART, milestones=tuple(ends.tolist()), edges=edges, moves=moves,
        )  # fmt: skip
        self.found: tuple[float, CallPrices] | None = None

    def _cells(self, served: float, each: float) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Edges and moves, fewer where there are many blocks."""
        grid = Grid(latest=max(Grid().latest, served / each))
        edges, moves = _cells(grid, each)
        while self.table.begin.size * (len(edges) + 1) * (len(moves) + 1) > MOST_MOVES:
            if grid.growth > 1:
                break
            grid = replace(
                grid, cell=2 * grid.cell, growth=2 * grid.growth, move=1.5 * grid.move - 0.5
            )  # fmt: skip
            edges, moves = _cells(grid, each)
        return edges, moves

    def best(self) -> tuple[float, CallPrices]:
        """The best value, and the prices that prove it."""
        effort, none = self.question.effort, np.zeros(self.buckets)
        tried = []
        for machine in self._first(_SCALES[effort]):
            tried.append((self._try(machine, none), machine))
            if self._out_of_time():
                break
        use, machine = max(tried, key=lambda pair: pair[0].value_s)
        memory = none
        for index in range(_ROUNDS[effort]):
            if self._out_of_time():
                break
            machine, memory = self._moved(use, machine, memory, _STEP / (1 + index / _SLOWER))
            use = self._try(machine, memory)
        assert self.found is not None
        return self.found

    def _first(self, scales: tuple[float, ...]) -> Iterator[FloatArray]:
        """Prices to begin with."""
        running = concurrency(self.table, self.grid.bucket_bits, self.buckets)
        shared = smooth(smooth(running, self.half), self.half) ** 2 * _work_share(self.instance)
        middle = (np.arange(self.buckets) + 0.5) * 2.0**self.grid.bucket_bits / UNITS_PER_S
        served = np.interp(middle, *self.served, right=0.0)
        for scale in scales:
            yield np.minimum(scale * shared, _MOST_PRICE)
        for scale in scales:
            if scale <= 1:
                yield np.minimum(scale * served, _MOST_PRICE)

    def _work_s(self) -> FloatArray:
        """What each request is charged at least, at a price of 1; shape ``(requests,)``."""
        least = self.table.charge[0, :, -1].astype(np.float64) + 2.0**4
        return np.asarray(np.add.reduceat(least, self.table.first) / UNITS_PER_S)

    def _out_of_time(self) -> bool:
        target = self.question.target
        reached = target is not None and self.found is not None and self.found[0] >= target
        return reached or self.question.left_s <= 0

    def _try(self, machine: FloatArray, memory: FloatArray) -> Use:
        prices = with_prices(self.grid, machine, memory)
        use = TracedPaths(self.instance, prices, self.table).use()
        if self.found is None or use.value_s > self.found[0]:
            self.found = use.value_s, prices
        return use

    def _moved(
        self, use: Use, machine: FloatArray, memory: FloatArray, step: float
    ) -> tuple[FloatArray, FloatArray]:
        """Prices moved towards where paths use what there is."""
        more = smooth(smooth(np.clip(use.machine - 1, -1, 2), self.half), self.half)
        machine = machine * np.exp(step * more) + 0.01 * step * np.maximum(more, 0)
        kv_tokens = self.instance.limits.kv_tokens
        more = smooth(np.clip(use.memory / kv_tokens - 1, -1, 2), self.half)
        memory = memory * np.exp(step * more) + 0.05 * step / kv_tokens * np.maximum(more, 0)
        return np.minimum(machine, _MOST_PRICE), np.minimum(memory, _MOST_PRICE / kv_tokens)


def _cells(grid: Grid, each: float) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Edges of cells, and moves between them."""
    edges = [0.0]
    while edges[-1] < grid.latest:
        edges.append(edges[-1] + max(grid.cell, grid.growth * edges[-1]))
    moves = [0, 1, 2, 3, 4]
    while moves[-1] < len(edges):
        moves.append(max(moves[-1] + 1, int(moves[-1] * grid.move)))
    back = [-(2**k) for k in range(6, -1, -1)]
    return tuple(sorted({int(x * each) for x in edges})), (*back, *moves[:-1])


def _work_share(instance: Instance) -> float:
    """w / alpha of a decode at mean KV in a short batch."""
    cost = instance.cost
    alpha, beta = max(instance.cost.pieces, key=lambda piece: piece[0] + piece[1])
    work = beta + cost.d_req + cost.d_kv * mean_resident(instance)
    return work / max(alpha, work)


def smooth(values: FloatArray, half: int) -> FloatArray:
    """Means over ``half`` entries to either side."""
    padded = np.concatenate([[0.0], np.cumsum(np.pad(values, half, mode="edge"))])
    return np.asarray((padded[2 * half + 1 :] - padded[: -2 * half - 1]) / (2 * half + 1))
