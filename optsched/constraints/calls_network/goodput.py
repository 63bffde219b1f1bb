"""Goodput with TTFT and latency objectives.

    E_j <= T_i + SLO_i + (horizon) (1 - met_i) + (horizon) (1 - request i passes in batch j)

with the milestone of the objective, the first token or the end.
"""

from __future__ import annotations

import numpy as np

from optsched.constraints.network.blocks import Part, stacked
from optsched.instance import Instance
from optsched.model.calls_network import CallsNetworkVariables
from optsched.model.milp import Block
from optsched.model.network_clock import MICROSECONDS


def goodput(instance: Instance, variables: CallsNetworkVariables) -> Block:
    """Rows: one per objective of a request and batch in which it may pass the milestone."""
    arcs, times = variables.arcs, variables.clock
    if not len(times.met):
        return stacked("goodput", [], 0)
    horizon = MICROSECONDS * float(times.latest_s[-1])
    parts: list[Part] = []
    upper = [np.zeros(0)]
    rows = 0
    for i, request in enumerate(instance.requests):
        for slo, stage in ((request.ttft_slo_s, 0), (request.latency_slo_s, -1)):
            if slo is None:
                continue
            g = stage % request.output_tokens
            arc = np.flatnonzero(arcs.generates & (arcs.request == i) & (arcs.stage == g))
            batch = np.unique(arcs.batch[arc])
            every = rows + np.arange(batch.size)
            parts += [
                (every, times.end.numbers[batch - 1], np.ones(batch.size)),
                (every, np.full(batch.size, times.met.numbers[i]), np.full(batch.size, horizon)),
                (
                    rows + np.searchsorted(batch, arcs.batch[arc]), arc,
                    np.full(arc.size, horizon),
                ),
            ]  # fmt: skip
            deadline = MICROSECONDS * (float(instance.release_s[i]) + slo)
            upper.append(np.full(batch.size, deadline + 2 * horizon))
            rows += batch.size
    return stacked("goodput", parts, rows, upper=np.concatenate(upper))
