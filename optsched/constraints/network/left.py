"""Unfinished requests of each type before each batch.

left_t1 = count_t,   left_t(j+1) = left_tj - (requests of the type that finish in batch j)
"""

from __future__ import annotations

import numpy as np

from optsched.constraints.network.blocks import Part, stacked
from optsched.constraints.network.counts import milestone_arcs
from optsched.instance import Instance
from optsched.model.milp import Block
from optsched.model.network import NetworkVariables


def left(instance: Instance, variables: NetworkVariables) -> Block:
    """Rows: types times batches; none unless an objective needs them."""
    columns, most = variables.clock.left.numbers, variables.slots.count
    if not columns.size:
        return stacked("left", [], 0)
    arcs = variables.arcs
    arc = milestone_arcs(variables, first_tokens=False)
    arc = arc[arcs.batch[arc] < most]
    row = np.arange(columns.size).reshape(columns.shape)
    parts: list[Part] = [
        (row.ravel(), columns.ravel(), np.ones(columns.size)),
        (row[:, 1:].ravel(), columns[:, :-1].ravel(), -np.ones(row[:, 1:].size)),
        (row[arcs.type[arc], arcs.batch[arc]], arc, np.ones(arc.size)),
    ]
    bounds = np.zeros(columns.shape)
    bounds[:, 0] = [kind.count for kind in variables.types]
    return stacked("left", parts, columns.size, lower=bounds.ravel(), upper=bounds.ravel())
