"""An instance with calls as plain arrays and numbers, for the tight loop of the look-ahead.

A request is a chain of *segments*: what it generates up to a call, or to its end. Arrays over
segments hold those of all requests one after another.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from optsched.instance import Instance
from optsched.warmstart.settings import knots

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
LAST = -1.0  # in place of the pause after a segment that ends its request


class Shape(NamedTuple):
    """Requests and their segments.

    Parameters
    ----------
    arrive_s : float array, shape ``(requests,)``
        Arrival on the schedule's clock, ascending.
    prompt : int array, shape ``(requests,)``
        I.
    begin : int array, shape ``(requests + 1,)``
        First segment of each request.
    made : int array, shape ``(segments,)``
        Output tokens generated in a segment.
    pause_s : float array, shape ``(segments,)``
        Duration of the call that ends it; :data:`LAST` if none does.
    response : int array, shape ``(segments,)``
        Tokens that the call appends.
    """

    arrive_s: FloatArray
    prompt: IntArray
    begin: IntArray
    made: IntArray
    pause_s: FloatArray
    response: IntArray


class Law(NamedTuple):
    """The batch-time law; ``knots`` are the token counts before a steeper piece takes over."""

    alpha: FloatArray
    beta: FloatArray
    knots: IntArray
    d0: float
    d_kv: float
    d_req: float
    p0: float
    p_sq: float
    p_mc: float
    p_kv: float
    p_req: float
    swap_tok: float


class Room(NamedTuple):
    """The limits: M in whole pages, C, min(C, P), requests per batch, page size, host memory."""

    kv: int
    tokens: int
    fill: int
    requests: int
    block: int
    host: int


def shape_of(instance: Instance) -> Shape:
    """The requests of ``instance``, which are in order of arrival, in segments."""
    begin, made, pause_s, response = [0], [], [], []
    for request in instance.requests:
        last = 0
        for call in request.calls:
            made.append(call.after_tokens - last)
            pause_s.append(call.duration_s)
            response.append(call.response_tokens)
            last = call.after_tokens
        made.append(request.output_tokens - last)
        pause_s.append(LAST)
        response.append(0)
        begin.append(len(made))
    return Shape(
        arrive_s=np.array(instance.release_s),
        prompt=np.array(instance.prompt_tokens),
        begin=np.array(begin, dtype=np.int64),
        made=np.array(made, dtype=np.int64),
        pause_s=np.array(pause_s, dtype=np.float64),
        response=np.array(response, dtype=np.int64),
    )


def law_of(instance: Instance) -> Law:
    """The batch-time law of ``instance``."""
    cost = instance.cost
    alpha, beta = np.array(cost.pieces, dtype=np.float64).T
    return Law(
        alpha=np.ascontiguousarray(alpha), beta=np.ascontiguousarray(beta),
        knots=np.array(knots(cost), dtype=np.int64),
        d0=cost.d0, d_kv=cost.d_kv, d_req=cost.d_req, p0=cost.p0, p_sq=cost.p_sq,
        p_mc=cost.mixed, p_kv=cost.p_kv, p_req=cost.p_req, swap_tok=cost.swap_tok,
    )  # fmt: skip


def room_of(instance: Instance) -> Room:
    """The limits of ``instance``."""
    limits = instance.limits
    return Room(
        kv=limits.kv_tokens // limits.block_tokens * limits.block_tokens,
        tokens=limits.batch_tokens,
        fill=limits.fill_tokens,
        requests=limits.batch_requests or len(instance),
        block=limits.block_tokens,
        host=limits.host_kv_tokens,
    )


def contexts(shape: Shape) -> IntArray:
    """Tokens known at the start of every segment, the response included; ``(segments,)``."""
    gain = shape.made + shape.response
    before = np.cumsum(gain) - gain
    first = np.repeat(shape.begin[:-1], np.diff(shape.begin))
    owner = np.repeat(np.arange(shape.prompt.size), np.diff(shape.begin))
    known: IntArray = shape.prompt[owner] + before - before[first]
    return known


def fills(shape: Shape) -> IntArray:
    """Tokens to process before the first token of a segment, if its KV is kept; ``(segments,)``."""
    tokens = np.concatenate(([0], 1 + shape.response[:-1]))
    tokens[shape.begin[:-1]] = shape.prompt
    return tokens
