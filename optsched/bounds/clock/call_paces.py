"""Paces for requests that may make calls: what a step is charged by the duration of its batch.

In a batch of duration t one piece of the batch-time law is the one that matters, alpha + beta n: up
to the first knot of the law and room for the attention of decodes the first one, and so on. Its
work w is charged t / (t - alpha) w: a step alone in a batch is charged all of it. Durations are
told apart finely where that changes much, close above the constant of the first piece.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from optsched.instance import Instance
from optsched.time_pricing import Pace

FloatArray = NDArray[np.float64]
_BELOW = 1 - 1e-9  # rounding must not make a pace charge more than a batch takes
_CLOSE, _NEAR, _FAR = 5, 110, 25  # durations told apart
_ATTENTION = 0.5  # of the constant of the first piece: room for the attention of decodes


def call_paces(instance: Instance) -> tuple[Pace, ...]:
    """Paces from the shortest batch on."""
    pieces = _envelope(instance)
    shortest = max(alpha + beta for alpha, beta in instance.cost.pieces) * (1 - 1e-12)
    first = max(pieces[0][0], shortest / 2)
    above = np.concatenate([
        np.geomspace(0.002, 0.02, _CLOSE, endpoint=False),
        np.geomspace(0.02, 0.6, _NEAR, endpoint=False), np.geomspace(0.6, 40, _FAR),
    ])  # fmt: skip
    edges = np.unique(np.concatenate([[shortest], np.maximum(first * (1 + above), shortest)]))
    until = _until(pieces, first)
    paces = []
    for k, start in enumerate(edges.tolist()):
        end = edges[k + 1] if k + 1 < edges.size else None
        alpha, _ = piece = pieces[int(np.searchsorted(until, start, side="right"))]
        rates = [start / (start - alpha)]
        rates.append(1.0 if end is None else float(end / (end - alpha)))
        charged = [0.0] * len(instance.cost.pieces)
        charged[instance.cost.pieces.index(piece)] = max(0.0, min(rates)) * _BELOW
        paces.append(Pace(from_s=start, pieces=tuple(charged), memory_s=0.0))
    return tuple(paces)


def _envelope(instance: Instance) -> list[tuple[float, float]]:
    """Pieces that are the largest for some number of tokens, by slope."""
    tokens = np.unique(np.geomspace(1, instance.limits.batch_tokens, 400).astype(np.int64))
    times = [alpha + beta * tokens for alpha, beta in instance.cost.pieces]
    largest = dict.fromkeys(np.argmax(times, axis=0).tolist())
    return [instance.cost.pieces[k] for k in largest]


def _until(pieces: list[tuple[float, float]], first: float) -> FloatArray:
    """Duration of a batch up to which each piece but the last is the one that is charged."""
    knots = []
    for (a, b), (c, d) in pairwise(pieces):
        n = (a - c) / (d - b)
        knots.append(a + b * n + _ATTENTION * first)
    return np.asarray(knots, dtype=np.float64)
