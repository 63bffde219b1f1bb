"""Policy ``fcfs``: first tokens in order of arrival, those of equal arrival in any order.

    count_t prefix_mj <= count_t - (requests of type t that wait after batch j)   t of arrival m
    prefix_mj <= prefix_(m-1)j
    count_t - (requests of type t that wait after batch j) <= count_t prefix_(m-1)j

prefix_mj = 1 if every request of the first m arrivals has its first token by batch j. Requests of
the next arrival may have theirs in the same batch.
"""

from __future__ import annotations

import numpy as np

from optsched.constraints.network.blocks import Part, stacked
from optsched.instance import Instance
from optsched.model.milp import Block
from optsched.model.network import NetworkVariables
from optsched.model.network_arcs import ArcKind


def fcfs(instance: Instance, variables: NetworkVariables) -> Block:
    """Rows: two per type between two arrivals and batch; none offline or without the policy."""
    slots, arcs, most = variables.slots, variables.arcs, variables.slots.count
    prefix = variables.clock.prefix.numbers
    if not prefix.size:
        return stacked("fcfs", [], 0)
    every, ones = np.arange(most), np.ones(most)
    parts: list[Part] = []
    lower, rows = [], 0
    waits = arcs.of(ArcKind.WAIT) & (arcs.stage == 0)
    for t, kind in enumerate(variables.types):
        wait = np.flatnonzero(waits & (arcs.type == t))
        waiting = arcs.batch[wait] - 1, wait, np.ones(wait.size)
        level = slots.level[t]
        # Before its first slot no arc says that it waits.
        arrived = np.where(every >= slots.before[t], float(kind.count), 0.0)
        if level < prefix.shape[0]:
            parts += [
                (rows + every, prefix[level], -kind.count * ones),
                (rows + waiting[0], waiting[1], -waiting[2]),
            ]
            lower.append(-arrived)
            rows += most
        if level > 0:
            parts += [
                (rows + every, prefix[level - 1], kind.count * ones),
                (rows + waiting[0], waiting[1], waiting[2]),
            ]
            lower.append(arrived)
            rows += most
    number = rows + np.arange(prefix[1:].size)
    parts += [
        (number, prefix[:-1].ravel(), np.ones(number.size)),
        (number, prefix[1:].ravel(), -np.ones(number.size)),
    ]
    lower.append(np.zeros(number.size))
    return stacked("fcfs", parts, rows + number.size, lower=np.concatenate(lower))
