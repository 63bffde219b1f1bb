"""Indicators of batches with decodes and with prefills, for d0, p0 and ``no-hybrid``.

decodes (prefills) of request i in batch j <= D_j (P_j)
D_j + P_j <= y_j                                          no-hybrid
"""

from __future__ import annotations

import numpy as np

from optsched.constraints.network.blocks import Part, stacked
from optsched.instance import Instance
from optsched.model.calls_network import CallsNetworkVariables
from optsched.model.milp import Block


def phases(instance: Instance, variables: CallsNetworkVariables) -> Block:
    """Rows: one per request, batch and indicator."""
    arcs, most = variables.arcs, variables.most
    parts: list[Part] = []
    rows = 0
    for indicator, prefill in ((variables.any_decode, False), (variables.any_prefill, True)):
        if not indicator.size:
            continue
        at = np.flatnonzero(arcs.generates & (arcs.prefill == prefill))
        groups, row = np.unique(arcs.request[at] * most + arcs.batch[at] - 1, return_inverse=True)
        parts += [
            (rows + row, at, np.ones(at.size)),
            (rows + np.arange(groups.size), indicator[groups % most], -np.ones(groups.size)),
        ]
        rows += groups.size
    return stacked("phases", parts, rows, upper=0.0)


def no_hybrid(instance: Instance, variables: CallsNetworkVariables) -> Block:
    """Rows: batches; none without the policy."""
    if "no-hybrid" not in variables.policies:
        return stacked("no-hybrid", [], 0)
    every, ones = np.arange(variables.most), np.ones(variables.most)
    parts = [
        (every, variables.any_decode, ones),
        (every, variables.any_prefill, ones),
        (every, variables.used, -ones),
    ]
    return stacked("no-hybrid", parts, every.size, upper=0.0)
