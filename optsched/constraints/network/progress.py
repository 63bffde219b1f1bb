"""Rule ``progress``: every used batch processes a token, and the used batches come first.

sum (p + d) >= y_j  (with chunks: tokens processed >= y_j)
y_j >= y_(j+1)                                     within an interval
least <= sum of y_j <= most                        with arrivals; else the first ``least`` are 1
sum e_j <= (the most that are resident) y_j        in slots that may be idle
"""

from __future__ import annotations

import numpy as np

from optsched.constraints.network.blocks import Part, stacked
from optsched.instance import Instance
from optsched.model.milp import Block
from optsched.model.network import NetworkVariables
from optsched.model.network_arcs import ArcKind


def progress(instance: Instance, variables: NetworkVariables) -> Block:
    """Rows: one per batch, the order of the batches that may be unused, then the rest."""
    arcs, used, slots = variables.arcs, variables.used, variables.slots
    # Without chunks a batch processes tokens iff it generates one, and the row with coefficients
    # 1 is the tighter of the two.
    of_arcs = arcs.tokens if variables.chunking else arcs.generates.astype(np.int64)
    online = slots.levels > 1
    free = np.setdiff1d(np.arange(1 if online else variables.least, slots.count), slots.first)
    order, ones = slots.count + np.arange(free.size), np.ones(free.size)
    parts: list[Part] = [
        variables.batch_sum(of_arcs, of_partials=True),
        (np.arange(slots.count), used, -np.ones(slots.count)),
        (order, used[free - 1], ones),
        (order, used[free], -ones),
    ]
    lower = np.zeros(slots.count + free.size)
    upper = np.full(lower.size, np.inf)
    if online:
        early = np.flatnonzero(~slots.last)
        rows = lower.size
        evict = np.flatnonzero(arcs.of(ArcKind.EVICT) & ~slots.last[arcs.batch - 1])
        parts += [
            (np.full(slots.count, rows), used, np.ones(slots.count)),
            (rows + 1 + early, used[early], np.full(early.size, float(most_held(variables)))),
            (rows + arcs.batch[evict], evict, -np.ones(evict.size)),
        ]
        lower = np.concatenate([lower, [variables.least], np.zeros(early.size)])
        upper = np.concatenate([upper, [variables.most], np.full(early.size, np.inf)])
    return stacked("progress", parts, lower.size, lower=lower, upper=upper)


def most_held(variables: NetworkVariables) -> int:
    """The most requests that fit in memory together."""
    limits = variables.instance.limits
    smallest = min(limits.pages(kind.prompt_tokens) for kind in variables.types)
    return min(len(variables.instance), limits.kv_tokens // smallest)
