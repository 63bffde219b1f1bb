"""Rounding rows: at most floor(M / t) items of size t fit, a larger one counting several times.

    sum floor(s / t) x_s <= floor(M / t) y_j

with x_s the requests that hold s KV tokens after batch j. Of all t with equal k = floor(M / t)
the smallest has the largest coefficients, so only t = floor(M / (k + 1)) + 1 are written, and
only the first few k: with many requests in memory the rows tend to the memory row itself.
"""

from __future__ import annotations

import numpy as np

from optsched.constraints.network.blocks import Part, stacked
from optsched.constraints.network.capacity import held_at_most
from optsched.instance import Instance
from optsched.model.milp import Block
from optsched.model.network import NetworkVariables

MOST_THRESHOLDS = 6


def rounding(instance: Instance, variables: NetworkVariables) -> Block:
    """Rows: one per threshold and batch."""
    arcs, capacity = variables.arcs, instance.limits.kv_tokens
    holding = np.flatnonzero(arcs.pages)
    sizes = arcs.pages[holding]
    parts: list[Part] = []
    upper = [np.zeros(0)]
    rows = 0
    for t in thresholds(capacity, int(sizes.min()), int(sizes.max())):
        more, bounds = held_at_most(
            variables, holding, (sizes // t).astype(np.float64), capacity // t, rows
        )
        parts += more
        upper.append(bounds)
        rows += bounds.size
    return stacked("rounding", parts, rows, upper=np.concatenate(upper))


def thresholds(capacity: int, smallest: int, largest: int) -> list[int]:
    """The t worth a row: floor(M / (k + 1)) + 1 for k = 1, 2, .. as long as sizes differ.

    The last one may count every request once: it bounds their number.
    """
    found: list[int] = []
    for k in range(1, capacity // smallest + 1):
        t = capacity // (k + 1) + 1
        if t <= largest and (not found or t < found[-1]):
            found.append(t)
        if t <= smallest or len(found) == MOST_THRESHOLDS:
            break
    return found
