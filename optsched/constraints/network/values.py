"""The value of each objective as a linear expression of the columns.

makespan      T_last + over_last + sum of the durations of the last interval
mean latency  1/n sum over q of the time when fewer than q requests are unfinished
              (:func:`optsched.constraints.network.counts.passing_times`) - mean arrival
mean TTFT     the same of first tokens
max latency   longest; offline the makespan
goodput       total weight - sum of weight met_t, what is missed of it
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optsched.constraints.network.counts import passing_times
from optsched.model.network import NetworkVariables
from optsched.model.network_clock import MICROSECONDS
from optsched.model.network_prices import durations
from optsched.objective import Objective

FloatArray = NDArray[np.float64]


def value(variables: NetworkVariables, objective: Objective) -> tuple[FloatArray, float]:
    """Cost per column, shape ``(columns,)``, and offset: seconds, or weight missed."""
    clock, slots, instance = variables.clock, variables.slots, variables.instance
    cost = np.zeros(variables.columns)
    if objective in clock.counts:
        _, columns, values = passing_times(variables, clock.counts[objective])
        np.add.at(cost, columns, values / MICROSECONDS / len(instance))
        return cost, -float(instance.release_s.mean())
    if objective is Objective.GOODPUT:
        assert clock.goodput is not None
        weights = np.array([kind.weight for kind in variables.types])
        cost[clock.goodput.met.numbers] = -weights
        return cost, instance.total_weight
    if objective is Objective.MAX_LATENCY and len(clock.longest):
        cost[clock.longest.numbers] = 1 / MICROSECONDS
        return cost, 0.0
    batch, columns, seconds = durations(variables)
    last = slots.last[batch]
    np.add.at(cost, columns[last], seconds[last])
    cost[clock.over.numbers[-1:]] = 1 / MICROSECONDS
    return cost, float(slots.arrivals_s[-1])
