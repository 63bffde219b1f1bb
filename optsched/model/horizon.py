"""How many batches a schedule of at most a given makespan can have, and the reverse.

For every affine piece k of the batch time and every schedule of N batches,

    makespan >= (alpha_k + e) N + (p0 - e) Np + W_k,     e = min(d0, p0)
    W_k = sum over token events of min(beta_k + decode, beta_k S + fill)

because a batch takes at least alpha_k + beta_k n and, as it processes something, d0 or p0, which is
p0 in the Np = ceil(sum I / min(C, P)) batches or more that have a prefill. Every one of the O
tokens of a request comes from a fill of all S = I + g tokens (the first one always does) or, if
g >= 1, from one decode, which may itself end a chunked refill. The attention of a fill,
p_sq sum c^2 + p_mc sum m c over its chunks, is p_mc / 2 S^2 + (p_sq - p_mc / 2) sum c^2 with
S <= sum c^2 <= S^2, whichever end is smaller; and p_req is paid at least once.

A batch also takes at least g(1) = max_k (alpha_k + beta_k) whatever it holds, which bounds N
where no alpha_k + e is positive: the same inequality with alpha = g(1) and beta = 0.

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
    setup = min(cost.d0, cost.p0)
    prefill_batches = -(-int(instance.prompt_tokens.sum()) // instance.limits.fill_tokens)
    half, rest = cost.mixed / 2, cost.p_sq - cost.mixed / 2

    def work(beta: float) -> float:
        total = (cost.p0 - setup) * prefill_batches
        for kind in request_types(instance):
            size = kind.prompt_tokens + np.arange(kind.output_tokens, dtype=np.float64)
            fill = beta * size + half * size**2 + cost.p_req
            fill += np.minimum(rest * size, rest * size**2)
            least = np.minimum(fill, beta + cost.decode_time(size - 1))
            least[0] = fill[0]
            total += kind.count * float(least.sum())
        return total

    lines = [(alpha + setup, work(beta)) for alpha, beta in cost.pieces]
    lines.append((float(cost.token_time(1)) + setup, work(0.0)))
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
