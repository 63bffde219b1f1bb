"""The value of each objective as a linear expression of the columns, and conditions on it.

makespan      E of the last batch        mean latency, mean TTFT   mean of passed_i - T_i
max latency   longest                    goodput                   total weight - weight met
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optsched.constraints.network.at_most import conditions
from optsched.instance import Instance
from optsched.model.calls_network import CallsNetworkVariables
from optsched.model.milp import Block
from optsched.model.network_clock import MICROSECONDS
from optsched.objective import Objective

FloatArray = NDArray[np.float64]


def value(variables: CallsNetworkVariables, objective: Objective) -> tuple[FloatArray, float]:
    """Cost per column, shape ``(columns,)``, and offset: seconds, or weight missed."""
    times, instance = variables.clock, variables.instance
    cost = np.zeros(variables.columns)
    if objective in (Objective.MEAN_LATENCY, Objective.MEAN_TTFT):
        passed = times.passed[objective is Objective.MEAN_TTFT].numbers
        cost[passed] = 1 / MICROSECONDS / len(instance)
        return cost, -float(instance.release_s.mean())
    if objective is Objective.GOODPUT:
        cost[times.met.numbers] = -instance.weights
        return cost, instance.total_weight
    if objective is Objective.MAX_LATENCY and len(times.longest):
        cost[times.longest.numbers] = 1 / MICROSECONDS
        return cost, 0.0
    cost[times.end.numbers[-1]] = 1 / MICROSECONDS
    return cost, 0.0


def at_most(instance: Instance, variables: CallsNetworkVariables) -> Block:
    """Rows: one per condition, times in microseconds."""
    return conditions(variables.at_most, lambda objective: value(variables, objective))
