"""Max latency with arrivals.

    longest >= end_j - T_last + sum over m of (T_(m+1) - T_m) late_mj
    late_mj >= left_tj / count_t               for every type of arrival T_m
    late_mj >= late_(m-1)j

late_mj = 1 if a request of one of the first m arrivals is unfinished before batch j. The sum
telescopes: the right side is end_j less the earliest arrival that is unfinished. Offline the max
latency is the makespan and needs no rows.
"""

from __future__ import annotations

import numpy as np

from optsched.constraints.network.blocks import Part, stacked
from optsched.instance import Instance
from optsched.model.milp import Block
from optsched.model.network import NetworkVariables
from optsched.model.network_clock import MICROSECONDS


def max_latency(instance: Instance, variables: NetworkVariables) -> Block:
    """Rows: one per batch, then the ties of ``late`` to what is left and to itself."""
    clock, slots = variables.clock, variables.slots
    most = slots.count
    if not len(clock.longest):
        return stacked("max_latency", [], 0)
    late, left, every = clock.late.numbers, clock.left.numbers, np.arange(most)
    ones, gaps = np.ones(most), MICROSECONDS * np.diff(slots.arrivals_s)
    parts: list[Part] = [
        (every, np.repeat(clock.longest.numbers, most), ones),
        (every, clock.end.numbers, -ones),
        (np.tile(every, gaps.size), late.ravel(), -np.repeat(gaps, most)),
    ]
    rows = most
    for t, kind in enumerate(variables.types):
        if slots.level[t] < gaps.size:
            parts += [
                (rows + every, late[slots.level[t]], kind.count * ones),
                (rows + every, left[t], -ones),
            ]
            rows += most
    number = rows + np.arange(late[1:].size)
    parts += [
        (number, late[1:].ravel(), np.ones(number.size)),
        (number, late[:-1].ravel(), -np.ones(number.size)),
    ]
    lower = np.zeros(rows + number.size)
    lower[:most] = -MICROSECONDS * slots.arrivals_s[-1]
    return stacked("max_latency", parts, lower.size, lower=lower)
