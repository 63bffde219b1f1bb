"""Which requests meet all their objectives.

    end_j <= D_m   if in_time_mj = 1
    in_time_mj >= in_time_m(j+1),   in_time_(m+1)j >= in_time_mj
    on_time_kj <= events of (type, milestone) k in batch j,   on_time_kj <= count_t in_time_mj
    met_t <= sum_j on_time_kj                            for both milestones that have a deadline

with D_m a deadline. For a request with a TPOT SLO,

    active_ij >= left_ij - (waits for its first fill after batch j-1) + met_i - 1
    sum_j active_ij >= (O - 1) met_i
    pace_ij >= end_j - end_(j-1) - (the most that it can be) (1 - active_ij)
    sum_j pace_ij <= (O - 1) TPOT SLO met_i

:mod:`optsched.model.network_goodput` says what the columns are.
"""

from __future__ import annotations

import numpy as np

from optsched.constraints.network.blocks import Part, stacked
from optsched.constraints.network.counts import milestone_arcs
from optsched.instance import Instance
from optsched.model.milp import Block
from optsched.model.network import NetworkVariables
from optsched.model.network_arcs import ArcKind
from optsched.model.network_clock import MICROSECONDS


def deadlines(instance: Instance, variables: NetworkVariables) -> Block:
    """Rows: one per deadline and batch, then the order of ``in_time``."""
    clock = variables.clock
    if clock.goodput is None:
        return stacked("deadlines", [], 0)
    in_time, due = clock.goodput.in_time.numbers, clock.goodput.deadlines_s
    slack = MICROSECONDS * np.maximum(clock.latest_s[None, :] - due[:, None], 0.0)
    every, latest = np.arange(in_time.size), MICROSECONDS * np.tile(clock.latest_s, due.size)
    parts: list[Part] = [
        (every, np.tile(clock.end.numbers, due.size), np.ones(every.size)),
        (every, in_time.ravel(), slack.ravel()),
    ]
    upper, rows = [latest], every.size
    for more, less in ((in_time[:, :-1], in_time[:, 1:]), (in_time[1:], in_time[:-1])):
        number = rows + np.arange(more.size)
        parts += [
            (number, less.ravel(), np.ones(less.size)),
            (number, more.ravel(), -np.ones(more.size)),
        ]
        upper.append(np.zeros(more.size))
        rows += more.size
    return stacked("deadlines", parts, rows, upper=np.concatenate(upper))


def goodput(instance: Instance, variables: NetworkVariables) -> Block:
    """Rows: two per event and batch, and one per event."""
    columns, most = variables.clock.goodput, variables.slots.count
    if columns is None:
        return stacked("goodput", [], 0)
    parts: list[Part] = []
    rows, every, ones = 0, np.arange(most), np.ones(most)
    for k, t in enumerate(columns.event_type.tolist()):
        arc = milestone_arcs(variables, bool(columns.event_first[k]))
        arc = arc[variables.arcs.type[arc] == t]
        on_time, count = columns.on_time.numbers[k], variables.types[t].count
        parts += [
            (rows + every, on_time, ones),
            (rows + variables.arcs.batch[arc] - 1, arc, -np.ones(arc.size)),
            (rows + most + every, on_time, ones),
            (
                rows + most + every,
                columns.in_time.numbers[columns.event_deadline[k]],
                -count * ones,
            ),
            (np.full(most, rows + 2 * most), on_time, -ones),
            (np.array([rows + 2 * most]), columns.met.numbers[[t]], np.ones(1)),
        ]
        rows += 2 * most + 1
    return stacked("goodput", parts, rows, upper=0.0)


def pace(instance: Instance, variables: NetworkVariables) -> Block:
    """Rows: two per request with a TPOT SLO and batch, and two per request."""
    clock, arcs, slots = variables.clock, variables.arcs, variables.slots
    if clock.goodput is None:
        return stacked("pace", [], 0)
    columns, every, ones = clock.goodput, np.arange(slots.count), np.ones(slots.count)
    starts = np.append(slots.arrivals_s, 0.0)[slots.interval - 1]
    earlier = np.where(slots.interval > 0, starts, 0.0)  # no end of the batch before is earlier
    passes = MICROSECONDS * (clock.latest_s - earlier)
    waits = arcs.of(ArcKind.WAIT) & (arcs.stage == 0)
    met, end = columns.met.numbers, clock.end.numbers
    parts: list[Part] = []
    lower, rows = [np.zeros(0)], 0
    for i, t in enumerate(columns.paced_type.tolist()):
        active, pace_, kind = columns.active.numbers[i], columns.pace.numbers[i], variables.types[t]
        wait = np.flatnonzero(waits & (arcs.type == t))
        wait = wait[arcs.batch[wait] < slots.count]
        gaps, passed = kind.output_tokens - 1, rows + slots.count + every
        whole, spent = rows + 2 * slots.count, rows + 2 * slots.count + 1
        parts += [
            (rows + every, active, ones),
            (rows + every, clock.left.numbers[t], -ones),
            (rows + every, np.repeat(met[t], slots.count), -ones),
            (rows + arcs.batch[wait], wait, np.ones(wait.size)),
            (passed, pace_, ones),
            (passed, end, -ones),
            (passed[1:], end[:-1], ones[1:]),
            (passed, active, -passes),
            (np.full(slots.count, whole), active, ones),
            (np.array([whole]), met[[t]], np.array([-float(gaps)])),
            (np.full(slots.count, spent), pace_, -ones),
            (np.array([spent]), met[[t]], np.array([MICROSECONDS * gaps * kind.tpot_slo_s])),
        ]
        # Until its first slot is over it waits, which no arc says.
        start = np.where(every > slots.before[t], -1.0, -2.0)
        lower += [start, -passes, np.zeros(2)]
        rows += 2 * slots.count + 2
    return stacked("pace", parts, rows, lower=np.concatenate(lower))
