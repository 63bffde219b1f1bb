"""The value of each objective as a linear expression of the columns, and conditions on it.

makespan      E of the last batch        mean latency, mean TTFT   mean of passed_i - T_i
max latency   longest                    goodput                   total weight - weight met
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optsched.constraints.network.blocks import Part, stacked
from optsched.instance import Instance
from optsched.model.calls_network import CallsNetworkVariables
from optsched.model.calls_network_clock import MICROSECONDS
from optsched.model.milp import Block
from optsched.objective import Objective

FloatArray = NDArray[np.float64]

# Relative slack, so that a schedule of exactly this value is not lost to rounding.
_SLACK = 1e-9


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
    parts: list[Part] = []
    upper = []
    for k, (objective, limit) in enumerate(variables.at_most.items()):
        cost, offset = value(variables, objective)
        unit = 1.0 if objective.maximised else MICROSECONDS
        limit += _SLACK * abs(limit) * (-1 if objective.maximised else 1)
        most = offset - limit if objective.maximised else limit  # of what is minimised
        columns = np.flatnonzero(cost)
        parts.append((np.full(columns.size, k), columns, unit * cost[columns]))
        upper.append(unit * (most - offset))
    return stacked("at_most", parts, len(upper), upper=np.array(upper))
