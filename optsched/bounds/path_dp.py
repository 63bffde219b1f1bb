"""Cheapest way of one request through priced batches, exactly, in whole numbers.

See ``lagrangian`` for what the prices mean. Prices are the same for all batches of a bucket of
``stride`` batches. Let a request make its token k (from 0) in batch j_k. For each residue r the
tokens r, r + stride, .. lie in buckets that increase strictly, so the request is followed as
``min(stride, O)`` paths over buckets, one per residue, each a sequence of groups:

    event   a token of memory size m_g = offset + stride * g in bucket u costs
            memory[u] m_g + event[u]
    hold    in a bucket without event of this residue, while the request stays resident: of the
            batches of the bucket without a token of the request (or after the last one made), one
            is charged to each such residue, memory[u] m_g
    evict   free of memory until the next event; the refill's price is split evenly between residues
    fill    the I - 1 prompt tokens before the one that makes the event, at the least price of any
            bucket so far, and the least ``prefill`` of any for that one, split likewise

For stride 1 this is the path itself. Every path price is affine in the offset and in the number of
fill tokens, so the least one is concave in both: at values between it is at least the bilinear
interpolation of the corners of a cell, which is how many requests share few evaluations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
SAFE = 2**61  # all intermediate values stay below


@dataclass(frozen=True, kw_only=True, eq=False)
class PathPrices:
    """Whole-number prices per bucket, all of shape ``(buckets,)`` and >= 0.

    ``memory`` per KV token held in a batch, ``event`` per generated token, ``fill`` per token of
    a fill, ``prefill`` its part that a token which ends a first fill pays on top of ``event``.
    """

    memory: IntArray
    event: IntArray
    fill: IntArray
    prefill: IntArray


def cheapest_paths(
    prices: PathPrices, *, stride: int, first_bucket: int, groups: int, fill_tokens: IntArray,
    offsets: IntArray, refill: IntArray, refill_tokens: IntArray,
) -> IntArray:  # fmt: skip
    """``stride`` times the price of the cheapest path of 1, 2, .. ``groups`` groups.

    Parameters
    ----------
    stride, first_bucket, groups : int
        Batches per bucket, first bucket that can hold an event, number of groups;
        ``first_bucket + groups`` must not exceed the number of buckets.
    fill_tokens, offsets : int array, shape ``(paths,)``
        Tokens of the first fill but for the last one; memory size of the first event.
    refill, refill_tokens : int array, shape ``(groups - 1,)``
        Price and prefill tokens of a refill that leads to group 1, 2, ..

    Returns
    -------
    int array, shape ``(paths, groups)``
    """
    at = np.cumsum(prices.memory)
    fill = np.minimum.accumulate(prices.fill)
    last = np.minimum.accumulate(prices.prefill)
    memory, event = stride * prices.memory, stride * prices.event
    held = stride * at
    best = np.empty((offsets.size, groups), dtype=np.int64)
    size = offsets[:, None]
    window = slice(first_bucket, None)
    value = fill_tokens[:, None] * fill[window] + last[window]
    value += size * memory[window] + event[window]
    best[:, 0] = value.min(axis=1)
    for g in range(1, groups):
        before = slice(first_bucket + g - 1, -1)
        window = slice(first_bucket + g, None)
        value = value[:, :-1]
        holding = size * held[before]
        resident = np.minimum.accumulate(value - holding, axis=1) + holding
        again = np.minimum.accumulate(value, axis=1)
        again += refill[g - 1] + refill_tokens[g - 1] * fill[window]
        size = offsets[:, None] + stride * g
        value = np.minimum(resident, again) + size * memory[window] + event[window]
        best[:, g] = value.min(axis=1)
    return best
