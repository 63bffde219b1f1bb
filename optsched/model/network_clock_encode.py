"""The clock's columns at the point of a schedule, read off its flow.

Every family of columns is set to what it means, not to what the rows leave free, so that a start
is as good as its schedule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from optsched.errors import UnsupportedError
from optsched.model.network_clock import MICROSECONDS, Count
from optsched.model.network_goodput import Goodput
from optsched.model.network_prices import durations
from optsched.model.network_slots import Slots

if TYPE_CHECKING:
    from optsched.model.network import NetworkVariables

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


def set_clock(variables: NetworkVariables, point: FloatArray) -> None:
    """Fill in the clock's columns of ``point``, whose others are set.

    Raises
    ------
    UnsupportedError
        First tokens are not in the order that ``fcfs`` asks for.
    """
    clock, slots = variables.clock, variables.slots
    rows, columns, seconds = durations(variables)
    duration: FloatArray = np.zeros(slots.count)
    np.add.at(duration, rows, seconds * point[columns])
    rest = duration - clock.base_s * point[variables.used]
    first, last = _milestones(variables, point)
    overrun, end = _times(slots, duration)
    over = np.maximum(overrun, 0.0)
    for group, value in ((clock.rest, rest), (clock.over, over[1:]), (clock.end, end)):
        if len(group):
            point[group.numbers] = MICROSECONDS * value
    counts = np.array([kind.count for kind in variables.types])[:, None]
    left = counts - np.cumsum(last, axis=1) + last
    untokened = counts - np.cumsum(first, axis=1)
    if len(clock.left):
        point[clock.left.numbers] = left
    for m in range(clock.late.numbers.shape[0]):
        point[clock.late.numbers[m]] = left[slots.level <= m].sum(axis=0) > 0
    for m in range(clock.prefix.numbers.shape[0]):
        complete = untokened[slots.level <= m].sum(axis=0) == 0
        if (first[slots.level > m].sum(axis=0)[~complete] > 0).any():
            raise UnsupportedError("first tokens are not in order of arrival, as fcfs asks for")
        point[clock.prefix.numbers[m]] = complete
    for count in clock.counts.values():
        _set_count(slots, count, point, first if count.first_tokens else last, rest, over)
    if len(clock.longest):
        latency = (last > 0) * (end[None, :] - slots.arrivals_s[slots.level][:, None])
        point[clock.longest.numbers] = MICROSECONDS * latency.max()
    if clock.goodput is not None:
        _set_goodput(variables, clock.goodput, point, first, last, overrun, end)


def _set_count(
    slots: Slots, count: Count, point: FloatArray, events: IntArray, rest: FloatArray,
    over: FloatArray,
) -> None:  # fmt: skip
    passed = events.sum(axis=0)
    remaining = passed.sum() - np.cumsum(passed) + passed
    unary = remaining[None, :] >= np.arange(1, count.unary.numbers.shape[0] + 1)[:, None]
    point[count.unary.numbers] = unary
    following = slots.first[1:-1]
    later = np.zeros_like(unary)
    later[:, ~slots.last] = unary[:, following[slots.interval[~slots.last]]]
    drops = unary & ~later
    point[count.share.numbers] = MICROSECONDS * rest * drops
    if len(count.carried):
        point[count.carried.numbers] = MICROSECONDS * over[1:] * drops[:, following]


def _milestones(variables: NetworkVariables, point: FloatArray) -> tuple[IntArray, IntArray]:
    """Requests of each type with their first (last) token in each batch; ``(types, batches)``."""
    arcs = variables.arcs
    last = np.array([kind.output_tokens - 1 for kind in variables.types])[arcs.type]
    found = []
    for stage in (np.zeros_like(last), last):
        arc = np.flatnonzero(arcs.generates & (arcs.stage == stage))
        table = np.zeros((len(variables.types), variables.slots.count), dtype=np.int64)
        np.add.at(table, (arcs.type[arc], arcs.batch[arc] - 1), np.rint(point[arc]).astype(int))
        found.append(table)
    return found[0], found[1]


def _times(slots: Slots, duration_s: FloatArray) -> tuple[FloatArray, FloatArray]:
    """By how much the batches before each interval end after its start (before it, if negative),
    and the end of each batch, seconds."""
    gaps = np.append(np.diff(slots.arrivals_s), 0.0)
    over, end, now = np.zeros(slots.levels), np.zeros(slots.count), 0.0
    for m, gap in enumerate(gaps.tolist()):
        over[m] = now
        now = max(0.0, now)
        mine = slice(int(slots.first[m]), int(slots.first[m + 1]))
        end[mine] = slots.arrivals_s[m] + now + np.cumsum(duration_s[mine])
        now += float(duration_s[mine].sum()) - gap
    return over, end


def _set_goodput(
    variables: NetworkVariables,
    columns: Goodput,
    point: FloatArray,
    first: IntArray,
    last: IntArray,
    overrun: FloatArray,
    end: FloatArray,
) -> None:
    # A deadline that is missed by a rounding error is met: so says every solver's tolerance.
    in_time = end[None, :] <= columns.deadlines_s[:, None] + 1e-12
    in_time &= columns.in_time.upper > 0
    point[columns.in_time.numbers] = in_time
    met = np.array([kind.count for kind in variables.types], dtype=np.float64)
    for k, t in enumerate(columns.event_type.tolist()):
        events = (first if columns.event_first[k] else last)[t]
        on_time = events * in_time[columns.event_deadline[k]]
        point[columns.on_time.numbers[k]] = on_time
        met[t] = min(met[t], on_time.sum())
    passes = np.diff(end, prepend=0.0)
    for i, t in enumerate(columns.paced_type.tolist()):
        kind = variables.types[t]
        active = (np.cumsum(first[t]) - first[t]) - (np.cumsum(last[t]) - last[t])
        between = float(active @ passes)
        if between > (kind.output_tokens - 1) * kind.tpot_slo_s + 1e-12:
            met[t] = 0.0
        point[columns.active.numbers[i]] = active * met[t]
        point[columns.pace.numbers[i]] = MICROSECONDS * active * met[t] * passes
    point[columns.met.numbers] = met
    if len(columns.busy):
        point[columns.busy.numbers] = overrun[1:] >= -1e-12
    if len(columns.piece):
        _set_pieces(variables, columns, point)


def _set_pieces(variables: NetworkVariables, columns: Goodput, point: FloatArray) -> None:
    tokens: FloatArray = np.zeros(variables.slots.count)
    rows, numbers, values = variables.batch_sum(variables.arcs.tokens)
    np.add.at(tokens, rows, values * point[numbers])
    pieces = sorted(variables.instance.cost.pieces, key=lambda piece: piece[1])
    by_piece = np.array([alpha + beta * tokens for alpha, beta in pieces])
    top = by_piece.argmax(axis=0)
    point[columns.piece.numbers[top, np.arange(variables.slots.count)]] = 1.0
