"""Prices of time to begin with: those of a machine without residence, or of a fluid with it."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optsched.bounds.clock.request_charges import RequestCharges
from optsched.instance import Instance, IntArray
from optsched.model.milp import Milp, block
from optsched.solvers.interrupted import unless_interrupted
from optsched.solvers.lp import solve_lp
from optsched.solvers.outcome import SolverOptions

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Weights:
    """What a second until the first token, and one until the end, costs."""

    first: float = 0.0
    whole: float = 1.0


def machine_prices(
    release_s: FloatArray, work_s: FloatArray, weight: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Times and prices of one machine that always serves the least work first, linear between.

    The dual of mean busy times: the price falls by 1 / p per second while a request of work p is
    served, to 0 where the machine is idle. Offline it is the number of unfinished requests. With
    weights that of most weight per work is served, and the price falls by that.
    """
    spans = served(release_s, work_s if weight is None else work_s / weight, work_s)
    times, prices = [spans[-1][1]], [0.0]
    for start, end, work in reversed(spans):
        if end < times[-1]:  # idle in between
            times += [times[-1] - 1e-9, end]
            prices += [0.0, 0.0]
        times.append(start)
        prices.append(prices[-1] + (end - start) / work)
    return np.array(times[::-1]), np.array(prices[::-1])


def served(
    release_s: FloatArray, rank: FloatArray, work_s: FloatArray
) -> list[tuple[float, float, float]]:
    """From when to when jobs of which rank are served, if the least rank that is there comes first,
    interrupted at will."""
    arrival = np.argsort(release_s, kind="stable")
    left = work_s.copy()
    waiting: list[tuple[float, int]] = []
    spans: list[tuple[float, float, float]] = []
    now, arrived = 0.0, 0
    while waiting or arrived < arrival.size:
        if not waiting:
            now = max(now, float(release_s[arrival[arrived]]))
        while arrived < arrival.size and release_s[arrival[arrived]] <= now:
            request = int(arrival[arrived])
            heapq.heappush(waiting, (float(rank[request]), request))
            arrived += 1
        least, request = waiting[0]
        until = float(release_s[arrival[arrived]]) if arrived < arrival.size else np.inf
        end = min(now + float(left[request]), until)
        spans.append((now, end, least))
        left[request] -= end - now
        if left[request] <= 1e-12 or end < until:
            heapq.heappop(waiting)
        now = end
    return spans


def fluid_prices(
    instance: Instance,
    charges: RequestCharges,
    horizon_s: float,
    *,
    buckets: int,
    classes: int,
    time_limit_s: float,
    weights: Weights,
) -> FloatArray | None:
    """Price per bucket of time, from a linear program in which requests start in fractions.

    Requests of about equal work are a class. Columns: those of a class that wait at the end of a
    bucket, and those that start in it at one of the paces, which take its duration per token and
    its charge, evenly over their residence. Rows: who waits, and the time of every bucket, whose
    dual is the price. If first tokens count, those that have got theirs may wait again, so there
    are columns and rows for them too.

    Returns
    -------
    float array, shape ``(buckets,)``, or None if time did not suffice.
    """
    width = horizon_s / buckets
    label = _classes(charges.fill_s + charges.decodes_s[:, -1], classes)
    count = np.bincount(label, minlength=classes)

    def mean(values: FloatArray) -> FloatArray:
        return np.bincount(label, weights=values, minlength=classes) / np.maximum(count, 1)

    arrived = np.zeros((classes, buckets))
    np.add.at(
        arrived, (label, np.minimum(instance.release_s / width, buckets - 1).astype(int)), 1.0
    )
    rows, columns, values, cost = [], [], [], []
    bucket = np.arange(buckets)
    base = 0

    def add(row: IntArray, column: IntArray, value: float) -> None:
        rows.append(row)
        columns.append(column)
        values.append(np.full(row.size, value))

    apart = weights.first > 0
    pools = classes * buckets  # rows of those that wait for their fill
    machine = pools * (1 + apart)
    for c in range(classes * (1 + apart)):
        waiting = base + bucket
        add(c * buckets + bucket, waiting, 1.0)
        add(c * buckets + bucket[1:], waiting[:-1], -1.0)
        cost.append(np.full(buckets, width * (weights.whole + weights.first * (c < classes))))
        base += buckets
    fill_s, fill_stay_s = mean(charges.fill_s), mean(charges.fill_stay_s)
    for c in np.flatnonzero(count).tolist() if apart else []:
        start = base + bucket
        add(c * buckets + bucket, start, 1.0)
        add(pools + c * buckets + bucket, start, -1.0)
        add(machine + bucket, start, fill_s[c])
        cost.append(np.full(buckets, (weights.first + weights.whole) * fill_stay_s[c]))
        base += buckets
    for pace in range(charges.decodes_s.shape[1]):
        decodes_s, stay_s = mean(charges.decodes_s[:, pace]), mean(charges.stay_s[:, pace])
        if apart:
            stay_s = stay_s - fill_stay_s
        for c in np.flatnonzero(count).tolist():
            start = base + bucket
            add(apart * pools + c * buckets + bucket, start, 1.0)
            for later, part in enumerate(_spread(stay_s[c], width)):
                use = decodes_s[c] * part + (fill_s[c] if later == 0 and not apart else 0.0)
                add(machine + bucket[later:], start[: buckets - later], use)
            cost.append(np.full(buckets, weights.whole * stay_s[c]))
            base += buckets
    filled = np.zeros(machine - pools)
    lower = np.concatenate([arrived.ravel(), filled, np.full(buckets, -np.inf)])
    upper = np.concatenate([arrived.ravel(), filled, np.full(buckets, width)])
    program = Milp(
        name="fluid", cost=np.concatenate(cost), offset=0.0, lower=np.zeros(base),
        upper=np.full(base, np.inf), integer=np.zeros(base, dtype=np.bool_),
        column_names=tuple(f"x{k}" for k in range(base)),
        blocks=(block(
            "fluid", np.concatenate(rows), np.concatenate(columns), np.concatenate(values),
            lower, upper,
        ),),
    )  # fmt: skip
    answer = unless_interrupted(solve_lp(program, SolverOptions(time_limit_s=time_limit_s)))
    if answer.row_duals is None:
        return None
    return np.maximum(-answer.row_duals[machine:], 0.0)


def _classes(work_s: FloatArray, classes: int) -> IntArray:
    """Class of each request: ascending work, of about equal number and total."""
    order = np.argsort(work_s, kind="stable")
    share = np.cumsum(1 + work_s[order] / work_s.mean())
    label = np.empty(order.size, dtype=np.int64)
    label[order] = np.minimum(share / share[-1] * classes, classes - 1).astype(np.int64)
    return label


def _spread(stay_s: float, width_s: float) -> list[float]:
    """Shares of a stay that begins in the middle of a bucket in it and those after it."""
    shares, begin, end = [], width_s / 2, width_s / 2 + stay_s
    edge = width_s
    while begin < end:
        shares.append((min(edge, end) - begin) / stay_s)
        begin, edge = edge, edge + width_s
    return shares
