"""Which paces to charge by: what a step pays for its part of a batch, by the batch's duration.

Two things limit how much a batch of duration t can do for the decodes in it. Its time: their work
w adds up to t - alpha at most, so each may be charged t / (t - alpha) w / t. And memory: with the
constant shared by KV held each may be charged (w + alpha S / M) / t, which is B6's charge. The
former is more in short batches, the latter in batches of full memory, which for the mean resident
take about t*. So paces go over from the one to the other on the way to t*.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optsched.instance import Instance
from optsched.time_pricing import Pace

FloatArray = NDArray[np.float64]
_BELOW = 1 - 1e-9  # rounding must not make a pace charge more than a batch takes


@dataclass(frozen=True, kw_only=True)
class PaceOptions:
    """Levels of duration, and where memory begins to be charged and is all that is charged for, as
    multiples of t*."""

    levels: int
    memory_from: float = 0.9
    memory_alone: float = 1.0


def paces_for(instance: Instance, options: PaceOptions) -> tuple[Pace, ...]:
    """Paces from the shortest batch on."""
    cost, limits = instance.cost, instance.limits
    kv_tokens = limits.block_tokens * (limits.kv_tokens // limits.block_tokens)
    size, shared = mean_resident(instance), shared_piece(instance)
    constant = max(cost.pieces[shared][0], 0.0)
    shortest = max(alpha + beta for alpha, beta in cost.pieces) * (1 - 1e-12)
    full = full_batch_s(instance)
    first, last = (
        max(full * x, shortest) for x in (options.memory_from, options.memory_alone)
    )  # fmt: skip
    last = max(last, first, shortest * 1.0001)
    edges = np.concatenate([
        [shortest], np.geomspace(min(shortest * 1.02, last), last, options.levels)
    ])  # fmt: skip
    edges = np.unique(edges)
    paces = []
    for start, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        by_memory = float(np.clip((end - first) / (last - first), 0, 1)) if last > first else 0.0
        piece, factor = _most_charged(instance, end, size)
        rates = [0.0] * len(cost.pieces)
        rates[shared] += by_memory * _alone(cost.pieces[shared][0], start)
        rates[piece] += (1 - by_memory) * factor * _BELOW
        memory = by_memory * constant / kv_tokens * _BELOW
        paces.append(Pace(from_s=start, pieces=tuple(rates), memory_s=memory))
    rates = [0.0] * len(cost.pieces)
    rates[shared] = _alone(cost.pieces[shared][0], float(edges[-1]))
    paces.append(
        Pace(from_s=float(edges[-1]), pieces=tuple(rates), memory_s=constant / kv_tokens * _BELOW)
    )
    return tuple(paces)


def _alone(alpha: float, start_s: float) -> float:
    """Factor on the work under a piece whose constant is shared: 1, or less if it is negative."""
    return _BELOW * (1.0 if alpha >= 0 else start_s / (start_s - alpha))


def shared_piece(instance: Instance) -> int:
    """The steepest piece of the law that has a constant to be shared."""
    pieces = instance.cost.pieces
    return max(range(len(pieces)), key=lambda k: (pieces[k][0] >= 0, pieces[k][1]))


def mean_resident(instance: Instance) -> float:
    """Mean KV of a request over the batches that make its tokens."""
    prompt, output = instance.prompt_tokens, instance.output_tokens
    area = output * prompt + output * (output - 1) // 2
    return float(area.sum() / output.sum())


def full_batch_s(instance: Instance) -> float:
    """t*: duration of a batch of decodes that fill the memory."""
    cost, kv_tokens = instance.cost, instance.limits.kv_tokens
    running = min(kv_tokens / mean_resident(instance), instance.limits.batch_tokens)
    tokens = max(alpha + beta * running for alpha, beta in cost.pieces)
    return float(tokens + cost.d0 + cost.d_kv * kv_tokens + cost.d_req * running)


def _most_charged(instance: Instance, duration_s: float, size: float) -> tuple[int, float]:
    """The piece under which a decode to ``size`` tokens may be charged most in a batch of this
    duration, and the factor on its work."""
    cost = instance.cost
    attention = cost.d_kv * (size - 1) + cost.d_req
    best, found = -1.0, (0, 0.0)
    for k, (alpha, beta) in enumerate(cost.pieces):
        # With a negative constant the shortest durations of the pace would be overcharged.
        factor = duration_s / (duration_s - alpha) if 0 <= alpha < duration_s else 0.0
        if factor * (beta + attention) > best:
            best, found = factor * (beta + attention), (k, factor)
    return found
