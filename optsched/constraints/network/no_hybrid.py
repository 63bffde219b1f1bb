"""Policy ``no-hybrid``: no batch with both decode and prefill steps.

D_j + P_j <= y_j
"""

from __future__ import annotations

import numpy as np

from optsched.constraints.network.blocks import stacked
from optsched.instance import Instance
from optsched.model.milp import Block
from optsched.model.network import NetworkVariables


def no_hybrid(instance: Instance, variables: NetworkVariables) -> Block:
    """Rows: batches; none without the policy."""
    if "no-hybrid" not in variables.policies:
        return stacked("no-hybrid", [], 0)
    every = np.arange(variables.slots.count)
    ones = np.ones(every.size)
    parts = [
        (every, variables.any_decode, ones),
        (every, variables.any_prefill, ones),
        (every, variables.used, -ones),
    ]
    return stacked("no-hybrid", parts, every.size, upper=0.0)
