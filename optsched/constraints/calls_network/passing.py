"""When requests pass a milestone, the first token or the end.

    passed_i >= E_j + spent_i,last - spent_ij + sum over k of D_k (1 - made_ig_k(j-1))
                - (the most that E_j - passed_i can be) made_i(j-1)

with made the milestone's token: as long as request i has not finished before batch j, its remaining
steps and pauses follow batch j, apart from a pause that has begun. (Only for the end; a first token
is its only step.) :func:`chains` adds what passed_i is at least: the arrival, steps and pauses of
the request.
"""

from __future__ import annotations

import numpy as np

from optsched.constraints.calls_network.row_list import RowList
from optsched.constraints.network.blocks import stacked
from optsched.instance import Instance
from optsched.model.calls_network import CallsNetworkVariables
from optsched.model.milp import Block
from optsched.model.network_clock import MICROSECONDS


def passing(instance: Instance, variables: CallsNetworkVariables) -> Block:
    """Rows: per milestone one per request and batch."""
    rows = RowList()
    times, last = variables.clock, variables.most - 1
    place = {request: k for k, request in enumerate(times.chained.tolist())}
    for first_tokens, columns in times.passed.items():
        for i, stages in enumerate(variables.stages):
            least = stages.least_s(instance.cost)
            alone = float(instance.release_s[i] + (least[0] if first_tokens else least.sum()))
            if not first_tokens:
                alone += float(stages.pause_s.sum())
            made = times.made_by(i, 1 if first_tokens else len(stages))
            for j in range(variables.most):
                entries = [(int(columns.numbers[i]), 1.0), (int(times.end.numbers[j]), -1.0)]
                if j:
                    most = MICROSECONDS * max(float(times.latest_s[j]) - alone, 0.0)
                    entries.append((int(made[j - 1]), most))
                pauses = 0.0
                if not first_tokens and j < last:
                    spent = times.spent.numbers[place[i]]
                    entries += [(int(spent[last]), -1.0), (int(spent[j]), 1.0)]
                for g in stages.calls if not first_tokens else ():
                    length = MICROSECONDS * float(stages.pause_s[g])
                    pauses += length
                    if j:
                        entries.append((int(times.made_by(i, g)[j - 1]), length))
                rows.add(entries, pauses)
    return rows.block("passing")


def chains(instance: Instance, variables: CallsNetworkVariables) -> Block:
    """Rows: one per request and milestone."""
    rows = RowList()
    times = variables.clock
    for first_tokens, columns in times.passed.items():
        for i, stages in enumerate(variables.stages):
            entries = [(int(columns.numbers[i]), 1.0)]
            alone = float(instance.release_s[i])
            if first_tokens:
                alone += float(stages.least_s(instance.cost)[0])
            else:
                place = int(np.searchsorted(times.chained, i))
                entries.append((int(times.spent.numbers[place, -1]), -1.0))
                alone += float(stages.pause_s.sum())
            rows.add(entries, MICROSECONDS * alone)
    return rows.block("chains")


def max_latency(instance: Instance, variables: CallsNetworkVariables) -> Block:
    """longest >= passed_i - T_i, one row per request; none where it is the makespan."""
    times = variables.clock
    if not len(times.longest):
        return stacked("max_latency", [], 0)
    every = np.arange(len(instance))
    parts = [
        (every, np.repeat(times.longest.numbers, every.size), np.ones(every.size)),
        (every, times.passed[False].numbers, -np.ones(every.size)),
    ]
    return stacked("max_latency", parts, every.size, lower=-MICROSECONDS * instance.release_s)
