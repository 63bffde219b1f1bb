"""B10, mean latency by prices of time: the search for prices that prove much.

``optsched/bounds/verify/clock/time_prices.py`` has the argument and evaluates prices exactly. They
come from one machine that serves the least work first (offline), or from a fluid with residence
(``first_prices``), and are then moved towards where paths ask for more time than there is, where
requests are of few sizes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from optsched.bounds.clock.chains import jobs_of
from optsched.bounds.clock.first_prices import Weights, fluid_prices, machine_prices
from optsched.bounds.clock.found import Found, Question
from optsched.bounds.clock.pace_choice import PaceOptions, paces_for
from optsched.bounds.clock.price_paths import PathClass, PricePaths
from optsched.bounds.clock.request_charges import RequestCharges, request_charges
from optsched.bounds.verify.clock.paces import paces_of
from optsched.bounds.verify.clock.time_prices import priced_mean
from optsched.bounds.verify.refuted import RefutedError
from optsched.instance import Instance, IntArray
from optsched.objective import Objective
from optsched.time_pricing import TimePrices

FloatArray = NDArray[np.float64]
PRICES = "B10 time prices"
_FEW_SIZES = 64  # (I, O) up to which each is followed on its own
_ROUNDS = {"quick": 10, "normal": 120, "thorough": 300}
_BUCKETS, _CLASSES = (40, 280), (8, 60)  # least and most of the fluid
_LEAST_S, _LEAST_S_EACH = 0.5, 1e-3  # without so much time, per request, nothing is begun
_LEAST_WORK = 1e-6  # of the time that a request stays
_BEYOND = 1.05  # the horizon as a multiple of the time that the machine works
_REACH = 0.95  # of a known schedule's value, that steps aim at


@dataclass(frozen=True, kw_only=True)
class Grid:
    """How finely requests are followed.

    Parameters
    ----------
    cells : int
        Of time.
    levels : int
        Of duration of batches.
    finals, outputs : int
        Classes of I + O - 1 and O at most.
    blocks : int
        Blocks of decodes of the longest request.
    """

    cells: int
    levels: int
    finals: int
    outputs: int
    blocks: int


_COARSE = Grid(cells=2000, levels=14, finals=64, outputs=64, blocks=20)
_FINE = {
    "quick": Grid(cells=4000, levels=20, finals=64, outputs=64, blocks=20),
    "normal": Grid(cells=16_000, levels=40, finals=64, outputs=64, blocks=50),
    "thorough": Grid(cells=40_000, levels=60, finals=64, outputs=64, blocks=100),
}
_MANY = {
    "normal": Grid(cells=30_000, levels=8, finals=112, outputs=30, blocks=12),
    "thorough": Grid(cells=60_000, levels=16, finals=200, outputs=60, blocks=24),
}


def time_price_bounds(question: Question) -> dict[str, Found]:
    """B10 on mean latency; nothing where it does not apply or time does not suffice."""
    if question.objective is not Objective.MEAN_LATENCY:
        return {}
    found = weighted_prices(question, 0, 1)
    if found is None:
        return {}
    try:
        value = float(priced_mean(question.instance, found))
    except RefutedError:  # numbers beyond what the exact evaluation can hold
        return {}
    return {PRICES: Found(value=value, argument=found)}


def weighted_prices(question: Question, first: int, whole: int) -> TimePrices | None:
    """Prices for ``first`` x mean TTFT + ``whole`` x mean latency, if it applies and time suffices.

    ``target`` is that of a sum with no weight on first tokens only.
    """
    instance = question.instance
    if instance.has_calls:
        return None
    few = _sizes(instance) <= _FEW_SIZES
    if question.left_s < _LEAST_S + _LEAST_S_EACH * len(instance) * (not few):
        return None
    if not few and question.effort not in _MANY:
        return None
    largest = max(first, whole)
    weights = Weights(first=first / largest, whole=whole / largest)
    return _of_few_sizes(question, weights) if few else _of_many_sizes(question, weights)


def _sizes(instance: Instance) -> int:
    return len(set(zip(instance.prompt_tokens.tolist(), instance.output_tokens.tolist(),
                       strict=True)))  # fmt: skip


def _machine(
    instance: Instance, charges: RequestCharges, weights: Weights
) -> tuple[FloatArray, FloatArray]:
    """Prices of one machine that serves what requests are charged at the slowest pace."""
    # Not 0, which nothing takes to serve.
    least = _LEAST_WORK * charges.stay_s[:, -1]
    if not weights.first:
        work = np.maximum(charges.fill_s + charges.decodes_s[:, -1], least)
        return machine_prices(instance.release_s, work)
    fill, rest = np.maximum(charges.fill_s, least), charges.decodes_s[:, -1]
    jobs = jobs_of(instance.release_s, fill, rest, weights.first, weights.whole)
    return machine_prices(jobs.release_s, jobs.work_s, jobs.weight)


def _horizon_s(instance: Instance, charges: RequestCharges, times: FloatArray) -> float:
    """Beyond the work of the machine, and beyond what any request takes alone."""
    alone = instance.release_s + charges.stay_s.min(axis=1)
    return _BEYOND * max(float(times[-1]), float(alone.max()))


def _of_few_sizes(question: Question, weights: Weights) -> TimePrices:
    instance = question.instance
    options = PaceOptions(levels=_COARSE.levels, memory_from=1.0)
    paces = paces_of(instance.cost, instance.limits, paces_for(instance, options))
    charges = request_charges(instance, paces, [len(paces.from_units) - 1])
    times, prices = _machine(instance, charges, weights)
    horizon = _horizon_s(instance, charges, times)
    knots = _knots(instance, _COARSE.cells)
    cell_s = horizon / _COARSE.cells
    paths = PricePaths(
        paces, cell_s, _COARSE.cells, np.unique(instance.final_tokens),
        _blocks(instance, _COARSE), _each_size(instance, charges, cell_s),
        first=weights.first, whole=weights.whole,
    )  # fmt: skip
    first = np.interp(knots * cell_s, times, prices)
    moved = _moved(question, paths, knots, np.asarray(first, dtype=np.float64))
    fine = _FINE[question.effort]
    options = PaceOptions(levels=fine.levels, memory_from=1.0)
    at = np.asarray(knots * cell_s, dtype=np.float64)
    return _argument(instance, fine, options, horizon, at, moved)


def _of_many_sizes(question: Question, weights: Weights) -> TimePrices | None:
    instance, count = question.instance, len(question.instance)
    grid = _MANY[question.effort]
    grid = replace(grid, cells=min(grid.cells, 4000 + 20 * count))
    options = PaceOptions(levels=grid.levels)
    paces = paces_of(instance.cost, instance.limits, paces_for(instance, options))
    last = len(paces.from_units) - 1
    charges = request_charges(instance, paces, [last // 3, 2 * last // 3, last])
    times, prices = _machine(instance, charges, weights)
    horizon = _horizon_s(instance, charges, times)
    if not instance.offline:
        buckets, classes = int(np.clip(count // 10, *_BUCKETS)), int(np.clip(count // 4, *_CLASSES))
        fluid = fluid_prices(
            instance, charges, horizon, buckets=buckets, classes=classes,
            time_limit_s=question.left_s / 2, weights=weights,
        )  # fmt: skip
        if fluid is None:
            return None
        middle = (np.arange(buckets) + 0.5) * horizon / buckets
        times = np.concatenate([[0.0], middle, [horizon]])
        prices = np.concatenate([fluid[:1], fluid, [0.0]])
        return _argument(instance, grid, options, horizon, times, prices)
    knots = _knots(instance, grid.cells)
    at = knots * horizon / grid.cells
    between = np.asarray(np.interp(at, times, prices), dtype=np.float64)
    return _argument(instance, grid, options, horizon, np.asarray(at, dtype=np.float64), between)


def _knots(instance: Instance, cells: int) -> IntArray:
    """Cells between which prices are linear: closer at the beginning if everything is there."""
    even = np.linspace(0, cells, 60 if instance.offline else 200)
    dense = np.geomspace(1, cells + 1, 100) - 1 if instance.offline else even
    return np.unique(np.concatenate([even, dense]).round().astype(np.int64))


def _each_size(instance: Instance, charges: RequestCharges, cell_s: float) -> list[PathClass]:
    """A class per I and O."""
    finals = np.unique(instance.final_tokens)
    # Packed, as np.unique over an axis turns a keyboard interrupt into a TypeError.
    shapes = instance.prompt_tokens * (instance.output_tokens.max() + 1) + instance.output_tokens
    _, first, of = np.unique(shapes, return_index=True, return_inverse=True)
    cell = np.minimum(instance.release_s / cell_s, _COARSE.cells).astype(np.int64)
    return [
        PathClass(
            final=int(np.searchsorted(finals, instance.final_tokens[request])),
            decodes=int(instance.output_tokens[request]) - 1,
            fill_cells=max(0, int(np.ceil(charges.fill_stay_s[request] / cell_s)) - 1),
            fill_charge_s=float(charges.fill_s[request]),
            arrivals=np.bincount(cell[of.ravel() == k], minlength=_COARSE.cells + 1),
        )
        for k, request in enumerate(first.tolist())
    ]


def _moved(question: Question, paths: PricePaths, knots: IntArray, first: FloatArray) -> FloatArray:
    """Prices at the knots after some subgradient steps; the best that were found."""
    count, cell_s, cells = len(question.instance), paths.cell_s, paths.cells
    at = np.arange(cells)
    left = np.minimum(np.searchsorted(knots, at, side="right") - 1, knots.size - 2)
    right = (at - knots[left]) / np.diff(knots)[left]

    def at_knots(values: FloatArray) -> FloatArray:
        lower = np.bincount(left, weights=values * (1 - right), minlength=knots.size)
        upper = np.bincount(left + 1, weights=values * right, minlength=knots.size)
        return np.asarray(lower + upper)

    mass = at_knots(np.full(cells, cell_s))
    price, best, best_value, size, failed = first, first, -np.inf, 1.0, 0
    aim = None if question.target is None or question.subject_to else _REACH * question.target
    for _ in range(_ROUNDS[question.effort]):
        by_cell = np.append(np.interp(at, knots, price), 0.0)
        total, use = paths.value_and_use(by_cell)
        value = (total - float(by_cell.sum()) * cell_s) / count
        failed += 1
        if value > best_value:
            best, best_value, failed = price, value, 0
        elif failed >= 4:
            size, failed, price = size / 2, 0, best
        if question.left_s <= 0:
            break
        slope = at_knots(use[:cells] - cell_s)
        steep = float((slope * slope / mass).sum())
        if steep <= 0:
            break
        missing = max((aim or 1.1 * best_value) - value, 0.02 * abs(best_value))
        price = np.maximum(price + size * missing * count / steep * slope / mass, 0.0)
    return best


def _argument(
    instance: Instance, grid: Grid, options: PaceOptions, horizon_s: float, times: FloatArray,
    prices: FloatArray,
) -> TimePrices:  # fmt: skip
    """Prices at ``times``, in whole numbers on the cells of ``grid``."""
    cells, last = np.unique((times / horizon_s * grid.cells).round().astype(int), return_index=True)
    bits = max(0, min(12, 24 - int(np.ceil(np.log2(max(float(prices.max()), 1.0))))))
    whole = np.maximum(prices[last] * 2.0**bits, 0).astype(np.int64)
    if cells[0] != 0:
        cells, whole = np.append(0, cells), np.append(whole[0], whole)
    return TimePrices(
        cell_s=horizon_s / grid.cells, knots=tuple(cells.tolist()), prices=tuple(whole.tolist()),
        price_bits=bits, paces=paces_for(instance, options),
        finals=_representatives(instance.final_tokens, grid.finals),
        outputs=_representatives(instance.output_tokens, grid.outputs),
        blocks=_blocks(instance, grid),
    )  # fmt: skip


def _representatives(sizes: IntArray, most: int) -> tuple[int, ...]:
    """At most so many of the sizes, the least and the largest among them, at equal quantiles."""
    distinct = np.unique(sizes)
    if distinct.size > most:
        spread = np.quantile(sizes, np.linspace(0, 1, most), method="nearest")
        distinct = np.unique(spread)
    return tuple(distinct.astype(int).tolist())


def _blocks(instance: Instance, grid: Grid) -> tuple[int, ...]:
    longest = int(instance.output_tokens.max()) - 1
    ends = np.linspace(0, longest, min(grid.blocks, longest) + 1).round().astype(int)
    return tuple(np.unique(ends).tolist())
