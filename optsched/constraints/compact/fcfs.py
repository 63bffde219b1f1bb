"""Policy ``fcfs``."""

from __future__ import annotations

import numpy as np

from optsched.constraints.compact.rows import join, rows
from optsched.instance import Instance
from optsched.model.compact import CompactVariables
from optsched.model.milp import Block


def fcfs(instance: Instance, v: CompactVariables) -> Block:
    """begun_i >= begun_k at every boundary, for i that arrives at one time and k at the next:
    first tokens are in the order of arrivals, those of one batch and one arrival in any."""
    if "fcfs" not in v.policies or instance.offline:
        return join("fcfs", [])
    rank = np.unique(instance.release_s, return_inverse=True)[1]
    first, second = np.nonzero(rank[:, None] + 1 == rank[None, :])
    earlier, later = v["begun"][first], v["begun"][second]
    return rows("fcfs", earlier.shape, (earlier, 1), (later, -1), lower=0)
