"""Lower bounds on the time of a schedule that are affine in its number of batches.

For every affine piece k of the batch time and every schedule of N batches,

    makespan >= (alpha_k + e) N + (p0 - e) Np + W_k,     e = min(d0, p0)
    W_k = sum over token events of min(beta_k + decode, beta_k S + fill)

because a batch takes at least alpha_k + beta_k n and, as it processes something, d0 or p0, which is
p0 in the Np = ceil(sum (I + responses) / min(C, P)) batches or more that have a prefill. Every one
of the O tokens of a request comes from a fill of all S = I + g tokens, and the responses of calls
by then (the first one always does), or, if g >= 1, from one decode, which may itself end a chunked
refill; after a call with a response of R > 0 tokens not from a decode alone, but from 1 + R
tokens on S - 1 - R, of which the last one may be a decode. The attention of a fill,
p_sq sum c^2 + p_mc sum m c over its chunks, is p_mc / 2 S^2 + (p_sq - p_mc / 2) sum c^2 with
S <= sum c^2 <= S^2, whichever end is smaller; and p_req is paid at least once.

A batch also takes at least g(1) = max_k (alpha_k + beta_k) whatever it holds, which bounds N
where no alpha_k + e is positive: the same inequality with alpha = g(1) and beta = 0.

Waiting for an arrival or a call and swapping only add to the makespan, so all of this holds with
them too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optsched.instance import Call, Instance
from optsched.model.contexts import contexts

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Line:
    """One inequality: any batches that generate the tokens of some requests take at least
    ``slope`` each and ``work[i]`` for every such request, seconds; shape ``(requests,)``.

    ``prefill_s`` is due once in a schedule of all requests.
    """

    slope: float
    work: FloatArray
    prefill_s: float


def makespan_lines(instance: Instance, *, first_tokens: bool = False) -> tuple[Line, ...]:
    """The inequalities of all pieces and the flat one, for all tokens or only the first ones."""
    cost = instance.cost
    setup = min(cost.d0, cost.p0)
    prefills = int(instance.prompt_tokens.sum())
    if not first_tokens:
        prefills += sum(request.response_tokens for request in instance.requests)
    prefill_batches = -(-prefills // instance.limits.fill_tokens)
    half, rest = cost.mixed / 2, cost.p_sq - cost.mixed / 2

    sizes = contexts(instance)

    def spread(length: FloatArray) -> FloatArray:
        """(p_sq - p_mc / 2) sum c^2 of chunks of that many tokens together, at least."""
        return np.minimum(rest * length, rest * length**2)

    def of_request(i: int, tokens: int, beta: float) -> float:
        size = sizes.known[i, :tokens].astype(np.float64)
        response = sizes.response[i, :tokens]
        fill = beta * size + half * size**2 + cost.p_req
        fill += spread(size)
        decode = cost.decode_time(size - 1)
        least = np.minimum(fill, beta + decode)
        least[0] = fill[0]
        if response.any():
            held = size - 1 - response
            append = (
                beta * (1 + response)
                + cost.p_kv * held
                + cost.p_req
                + np.minimum(
                    half * (size**2 - held**2) + spread(size - held),
                    half * ((size - 1) ** 2 - held**2) + spread(size - 1 - held) + decode,
                )
            )
            least = np.where(response > 0, np.minimum(fill, append), least)
        return float(least.sum())

    def work(beta: float) -> FloatArray:
        known: dict[tuple[int, int, tuple[Call, ...]], float] = {}
        found = np.empty(len(instance))
        for i, request in enumerate(instance.requests):
            kind = request.prompt_tokens, request.output_tokens, request.calls
            if kind not in known:
                known[kind] = of_request(i, 1 if first_tokens else request.output_tokens, beta)
            found[i] = known[kind]
        return found

    pieces = [*cost.pieces, (float(cost.token_time(1)), 0.0)]
    prefill_s = (cost.p0 - setup) * prefill_batches
    return tuple(
        Line(slope=alpha + setup, work=work(beta), prefill_s=prefill_s) for alpha, beta in pieces
    )
