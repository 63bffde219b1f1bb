"""Policy ``no-hold``: what is resident is processed in every batch.

sum h_j <= (the most that fit) (1 - y_j)

Offline there are no arcs to hold with. With arrivals requests are held in slots that are not used.
"""

from __future__ import annotations

import numpy as np

from optsched.constraints.network.blocks import stacked
from optsched.constraints.network.progress import most_held
from optsched.instance import Instance
from optsched.model.milp import Block
from optsched.model.network import NetworkVariables
from optsched.model.network_arcs import ArcKind


def no_hold(instance: Instance, variables: NetworkVariables) -> Block:
    """Rows: slots; none offline or without the policy."""
    slots, arcs = variables.slots, variables.arcs
    if slots.levels == 1 or not {"no-hold", "nonpreemptive"} & variables.policies:
        return stacked("no-hold", [], 0)
    held, most = np.flatnonzero(arcs.of(ArcKind.HOLD)), float(most_held(variables))
    every = np.arange(slots.count)
    parts = [
        (arcs.batch[held] - 1, held, np.ones(held.size)),
        (every, variables.used, np.full(every.size, most)),
    ]
    return stacked("no-hold", parts, every.size, upper=most)
