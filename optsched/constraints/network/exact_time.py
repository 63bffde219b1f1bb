"""Starts and durations that are exact, where TPOT could gain from longer ones (with arrivals).

    over_(m+1) <= over_m + durations of interval m - (T_(m+1) - T_m) + (spare) (1 - busy_(m+1))
    over_m <= (longest batch) busy_m
    y_(first slot of m) <= busy_m + requests of arrival T_m whose first fill is in that batch
    D_j <= decodes in batch j,   P_j <= prefills in batch j
    x_j <= what piece k says   if piece_kj = 1,   sum_k piece_kj = 1

So a batch starts at the end of the one before, or at the arrival of a request that it begins.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optsched.constraints.network.arrival import overruns
from optsched.constraints.network.blocks import Part, stacked
from optsched.instance import Instance
from optsched.model.milp import Block
from optsched.model.network import NetworkVariables
from optsched.model.network_arcs import ArcKind
from optsched.model.network_clock import MICROSECONDS

FloatArray = NDArray[np.float64]


def exact_time(instance: Instance, variables: NetworkVariables) -> Block:
    """Rows: per batch, of waits, anchors, indicators and pieces."""
    columns = variables.clock.goodput
    if columns is None or not len(columns.busy):
        return stacked("exact_time", [], 0)
    parts: list[Part] = []
    upper = _starts(variables, parts)
    upper += _indicators(variables, parts, sum(u.size for u in upper))
    upper += _pieces(instance, variables, parts, sum(u.size for u in upper))
    bounds = np.concatenate(upper)
    return stacked("exact_time", parts, bounds.size, upper=bounds)


def _starts(variables: NetworkVariables, parts: list[Part]) -> list[FloatArray]:
    clock, arcs, slots = variables.clock, variables.arcs, variables.slots
    assert clock.goodput is not None
    busy, over, levels = clock.goodput.busy.numbers, clock.over.numbers, slots.levels - 1
    every, ones = np.arange(levels), np.ones(levels)
    longest = float(clock.over.upper[0])
    entries, gaps = overruns(variables)
    spare = MICROSECONDS * gaps  # over_(m+1) = 0 <= the rest + gap
    first = slots.first[1:-1]
    fills = np.flatnonzero(
        arcs.of(ArcKind.FILL) & (arcs.stage == 0) & np.isin(arcs.batch - 1, first)
        & (slots.level[arcs.type] == slots.interval[arcs.batch - 1])
    )  # fmt: skip
    parts += [
        *entries,
        (every, busy, spare),
        (levels + every, over, ones),
        (levels + every, busy, -longest * ones),
        (2 * levels + every, variables.used[first], ones),
        (2 * levels + every, busy, -ones),
        (
            2 * levels + slots.interval[arcs.batch[fills] - 1] - 1,
            fills,
            -np.ones(fills.size),
        ),
    ]
    return [spare - MICROSECONDS * gaps, np.zeros(2 * levels)]


def _indicators(variables: NetworkVariables, parts: list[Part], rows: int) -> list[FloatArray]:
    arcs, upper = variables.arcs, []
    for indicator, mine in (
        (variables.any_decode, arcs.of(ArcKind.DECODE)),
        (variables.any_prefill, arcs.prefills),
    ):
        arc = np.flatnonzero(mine)
        if indicator.size:
            parts += [
                (rows + np.arange(indicator.size), indicator, np.ones(indicator.size)),
                (rows + arcs.batch[arc] - 1, arc, -np.ones(arc.size)),
            ]
            upper.append(np.zeros(indicator.size))
            rows += indicator.size
    return upper


def _pieces(
    instance: Instance, variables: NetworkVariables, parts: list[Part], rows: int
) -> list[FloatArray]:
    clock, most = variables.clock, variables.slots.count
    assert clock.goodput is not None
    piece, upper, every = clock.goodput.piece.numbers, list[FloatArray](), np.arange(most)
    if not piece.size:
        return upper
    batch, columns, tokens = variables.batch_sum(variables.arcs.tokens)
    pieces = sorted(instance.cost.pieces, key=lambda piece: piece[1])
    # An excess is largest at one end of the tokens that a batch can have, since it is convex.
    ends = np.array([1.0, float(min(instance.limits.batch_tokens, instance.limits.kv_tokens))])
    flattest = pieces[0][0] + pieces[0][1] * ends
    largest = float((instance.cost.token_time(ends) - flattest).max())
    for k, (alpha, beta) in enumerate(pieces):
        height, slope = alpha - pieces[0][0], beta - pieces[0][1]
        spare = MICROSECONDS * (largest - min(0.0, float((height + slope * ends).min())))
        parts += [
            (rows + every, variables.excess, np.ones(most)),
            (rows + every, variables.used, np.full(most, -MICROSECONDS * height)),
            (rows + batch, columns, -MICROSECONDS * slope * tokens),
            (rows + every, piece[k], np.full(most, spare)),
        ]
        upper.append(np.full(most, spare))
        rows += most
    parts.append((rows + np.tile(every, len(pieces)), piece.ravel(), -np.ones(piece.size)))
    upper.append(-np.ones(most))
    return upper
