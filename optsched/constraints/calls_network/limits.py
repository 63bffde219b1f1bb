"""What a batch can hold and process.

    kv_capacity      sum of pages after the batch            <= M y_j
    host_capacity    sum of swapped tokens after the batch   <= H y_j
    batch_tokens     sum of tokens                           <= C y_j
    prefill_tokens   sum of prefill tokens                   <= P y_j
    batch_requests   number of requests processed            <= R y_j

A limit that cannot bind has no rows. :func:`rounding` strengthens the first, see
:mod:`optsched.constraints.network.rounding`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optsched.constraints.network.blocks import Part, stacked
from optsched.constraints.network.rounding import thresholds
from optsched.instance import Instance
from optsched.model.calls_network import CallsNetworkVariables
from optsched.model.milp import Block

IntArray = NDArray[np.int64]


def kv_capacity(instance: Instance, variables: CallsNetworkVariables) -> Block:
    """Rows: batches."""
    return _at_most("kv_capacity", variables, variables.arcs.pages, instance.limits.kv_tokens)


def host_capacity(instance: Instance, variables: CallsNetworkVariables) -> Block:
    """Rows: batches; none where nothing is swapped or all fits."""
    arcs, limit = variables.arcs, instance.limits.host_kv_tokens
    largest = np.zeros(len(instance), dtype=np.int64)
    np.maximum.at(largest, arcs.request, arcs.swapped)
    if int(largest.sum()) <= limit:
        return stacked("host_capacity", [], 0)
    return _at_most("host_capacity", variables, arcs.swapped, limit)


def batch_tokens(instance: Instance, variables: CallsNetworkVariables) -> Block:
    """Rows: batches; none where M <= C, since what a batch processes it also caches."""
    limits = instance.limits
    if limits.kv_tokens <= limits.batch_tokens:
        return stacked("batch_tokens", [], 0)
    return _at_most("batch_tokens", variables, variables.arcs.tokens, limits.batch_tokens)


def prefill_tokens(instance: Instance, variables: CallsNetworkVariables) -> Block:
    """Rows: batches; none where P >= min(M, C)."""
    limits, arcs = instance.limits, variables.arcs
    if min(limits.kv_tokens, limits.batch_tokens) <= limits.fill_tokens:
        return stacked("prefill_tokens", [], 0)
    return _at_most("prefill_tokens", variables, arcs.tokens * arcs.prefill, limits.fill_tokens)


def batch_requests(instance: Instance, variables: CallsNetworkVariables) -> Block:
    """Rows: batches; none without a limit below the number of requests."""
    limit = instance.limits.batch_requests
    if limit is None or limit >= len(instance):
        return stacked("batch_requests", [], 0)
    return _at_most("batch_requests", variables, variables.arcs.generates.astype(np.int64), limit)


def rounding(instance: Instance, variables: CallsNetworkVariables) -> Block:
    """Rows: one per threshold and batch: a request of at least t tokens takes one of M / t places,
    a larger one several."""
    arcs, capacity = variables.arcs, instance.limits.kv_tokens
    sizes = arcs.pages[arcs.pages > 0]
    parts: list[Part] = []
    rows = 0
    for t in thresholds(capacity, int(sizes.min()), int(sizes.max())):
        parts += _parts(variables, arcs.pages // t, capacity // t, rows)
        rows += variables.most
    return stacked("rounding", parts, rows, upper=0.0)


def _at_most(name: str, variables: CallsNetworkVariables, weight: IntArray, limit: int) -> Block:
    return stacked(name, _parts(variables, weight, limit, 0), variables.most, upper=0.0)


def _parts(variables: CallsNetworkVariables, weight: IntArray, limit: int, rows: int) -> list[Part]:
    at, used = np.flatnonzero(weight), variables.used
    return [
        (rows + variables.arcs.batch[at] - 1, at, weight[at].astype(np.float64)),
        (rows + np.arange(used.size), used, np.full(used.size, -float(limit))),
    ]
