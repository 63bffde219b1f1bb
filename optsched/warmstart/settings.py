"""Settings that look-ahead schedulers try, derived from the instance."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import ceil, floor

import numpy as np

from optsched.cost import CostModel
from optsched.instance import Instance
from optsched.warmstart.groups import kv_area

# From here on a schedule takes a second or more, and only the settings that matter are tried.
_LARGE = 4000
_CAPS = (1.0, 7 / 6, 4 / 3, 5 / 3, 2.0, 8 / 3)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Values to try.

    Parameters
    ----------
    decode_rooms : tuple of int
        Tokens of a batch left to decodes: none, about as many as run in a steady state, and more.
    levels : tuple of int
        Knots of the batch-time law: tokens up to which they are cheaper than beyond.
    caps : tuple of int
        Tokens of a batch near n* = argmin g(n) / n, and C.
    batch_sizes : tuple of int
        Tokens of levelled batches: n*, those that make all batches equal, the knots, and twice the
        mean where memory asks for more batches than that.
    patience : tuple of int
        KV tokens that may stay free until fills share a batch; none if a batch with any prefill
        costs nothing extra.
    spare_tokens : tuple of int
        KV tokens that start rates leave free.
    large : bool
        Whether to try few combinations.
    """

    decode_rooms: tuple[int, ...]
    levels: tuple[int, ...]
    caps: tuple[int, ...]
    batch_sizes: tuple[int, ...]
    patience: tuple[int, ...]
    spare_tokens: tuple[int, ...]
    large: bool


def settings(instance: Instance) -> Settings:
    """The values to try for ``instance``."""
    limits = instance.limits
    prompt, output = instance.prompt_tokens, instance.output_tokens
    resident = float(kv_area(prompt, output).sum() / output.sum())
    running = min(len(instance), limits.batch_requests or len(instance))
    running = min(running, ceil(limits.kv_tokens / resident))
    most = limits.batch_tokens - 1
    large = len(instance) > _LARGE
    final = int(instance.final_tokens.mean())
    rooms = (3 * running,) if large else (0, running, 2 * running)
    best = cheapest_batch(instance.cost, limits.batch_tokens)
    caps = [min(limits.batch_tokens, round(best * factor)) for factor in _CAPS]
    return Settings(
        decode_rooms=tuple(sorted({min(most, room) for room in rooms})),
        levels=tuple(k for k in knots(instance.cost) if k < limits.batch_tokens),
        caps=tuple(sorted({*caps, limits.batch_tokens})),
        batch_sizes=_batch_sizes(instance, best, large),
        patience=(3 * final,) if instance.cost.p0 > 0 else (),
        spare_tokens=(0, final // 2, final),
        large=large,
    )


def _batch_sizes(instance: Instance, best: int, large: bool) -> tuple[int, ...]:
    """Tokens of levelled batches, ascending; those that only large batches make differ."""
    limits = instance.limits
    tokens = int(instance.final_tokens.sum())
    area = int(kv_area(instance.prompt_tokens, instance.output_tokens).sum())
    mean = -(-tokens // max(1, area // limits.kv_tokens))
    sizes = {best, 2 * mean}
    if not large:
        fewest = max(1, tokens // best)
        sizes |= {-(-tokens // fewest), -(-tokens // (fewest + 1)), mean}
        sizes |= set(knots(instance.cost)) | {limits.batch_tokens // 4, limits.batch_tokens}
    return tuple(sorted({min(max(1, size), limits.batch_tokens) for size in sizes}))


def knots(cost: CostModel) -> tuple[int, ...]:
    """Largest whole numbers of tokens before a steeper piece takes over, ascending."""
    # Duplicate slopes keep only the piece that can be the largest.
    steepest: dict[float, float] = {}
    for alpha, beta in cost.pieces:
        steepest[beta] = max(alpha, steepest.get(beta, -np.inf))
    pieces = sorted((beta, alpha) for beta, alpha in steepest.items())
    found = set()
    for (low, high_alpha), (high, low_alpha) in pairwise(pieces):
        knot = floor((high_alpha - low_alpha) / (high - low) + 1e-6)
        if knot >= 1:
            found.add(knot)
    return tuple(sorted(found))


def cheapest_batch(cost: CostModel, most: int) -> int:
    """n* <= ``most`` with the least time per token, g(n) / n: a knot, or ``most`` itself."""
    sizes = np.array(sorted({*(k for k in knots(cost) if k < most), most}))
    return int(sizes[np.argmin(cost.token_time(sizes) / sizes)])
