"""Orders of first tokens: policy ``fcfs``, and identical requests by their numbers.

made_i1j >= made_h1j    i arrived before h, or is identical and comes before it
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from optsched.constraints.network.blocks import Part, stacked
from optsched.instance import Instance
from optsched.model.calls_network import CallsNetworkVariables
from optsched.model.milp import Block


def fcfs(instance: Instance, variables: CallsNetworkVariables) -> Block:
    """Rows: one per batch and pair of consecutive arrivals; none without the policy."""
    if "fcfs" not in variables.policies:
        return stacked("fcfs", [], 0)
    release = instance.release_s
    levels = np.unique(release)
    pairs = [
        (int(i), int(h))
        for early, late in itertools.pairwise(levels)
        for i in np.flatnonzero(release == early)
        for h in np.flatnonzero(release == late)
    ]
    return _ordered("fcfs", variables, pairs)


def symmetry(instance: Instance, variables: CallsNetworkVariables) -> Block:
    """Rows: one per batch and pair of identical requests in a row."""
    return _ordered("symmetry", variables, variables.twins)


def _ordered(
    name: str, variables: CallsNetworkVariables, pairs: Sequence[tuple[int, int]]
) -> Block:  # fmt: skip
    parts: list[Part] = []
    every, ones = np.arange(variables.most), np.ones(variables.most)
    for k, (one, other) in enumerate(pairs):
        row = k * every.size + every
        parts += [
            (row, variables.clock.made_by(one, 1), ones),
            (row, variables.clock.made_by(other, 1), -ones),
        ]
    return stacked(name, parts, len(pairs) * every.size, lower=0.0)
