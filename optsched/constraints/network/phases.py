"""Indicators of batches with decodes and with prefills, for d0, p0 and ``no-hybrid``.

sum over g of d <= (the most that fit) D_j         per type
sum over g of p + r <= (the most that fit) P_j     per type
sum S p + (S-1) r + f_j - f_(j-1) <= min(C, P, M) P_j     with chunks
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optsched.constraints.network.blocks import Part, stacked
from optsched.instance import Instance
from optsched.model.milp import Block
from optsched.model.network import NetworkVariables
from optsched.model.network_arcs import ArcKind


def phases(instance: Instance, variables: NetworkVariables) -> Block:
    """Rows: one per type, batch and indicator; with chunks one more per batch."""
    arcs, partials, limits = variables.arcs, variables.partials, instance.limits
    parts: list[Part] = []
    rows = 0
    for indicator, mine in (
        (variables.any_decode, arcs.of(ArcKind.DECODE)),
        (variables.any_prefill, arcs.prefills),
    ):
        if indicator.size:
            rows = _per_type(variables, indicator, mine, rows, parts)
    if variables.any_prefill.size and len(partials):
        batch, columns, tokens = variables.batch_sum(arcs.tokens * arcs.prefills, of_partials=True)
        most = min(limits.fill_tokens, limits.kv_tokens)
        every = np.arange(variables.slots.count)
        parts += [
            (rows + batch, columns, tokens),
            (rows + every, variables.any_prefill, np.full(every.size, -float(most))),
        ]
        rows += every.size
    return stacked("phases", parts, rows, upper=0.0)


def _per_type(
    variables: NetworkVariables,
    indicator: NDArray[np.int64],
    mine: NDArray[np.bool_],
    rows: int,
    parts: list[Part],
) -> int:
    """Append the rows of one indicator, from number ``rows``; returns the next number."""
    arcs, limits = variables.arcs, variables.instance.limits
    at = np.flatnonzero(mine)
    batches = variables.slots.count
    groups, row = np.unique(arcs.type[at] * batches + arcs.batch[at] - 1, return_inverse=True)
    smallest = np.full(groups.size, limits.kv_tokens)
    np.minimum.at(smallest, row, arcs.pages[at])
    counts = np.array([kind.count for kind in variables.types])
    most = np.minimum(counts[groups // batches], limits.kv_tokens // smallest)
    parts += [
        (rows + row, at, np.ones(at.size)),
        (
            rows + np.arange(groups.size),
            indicator[groups % batches],
            -most.astype(float),
        ),
    ]
    return rows + int(groups.size)
