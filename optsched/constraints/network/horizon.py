"""A shorter horizon from the relaxation: how many batches a schedule of some value can have.

    max sum_j y_j   and   max sum of y_j over the last interval

over the points of the relaxation whose objective is at most the value of a known schedule. Every
better schedule is such a point, so the optima, rounded down, bound its batches. (Optimality-based
bound tightening, as in global optimisation: Caprara & Locatelli 2010.)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from optsched.constraints.network.formulation import build
from optsched.errors import require
from optsched.model.milp import Milp
from optsched.model.network import NetworkVariables

Bounder = Callable[[Milp], float | None]
_TOLERANCE = 1e-6


def most_used(variables: NetworkVariables, bound_of: Bounder) -> tuple[int, int]:
    """The most batches of any schedule that is as good as the conditions of ``variables`` ask for,
    and the most of them that start at or after the last arrival.

    Parameters
    ----------
    variables : NetworkVariables
        With a condition ``at_most`` on its objective: the value of a known schedule.
    bound_of : callable
        Program without integer columns -> a proven lower bound on it, or None.

    Raises
    ------
    InvalidInputError
        There is no condition.
    """
    require(bool(variables.at_most), "at_most", dict(variables.at_most), "a value of the objective")
    program = build(variables)
    linear = replace(program, integer=np.zeros(program.columns, dtype=np.bool_), offset=0.0)
    slots = variables.slots

    def most(columns: NDArray[np.int64], known: int) -> int:
        cost = np.zeros(linear.columns)
        cost[columns] = -1.0
        bound = bound_of(replace(linear, cost=cost))
        if bound is None or not math.isfinite(bound):
            return known
        return min(known, max(1, math.floor(-bound + _TOLERANCE)))

    late = variables.used[slots.last]
    total = most(variables.used, variables.most)
    return total, most(late, min(total, late.size)) if slots.levels > 1 else total
