"""Prices of time that bound goodput; ``verify.clock.goodput`` has the argument.

Time is cut at arrivals and deadlines where they are few, else evenly. Given the charges, the best
prices are a linear program: with L_b the length and pi_b the price of interval b, least prices m of
the spans that occur, and s the surplus of n_c requests of class c,

    min sum L_b pi_b + sum n_c s_c
    s_c >= weight_c - first_c m_span - rest_c m_span',  m_span <= pi_b

Requests of equal spans and about equal charges make a class; the bound is then evaluated exactly,
for each request by itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from optsched.bounds.clock.charges import Charging
from optsched.bounds.clock.found import Found, Question
from optsched.bounds.verify.clock.goodput import possible
from optsched.bounds.verify.clock.times import Clock
from optsched.bounds.verify.units import cost_doubles, units_for
from optsched.bounds.verify.verdict import proven_value
from optsched.bounds.verify.workload import Workload
from optsched.clock_certificate import PricedWork, Shares
from optsched.instance import Instance
from optsched.line import Line
from optsched.model.milp import Milp, block
from optsched.objective import Objective
from optsched.solvers.lp import solve_lp
from optsched.solvers.outcome import SolverOptions

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
_FEW_EDGES = 60
_INTERVALS = {"quick": 60, "normal": 200, "thorough": 600}
_CLASSES = 40  # of charges, per pair of spans
_UNIT_BITS = 60
_MOST_SHARES = {"quick": 1, "normal": 4, "thorough": 8}
_PARTS = 4


@dataclass(frozen=True, kw_only=True, eq=False)
class Candidates:
    """The requests that can meet their objectives, all of shape ``(candidates,)``.

    ``since`` and ``until`` have shape ``(candidates, 2)``: when the first fill and when the rest
    may be processed, on the instance's clock; infinite if there is no limit.
    """

    request: IntArray
    weight: FloatArray
    since: FloatArray
    until: FloatArray


def goodput_bounds(question: Question) -> dict[str, Found]:
    """Requests that can meet their objectives alone, and the best prices of time."""
    instance, charging = question.instance, Charging(question.instance)
    chosen = _candidates(instance)
    anything = charging.lines[0], Shares(setups=1)
    free = _priced(anything, np.zeros(1), np.array([0.0, 1.0]))
    found = {"alone": _found(instance, free)}
    limited = chosen.weight.size and np.isfinite(chosen.until[:, 1]).any()
    if not limited:
        return found
    edges = _edges(chosen, _INTERVALS[question.effort])
    tried: list[Found] = []
    for line, shares in _promising(charging, chosen)[: _MOST_SHARES[question.effort]]:
        if tried and question.left_s <= 0:
            break
        charges = charging(line, shares)
        costs = np.stack((charges.first, charges.whole - charges.first), axis=1)[chosen.request]
        prices = best_prices(chosen, costs, edges, question.left_s)
        if prices is not None:
            tried.append(_found(instance, _priced((line, shares), prices, edges)))
    if tried:
        found["priced time"] = min(tried, key=lambda part: part.value)
    return found


def _found(instance: Instance, argument: PricedWork) -> Found:
    value = float(proven_value(instance, Objective.GOODPUT, argument))
    return Found(value=value, argument=argument)


def _priced(under: tuple[Line, Shares], prices: FloatArray, edges: FloatArray) -> PricedWork:
    line, shares = under
    whole = tuple(int(price * 2.0**_UNIT_BITS) for price in prices)
    starts = tuple(edges[:-1].tolist())
    return PricedWork(
        line=line, shares=shares, starts_s=starts, end_s=float(edges[-1]), prices=whole,
        unit_bits=_UNIT_BITS,
    )  # fmt: skip


def _candidates(instance: Instance) -> Candidates:
    """Spans as the exact check has them, their ends rounded up."""
    workload = Workload(instance.requests, instance.limits, instance.cost)
    pauses = [call.duration_s for r in instance.requests for call in r.calls]
    units = units_for([*cost_doubles(instance.cost), *pauses], workload.cap)
    rows, since, until = [], [], []
    for i, spans in possible(Clock(workload, units, Objective.GOODPUT)):
        rows.append(i)
        since.append([float(span[0]) for span in spans])
        until.append(
            [math.inf if end is None else math.nextafter(float(end), math.inf) for _, end in spans]
        )
    weights = instance.weights
    return Candidates(
        request=np.array(rows, dtype=np.int64), weight=weights[rows].astype(np.float64),
        since=np.array(since).reshape(-1, 2), until=np.array(until).reshape(-1, 2),
    )  # fmt: skip


def _edges(chosen: Candidates, most: int) -> FloatArray:
    """Where the intervals of time begin and end."""
    ends = chosen.until[np.isfinite(chosen.until)]
    moments = np.unique(np.concatenate((chosen.since[:, 0], ends)))
    if moments.size <= _FEW_EDGES:
        return np.asarray(moments, dtype=np.float64)
    even = np.linspace(moments[0], moments[-1], most + 1)
    return np.unique(even)


def _promising(charging: Charging, chosen: Candidates) -> list[tuple[Line, Shares]]:
    """Lines and shares by how little weight fits into the whole time from the first arrival to the
    last deadline, mixtures of memory and tokens included."""
    ends = chosen.until[np.isfinite(chosen.until[:, 1]), 1]
    span = float(ends.max() - chosen.since[:, 0].min())
    mixed = [
        Shares(memory=_PARTS - tokens - prefill, tokens=tokens, prefill=prefill)
        for tokens, prefill in product(range(_PARTS + 1), repeat=2)
        if tokens + prefill <= _PARTS
    ]
    rated = []
    for line in charging.lines:
        for shares in (*mixed, *charging.corners[3:]):
            work = charging(line, shares).whole[chosen.request]
            order = np.argsort(work / np.maximum(chosen.weight, 1e-300))
            fits = np.cumsum(work[order]) <= span
            rated.append((float(chosen.weight[order][fits].sum()), float(-work.sum())))
    pairs = list(product(charging.lines, (*mixed, *charging.corners[3:])))
    return [pairs[k] for k in sorted(range(len(pairs)), key=rated.__getitem__)]


def best_prices(
    chosen: Candidates, costs: FloatArray, edges: FloatArray, time_limit_s: float
) -> FloatArray | None:
    """Prices of the intervals between ``edges`` that bound the weight best, up to the sizes of
    classes; ``costs``, shape ``(candidates, 2)``, are seconds of the first fill and of the rest.

    None if the program is not solved in time.
    """
    intervals = edges.size - 1
    start = np.searchsorted(edges, chosen.since, side="right") - 1
    stop = np.minimum(np.searchsorted(edges, chosen.until), intervals)
    stop = np.maximum(stop, start + 1)
    outside = (start < 0) | (chosen.until > edges[-1]) | (start >= intervals)
    start, stop = np.where(outside, 0, start), np.where(outside, 0, stop)
    # Packed, as np.unique over an axis turns a keyboard interrupt into a TypeError.
    packed, of_span = np.unique((start * (intervals + 1) + stop).ravel(), return_inverse=True)
    spans = np.stack(np.divmod(packed, intervals + 1), axis=1)
    rows, count = _classes(chosen.weight, costs, of_span.reshape(-1, 2))
    classes = int(count.size)
    weight = np.bincount(rows, chosen.weight, classes) / count
    mean = np.stack([np.bincount(rows, costs[:, k], classes) / count for k in (0, 1)], axis=1)
    member = np.zeros(classes, dtype=np.int64)
    member[rows] = np.arange(rows.size)
    used = of_span.reshape(-1, 2)[member]
    # Columns: prices, least prices of spans, surpluses of classes.
    columns = intervals + len(spans) + classes
    surplus = np.arange(classes)
    own = block(
        "surplus",
        np.concatenate((surplus, surplus, surplus)),
        np.concatenate((
            intervals + len(spans) + surplus, intervals + used[:, 0], intervals + used[:, 1]
        )),
        np.concatenate((np.ones(classes), mean[:, 0], mean[:, 1])),
        weight, np.full(classes, np.inf),
    )  # fmt: skip
    lengths = spans[:, 1] - spans[:, 0]
    span_rows = np.repeat(np.arange(len(spans)), lengths)
    first = np.concatenate(([0], np.cumsum(lengths)))[:-1]
    interval = np.arange(int(lengths.sum())) - first[span_rows] + spans[span_rows, 0]
    row = np.arange(interval.size)
    least = block(
        "least price",
        np.concatenate((row, row)), np.concatenate((interval, intervals + span_rows)),
        np.concatenate((np.ones(row.size), -np.ones(row.size))),
        np.zeros(row.size), np.full(row.size, np.inf),
    )  # fmt: skip
    none = np.zeros(columns)
    upper = np.full(columns, np.inf)
    upper[intervals : intervals + len(spans)] = np.where(lengths > 0, np.inf, 0.0)
    cost = np.concatenate((np.diff(edges), np.zeros(len(spans)), count.astype(np.float64)))
    program = Milp(
        name="goodput", cost=cost, offset=0.0, lower=none, upper=upper,
        integer=np.zeros(columns, dtype=np.bool_),
        column_names=tuple(f"x{k}" for k in range(columns)), blocks=(own, least),
    )  # fmt: skip
    point = solve_lp(program, SolverOptions(time_limit_s=time_limit_s)).point
    return None if point is None else np.maximum(point[:intervals], 0.0)


def _classes(
    weight: FloatArray, costs: FloatArray, of_span: IntArray
) -> tuple[IntArray, FloatArray]:
    """Class of each candidate and how many each has: equal spans, and close in charge by weight."""
    whole = costs.sum(axis=1) / np.maximum(weight, 1e-300)
    if weight.size <= _FEW_EDGES:
        return np.arange(weight.size), np.ones(weight.size)
    ranked = np.argsort(np.argsort(whole, kind="stable"))
    level = ranked * _CLASSES // weight.size
    spans = int(of_span.max()) + 1
    keys = (of_span[:, 0] * spans + of_span[:, 1]) * _CLASSES + level
    _, rows, count = np.unique(keys, return_inverse=True, return_counts=True)
    return rows.ravel().astype(np.int64), count.astype(np.float64)
