"""Sums over all requests for every batch, from stretches and moves.

A stretch adds its tokens where it begins and takes them off where it ends, so that running totals
of these differences are the sums per batch, and the running total of the tokens is the KV that
they leave. In pages of b tokens, KV grows where a stretch enters a page.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optsched.check.axis import Axis
from optsched.check.history import Moves, Steps

IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Sums:
    """Per batch of ``axis``, ``(batches,)`` each: ``tokens`` processed and those of them in
    prefill steps, ``requests`` processed and those of them in prefill steps, and after the batch
    the ``kv`` tokens taken on the GPU (whole pages) and the ``host`` tokens."""

    tokens: IntArray
    prefill_tokens: IntArray
    requests: IntArray
    prefill_requests: IntArray
    kv: IntArray
    host: IntArray


def sums(steps: Steps, moves: Moves, axis: Axis, block: int) -> Sums:
    """All sums; ``axis`` covers the stretches and the moves, ``block`` is the page size b."""
    size = axis.size
    first = axis.position(steps.first)
    stop = first + steps.batches
    prefill = steps.decode == 0
    tokens = _level(first, stop, steps.tokens, size)
    moved = axis.position(moves.batch) + moves.later
    pages = np.sign(moves.gpu) * _pages(np.abs(moves.gpu), block) * block
    growth = tokens if block == 1 else block * _new_pages(steps, first, block, size)
    return Sums(
        tokens=tokens,
        prefill_tokens=_level(first[prefill], stop[prefill], steps.tokens[prefill], size),
        requests=_level(first, stop, np.ones_like(first), size),
        prefill_requests=_level(
            first[prefill], stop[prefill], np.ones(int(prefill.sum()), dtype=np.int64), size
        ),
        kv=np.cumsum(growth + _at(moved, pages, size)),
        host=np.cumsum(_at(moved, moves.host, size)),
    )


def _at(position: IntArray, amount: IntArray, size: int) -> IntArray:
    """Sum of the amounts at each position; what falls behind the last one is dropped."""
    total = np.zeros(size + 1, dtype=np.int64)
    np.add.at(total, position, amount)
    return total[:size]


def _level(first: IntArray, stop: IntArray, amount: IntArray, size: int) -> IntArray:
    """Sum, at each position, of the amounts whose stretch covers it."""
    return np.cumsum(_at(first, amount, size) - _at(stop, amount, size))


def _pages(tokens: IntArray, block: int) -> IntArray:
    return -(-tokens // block)


def _new_pages(steps: Steps, first: IntArray, block: int, size: int) -> IntArray:
    """Pages entered at each position.

    A stretch from m cached tokens with c per batch enters page k (which holds the tokens from
    k b + 1) in its batch number (k b - m) // c, from 0. Steps of a page or more enter pages in
    every batch and are looked at batch by batch.
    """
    end = steps.cached + steps.tokens * steps.batches
    before, after = _pages(steps.cached, block), _pages(end, block)
    one = steps.batches == 1
    small = ~one & (steps.tokens < block)
    large = ~one & ~small

    total = _at(first[one], (after - before)[one], size)
    row, ordinal = _expand(np.where(small, after - before, 0))
    enters = ((before[row] + ordinal) * block - steps.cached[row]) // steps.tokens[row]
    total += _at(first[row] + enters, np.ones_like(row), size)
    row, ordinal = _expand(np.where(large, steps.batches, 0))
    cached = steps.cached[row] + ordinal * steps.tokens[row]
    entered = _pages(cached + steps.tokens[row], block) - _pages(cached, block)
    return total + _at(first[row] + ordinal, entered, size)


def _expand(count: IntArray) -> tuple[IntArray, IntArray]:
    """Row r ``count[r]`` times, and the ordinal of each copy among those of its row."""
    row = np.repeat(np.arange(count.size), count)
    return row, np.arange(row.size) - np.repeat(np.cumsum(count) - count, count)
