"""The clock: when batches start and end, in microseconds.

S_j >= E_(j-1),   E_j >= S_j
E_j - S_j >= alpha_k y_j + beta_k n_j + attention and copying + d0 D_j + p0 P_j    for all k
made_igj = made_ig(j-1) + (request i generates its token g in batch j)
spent_ij = spent_i(j-1) + (what the step of request i in batch j takes alone)
"""

from __future__ import annotations

import numpy as np

from optsched.constraints.network.blocks import Part, stacked
from optsched.instance import Instance
from optsched.model.calls_network import CallsNetworkVariables
from optsched.model.calls_network_prices import alone_s
from optsched.model.milp import Block
from optsched.model.network_clock import MICROSECONDS


def clock(instance: Instance, variables: CallsNetworkVariables) -> Block:
    """Rows: two per batch and one per batch and piece."""
    arcs, times, most = variables.arcs, variables.clock, variables.most
    start, end, every = times.start.numbers, times.end.numbers, np.arange(most)
    ones = np.ones(most)
    parts: list[Part] = [
        (every, start, ones),
        (every[1:], end[:-1], -ones[1:]),
        (most + every, end, ones),
        (most + every, start, -ones),
    ]
    rows = 2 * most
    busy = np.flatnonzero((arcs.tokens > 0) | (arcs.attention_s > 0))
    for alpha, beta in instance.cost.pieces:
        time = beta * arcs.tokens[busy] + arcs.attention_s[busy]
        parts += [
            (rows + every, end, ones),
            (rows + every, start, -ones),
            (rows + every, variables.used, -MICROSECONDS * alpha * ones),
            (rows + arcs.batch[busy] - 1, busy, -MICROSECONDS * time),
        ]
        for columns, setup in (
            (variables.any_decode, instance.cost.d0),
            (variables.any_prefill, instance.cost.p0),
        ):
            if columns.size and setup:
                parts.append((rows + every, columns, -MICROSECONDS * setup * ones))
        rows += most
    return stacked("clock", parts, rows, lower=0.0)


def made(instance: Instance, variables: CallsNetworkVariables) -> Block:
    """Rows: one per token that is followed, and batch."""
    arcs, times, most = variables.arcs, variables.clock, variables.most
    numbers = times.made.numbers
    token = np.flatnonzero(arcs.generates)
    wanted = np.full((len(instance), int(instance.output_tokens.max()) + 1), -1)
    for token_of, place in times.row_of_token.items():
        wanted[token_of] = place
    which = wanted[arcs.request[token], arcs.stage[token] + 1]
    mine = token[which >= 0]
    row = np.arange(numbers.size).reshape(numbers.shape)
    parts: list[Part] = [
        (row.ravel(), numbers.ravel(), np.ones(numbers.size)),
        (row[:, 1:].ravel(), numbers[:, :-1].ravel(), -np.ones(row[:, 1:].size)),
        (which[which >= 0] * most + arcs.batch[mine] - 1, mine, -np.ones(mine.size)),
    ]
    return stacked("made", parts, numbers.size, lower=0.0, upper=0.0)


def spent(instance: Instance, variables: CallsNetworkVariables) -> Block:
    """Rows: one per batch and request that arrives late or makes calls."""
    arcs, times, most = variables.arcs, variables.clock, variables.most
    numbers = times.spent.numbers
    place = np.full(len(instance), -1)
    place[times.chained] = np.arange(times.chained.size)
    token = np.flatnonzero(arcs.generates & (place[arcs.request] >= 0))
    row = np.arange(numbers.size).reshape(numbers.shape)
    parts = [
        (row.ravel(), numbers.ravel(), np.ones(numbers.size)),
        (row[:, 1:].ravel(), numbers[:, :-1].ravel(), -np.ones(row[:, 1:].size)),
        (
            place[arcs.request[token]] * most + arcs.batch[token] - 1, token,
            -MICROSECONDS * alone_s(instance, arcs)[token],
        ),
    ]  # fmt: skip
    return stacked("spent", parts, numbers.size, lower=0.0, upper=0.0)
