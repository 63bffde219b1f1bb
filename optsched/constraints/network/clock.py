"""The clock: how long each batch takes and when it ends.

    rest_j + a y_j = duration of batch j
    end_j = end_(j-1) + a y_j + rest_j               within an interval
    end_j = T_m + over_m + a y_j + rest_j            its first batch

in microseconds; a is the least duration of any batch. Only where an objective or arrivals need it.
"""

from __future__ import annotations

import numpy as np

from optsched.constraints.network.blocks import Part, stacked
from optsched.instance import Instance
from optsched.model.milp import Block
from optsched.model.network import NetworkVariables
from optsched.model.network_clock import MICROSECONDS
from optsched.model.network_prices import durations


def clock(instance: Instance, variables: NetworkVariables) -> Block:
    """Rows: one per batch, and another where ends are needed."""
    times, slots = variables.clock, variables.slots
    every = np.arange(slots.count)
    ones, base = np.ones(every.size), MICROSECONDS * times.base_s
    parts: list[Part] = []
    bounds = [np.zeros(0)]
    if len(times.rest):
        batch, columns, seconds = durations(variables)
        parts += [
            (every, times.rest.numbers, ones),
            (every, variables.used, base * ones),
            (batch, columns, -MICROSECONDS * seconds),
        ]
        bounds.append(np.zeros(every.size))
    if len(times.end):
        rows, starts = every.size, slots.first[:-1]
        inner = np.setdiff1d(every, starts)
        parts += [
            (rows + every, times.end.numbers, ones),
            (rows + inner, times.end.numbers[inner - 1], -np.ones(inner.size)),
            (rows + starts[1:], times.over.numbers, -np.ones(len(times.over))),
            (rows + every, variables.used, -base * ones),
            (rows + every, times.rest.numbers, -ones),
        ]
        bound = np.zeros(every.size)
        bound[starts] = MICROSECONDS * slots.arrivals_s
        bounds.append(bound)
    bounds_ = np.concatenate(bounds)
    return stacked("clock", parts, bounds_.size, lower=bounds_, upper=bounds_)
