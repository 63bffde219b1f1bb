"""How long one batch of the unchunked network can take, beyond the least that any takes.

A batch of q requests, each filled or decoded, has a duration of

    max_k (alpha_k + beta_k n) + sum over requests of attention + d0 + p0

with n the tokens. For every piece k it is a sum over requests, so with v_k(s) the most that a
request which holds s tokens after the batch adds, whether it was filled or decoded,

    duration <= max_k alpha_k + min(q max_s v_k(s), M max_s v_k(s) / pages(s)) + d0 + p0.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from optsched.instance import Instance
from optsched.model.types import RequestType

FloatArray = NDArray[np.float64]

_SLACK = 1e-9  # so that rounding puts no batch above the most


def least_duration_s(instance: Instance) -> float:
    """A lower bound on the duration of every batch, seconds; positive."""
    cost = instance.cost
    return float(cost.token_time(1)) + min(cost.d0, cost.p0)


def most_beyond_s(instance: Instance, types: Sequence[RequestType]) -> FloatArray:
    """Entry q: how much longer than :func:`least_duration_s` a batch of at most q requests can
    take, seconds; shape ``(requests + 1,)``, nondecreasing from 0."""
    cost, limits = instance.cost, instance.limits
    sizes = [kind.prompt_tokens + np.arange(kind.output_tokens) for kind in types]
    size = np.unique(np.concatenate(sizes)).astype(np.float64)
    pages = limits.block_tokens * np.ceil(size / limits.block_tokens)
    count = np.arange(len(instance) + 1, dtype=np.float64)
    if limits.batch_requests is not None:
        count = np.minimum(count, limits.batch_requests)
    longest = np.zeros(count.size)
    for alpha, beta in cost.pieces:
        fill = beta * size + cost.prefill_time(size, 0)
        value = np.maximum(fill, beta + cost.decode_time(size - 1))
        together = np.minimum(count * value.max(), limits.kv_tokens * (value / pages).max())
        longest = np.maximum(longest, alpha + together)
    beyond = longest * (1 + _SLACK) + cost.d0 + cost.p0 - least_duration_s(instance)
    beyond[0] = 0.0
    return np.maximum(beyond, 0.0)
