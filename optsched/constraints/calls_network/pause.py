"""Rules ``arrival`` and ``pause``, without big-M, and what they imply for whole chains.

Request i makes its call k with token g_k. Its own steps, each in a batch of its own, its pauses and
the time before its arrival T do not overlap, so for batches j < r

    S_r >= T made_i1r + spent_i(r-1) + sum over k of D_k made_i(g_k + 1)r
    S_r - E_j >= spent_i(r-1) - spent_ij + sum over k of D_k (made_i(g_k + 1)r - made_ig_k(j-1))
    E_last - E_j >= spent_i,last - spent_ij + sum over k of D_k (1 - made_ig_k(j-1))

If batch j makes call k and batch r has the next token, the second row says S_r - E_j >= D_k. At
most one term of its sum is negative: then request i pauses from before j until after r, the others
are 0, and nothing is spent in between. (Of the pairs only those are written in which r may resume a
call that j or a later batch made; the last row strengthens.)
"""

from __future__ import annotations

from optsched.constraints.calls_network.row_list import RowList
from optsched.instance import Instance
from optsched.model.calls_network import CallsNetworkVariables
from optsched.model.milp import Block
from optsched.model.network_clock import MICROSECONDS


def arrival(instance: Instance, variables: CallsNetworkVariables) -> Block:
    """Rows: one per batch and request that arrives late or makes calls."""
    rows = RowList()
    times, release = variables.clock, MICROSECONDS * instance.release_s
    for place, request in enumerate(times.chained.tolist()):
        for r in range(variables.most):
            entries = [(int(times.start.numbers[r]), 1.0)]
            if release[request]:
                entries.append((int(times.made_by(request, 1)[r]), -float(release[request])))
            if r:
                entries.append((int(times.spent.numbers[place, r - 1]), -1.0))
            for g in variables.stages[request].calls:
                pause = MICROSECONDS * float(variables.stages[request].pause_s[g])
                entries.append((int(times.made_by(request, g + 1)[r]), -pause))
            rows.add(entries, 0.0)
    return rows.block("arrival")


def pause(instance: Instance, variables: CallsNetworkVariables) -> Block:
    """Rows: one per request with calls and pair of batches."""
    rows = RowList()
    times = variables.clock
    for place, request in enumerate(times.chained.tolist()):
        stages = variables.stages[request]
        calls = [g for g in stages.calls if stages.pause_s[g] > 0]
        for r in range(1, variables.most):
            for j in range(r):
                possible = any(
                    times.made.lower[times.row_of_token[request, g], j - 1] < 1 or j == 0
                    for g in calls
                    if times.made.upper[times.row_of_token[request, g + 1], r] > 0
                )
                if not possible:
                    continue
                entries = [
                    (int(times.start.numbers[r]), 1.0),
                    (int(times.end.numbers[j]), -1.0),
                ]
                if r - 1 > j:
                    entries += [
                        (int(times.spent.numbers[place, r - 1]), -1.0),
                        (int(times.spent.numbers[place, j]), 1.0),
                    ]
                for g in calls:
                    length = MICROSECONDS * float(stages.pause_s[g])
                    entries.append((int(times.made_by(request, g + 1)[r]), -length))
                    if j:
                        entries.append((int(times.made_by(request, g)[j - 1]), length))
                rows.add(entries, 0.0)
    return rows.block("pause")


def tails(instance: Instance, variables: CallsNetworkVariables) -> Block:
    """Rows: one per batch and request with calls."""
    rows = RowList()
    times, last = variables.clock, variables.most - 1
    for place, request in enumerate(times.chained.tolist()):
        stages = variables.stages[request]
        if not stages.calls:
            continue
        for j in range(last):
            entries = [
                (int(times.end.numbers[last]), 1.0),
                (int(times.end.numbers[j]), -1.0),
                (int(times.spent.numbers[place, last]), -1.0),
                (int(times.spent.numbers[place, j]), 1.0),
            ]
            total = 0.0
            for g in stages.calls:
                length = MICROSECONDS * float(stages.pause_s[g])
                total += length
                if j:
                    entries.append((int(times.made_by(request, g)[j - 1]), length))
            rows.add(entries, total)
    return rows.block("tails")
