"""Rule ``arrival``: what the batches of one interval leave over to the next one.

over_(m+1) >= over_m + sum over batches of interval m of (a y_j + rest_j) - (T_(m+1) - T_m)

A batch of interval m starts at T_m + over_m or later, and holds only requests that have arrived by
T_m, since others have no arcs there. :func:`intervals` adds, for every batch j of an interval m
that is not the last,

over_m + durations of the batches of the interval before j
    <= T_(m+1) - T_m + (longest batch) (1 - y_j)

so that a batch is in the interval in which it starts, and in no other. That loses no schedule, and
leaves every schedule one place.
"""

from __future__ import annotations

import numpy as np

from optsched.constraints.network.blocks import Part, stacked
from optsched.instance import Instance
from optsched.model.milp import Block
from optsched.model.network import NetworkVariables
from optsched.model.network_clock import MICROSECONDS


def arrival(instance: Instance, variables: NetworkVariables) -> Block:
    """Rows: one per interval but the last; none offline."""
    parts, gaps = overruns(variables)
    return stacked("arrival", parts, gaps.size, lower=-MICROSECONDS * gaps)


def overruns(variables: NetworkVariables) -> tuple[list[Part], np.ndarray]:
    """Entries of over_(m+1) - over_m - sum of durations, and the lengths of the intervals."""
    clock, slots = variables.clock, variables.slots
    early = np.flatnonzero(~slots.last)
    row, over = slots.interval[early], clock.over.numbers
    every = np.arange(over.size)
    parts: list[Part] = [
        (every, over, np.ones(over.size)),
        (every[1:], over[:-1], -np.ones(every[1:].size)),
        (row, variables.used[early], np.full(early.size, -MICROSECONDS * clock.base_s)),
    ]
    if over.size:
        parts.append((row, clock.rest.numbers[early], -np.ones(early.size)))
    return parts, np.diff(slots.arrivals_s)


def intervals(instance: Instance, variables: NetworkVariables) -> Block:
    """Rows: one per slot before the last interval; none offline."""
    clock, slots = variables.clock, variables.slots
    early = np.flatnonzero(~slots.last)
    if not early.size:
        return stacked("intervals", [], 0)
    longest = float(clock.over.upper[0])
    place = early - slots.first[slots.interval[early]]
    # Pairs of a slot and one before it in its interval.
    row = np.repeat(early, place)
    before = np.concatenate([np.arange(j - k, j) for j, k in zip(early, place, strict=True)])
    level = slots.interval[early]
    parts: list[Part] = [
        (row, variables.used[before], np.full(row.size, MICROSECONDS * clock.base_s)),
        (row, clock.rest.numbers[before], np.ones(row.size)),
        (early, variables.used[early], np.full(early.size, longest)),
        (early[level > 0], clock.over.numbers[level[level > 0] - 1], np.ones((level > 0).sum())),
    ]
    upper = MICROSECONDS * np.diff(slots.arrivals_s)[level] + longest
    return stacked("intervals", parts, early.size, upper=upper)
