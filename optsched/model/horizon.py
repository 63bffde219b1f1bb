"""How many batches a schedule of at most a given makespan can have, and the reverse.

For every affine piece k of the batch time and every schedule of N batches,

    makespan >= (alpha_k + min(d0, p0)) N + W_k,
    W_k = sum over token events of min(beta_k + decode, beta_k S + p S^2 + p_req)

because a batch takes at least alpha_k + beta_k n and, as it processes something, d0 or p0; every
one of the O tokens of a request comes from a fill of all S = I + g tokens (the first one always
does) or, if g >= 1, from one decode, which may itself end a chunked refill. The attention of a
fill is at least p S^2 with p = min(p_sq, p_mc / 2), however it is chunked: the products of two
different chunks sum to (S^2 - sum c^2) / 2, so p_sq sum c^2 + p_mc (S^2 - sum c^2) / 2 >= p S^2.

A batch also takes at least g(1) = max_k (alpha_k + beta_k) whatever it holds, which bounds N
where no alpha_k + min(d0, p0) is positive:

    makespan >= (g(1) + min(d0, p0)) N + sum of the smaller attention alone.

Every inequality is affine in N, so each with a positive slope turns an upper bound on the
makespan into one on N: a rigorous horizon, with several pieces, decodes dearer than refills and
negative alphas included. With one piece, d0 = p0 = 0 and no decode dearer than its refill it is
floor((UB - const) / a0).
"""

from __future__ import annotations

import math

import numpy as np

from optsched.errors import require
from optsched.instance import Instance
from optsched.model.types import request_types

# Relative slack on the makespan, so that a rounding error never cuts off an optimal schedule.
_SLACK = 1e-9


def makespan_lines(instance: Instance) -> tuple[tuple[float, float], ...]:
    """Pairs (slope, intercept), seconds, with makespan >= slope N + intercept for each."""
    cost = instance.cost
    square = min(cost.p_sq, cost.mixed / 2)
    per_batch = min(cost.d0, cost.p0)

    def work(beta: float) -> float:
        total = 0.0
        for kind in request_types(instance):
            size = kind.prompt_tokens + np.arange(kind.output_tokens, dtype=np.float64)
            fill = beta * size + square * size * size + cost.p_req
            decode = beta + cost.decode_time(size - 1)
            least = np.minimum(fill, decode)
            least[0] = fill[0]
            total += kind.count * float(least.sum())
        return total

    lines = [(alpha + per_batch, work(beta)) for alpha, beta in cost.pieces]
    lines.append((float(cost.token_time(1)) + per_batch, work(0.0)))
    return tuple(lines)


def least_makespan_s(instance: Instance, batches: int) -> float:
    """A lower bound on the makespan of every schedule of exactly ``batches`` batches, seconds."""
    return max(slope * batches + intercept for slope, intercept in makespan_lines(instance))


def most_batches(instance: Instance, makespan_s: float) -> int:
    """The largest number of batches of any schedule that takes at most ``makespan_s``.

    Raises
    ------
    InvalidInputError
        No schedule is that short.
    """
    lines = makespan_lines(instance)
    allowed = makespan_s * (1 + _SLACK)
    most = min(math.floor((allowed - work) / slope) for slope, work in lines if slope > 0)
    require(
        most >= 1 and least_makespan_s(instance, most) <= allowed,
        "makespan_s", makespan_s, "a makespan that some schedule can have",
    )  # fmt: skip
    return most
