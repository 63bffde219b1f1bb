"""Conditions on the values of objectives: at most (goodput: at least) so much.

value of the objective <= limit;   for goodput, total weight - goodput <= total weight - limit
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from optsched.constraints.network.blocks import Part, stacked
from optsched.constraints.network.values import value
from optsched.instance import Instance
from optsched.model.milp import Block
from optsched.model.network import NetworkVariables
from optsched.model.network_clock import MICROSECONDS
from optsched.objective import Objective

# Relative slack, so that a schedule of exactly this value is not lost to rounding.
_SLACK = 1e-9


def at_most(instance: Instance, variables: NetworkVariables) -> Block:
    """Rows: one per condition, times in microseconds."""
    return conditions(variables.at_most, lambda objective: value(variables, objective))


def conditions(
    limits: Mapping[Objective, float],
    value_of: Callable[[Objective], tuple[NDArray[np.float64], float]],
) -> Block:
    """One row per limit; ``value_of`` gives an objective's cost per column and offset, in seconds
    or weight missed."""
    parts: list[Part] = []
    upper = []
    for k, (objective, limit) in enumerate(limits.items()):
        cost, offset = value_of(objective)
        unit = 1.0 if objective.maximised else MICROSECONDS
        limit += _SLACK * abs(limit) * (-1 if objective.maximised else 1)
        most = offset - limit if objective.maximised else limit  # of what is minimised
        columns = np.flatnonzero(cost)
        parts.append((np.full(columns.size, k), columns, unit * cost[columns]))
        upper.append(unit * (most - offset))
    return stacked("at_most", parts, len(upper), upper=upper)
