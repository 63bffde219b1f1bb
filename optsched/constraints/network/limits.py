"""Rules ``batch_tokens``, ``prefill_tokens`` and ``batch_requests``: what one batch processes.

    sum (I+g) p + (I+g-1) r + f_j - f_(j-1) + d <= C y_j
    sum (I+g) p + (I+g-1) r + f_j - f_(j-1)     <= P y_j
    sum p + d + r + z_j                         <= R y_j

A limit that cannot bind has no rows. A request that stays partially filled without being
processed counts against R as well, which is on the safe side.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optsched.constraints.network.blocks import Part, stacked
from optsched.instance import Instance
from optsched.model.milp import Block
from optsched.model.network import NetworkVariables

IntArray = NDArray[np.int64]


def batch_tokens(instance: Instance, variables: NetworkVariables) -> Block:
    """Rows: batches; none where M <= C, since what a batch processes it also caches."""
    limits = instance.limits
    if limits.kv_tokens <= limits.batch_tokens:
        return stacked("batch_tokens", [], 0)
    processed = variables.batch_sum(variables.arcs.tokens, of_partials=True)
    return _at_most("batch_tokens", variables, [processed], limits.batch_tokens)


def prefill_tokens(instance: Instance, variables: NetworkVariables) -> Block:
    """Rows: batches; none where P >= min(M, C)."""
    limits, arcs = instance.limits, variables.arcs
    if min(limits.kv_tokens, limits.batch_tokens) <= limits.fill_tokens:
        return stacked("prefill_tokens", [], 0)
    prefilled = variables.batch_sum(arcs.tokens * arcs.prefills, of_partials=True)
    return _at_most("prefill_tokens", variables, [prefilled], limits.fill_tokens)


def batch_requests(instance: Instance, variables: NetworkVariables) -> Block:
    """Rows: batches; none without a limit below the number of requests."""
    limit, partials = instance.limits.batch_requests, variables.partials
    if limit is None or limit >= len(instance):
        return stacked("batch_requests", [], 0)
    processed = variables.batch_sum((variables.arcs.tokens > 0).astype(np.int64))
    partial = (partials.batch - 1, partials.begun, np.ones(len(partials)))
    return _at_most("batch_requests", variables, [processed, partial], limit)


def _at_most(name: str, variables: NetworkVariables, parts: list[Part], limit: int) -> Block:
    used = variables.used
    capacity = (np.arange(used.size), used, np.full(used.size, -float(limit)))
    return stacked(name, [*parts, capacity], used.size, upper=0.0)
