"""KV in use after every batch, on the GPU (in whole pages) and in host memory.

Nothing is stepped through: what is in use is all that was ever taken less all that was ever
released, so it is the cumulative sum of the pages that process runs and swaps in take and that
evictions, swaps out and (one batch later) finished requests give back.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optsched.instance import Instance
from optsched.schedule import Kind, Schedule
from optsched.simulate.calls import offsets
from optsched.simulate.levels import Levels
from optsched.simulate.ramps import constant, periodic

IntArray = NDArray[np.int64]


def kv_in_use(
    instance: Instance, schedule: Schedule, levels: Levels, finish_batch: IntArray
) -> tuple[IntArray, IntArray]:
    """KV tokens in use after every batch.

    Parameters
    ----------
    finish_batch : int array, shape ``(requests,)``
        The batch that finishes each request, from 1; its KV counts in that batch.

    Returns
    -------
    kv_tokens, host_kv_tokens : int arrays, shape ``(batches,)``
        On the GPU, each request rounded up to pages, and swapped out (in tokens).
    """
    size, block = schedule.batch_count, instance.limits.block_tokens
    kind, level, at = schedule.kind, levels.before, schedule.first_batch - 1
    previous = np.roll(kind, 1)  # the first run of a request is a process run: nothing to undo
    swap_out, swap_in = kind == Kind.SWAP_OUT, kind == Kind.SWAP_IN
    evict_host = (kind == Kind.EVICT) & (previous == Kind.SWAP_OUT)
    evict = (kind == Kind.EVICT) & ~evict_host

    change = np.zeros(size + 1, dtype=np.int64)
    change[:-1] = page_growth(schedule, levels, block)
    pages = -(-level // block)
    leaves = evict | swap_out
    np.subtract.at(change, at[leaves], pages[leaves])
    np.add.at(change, at[swap_in], pages[swap_in])
    np.subtract.at(change, finish_batch, -(-instance.final_tokens // block))

    host = np.zeros(size, dtype=np.int64)
    np.add.at(host, at[swap_out], level[swap_out])
    leaves_host = swap_in | evict_host
    np.subtract.at(host, at[leaves_host], level[leaves_host])
    return block * np.cumsum(change[:-1]), np.cumsum(host)


def page_growth(schedule: Schedule, levels: Levels, block: int) -> IntArray:
    """Pages that process runs take in every batch, shape ``(batches,)``.

    A run of single tokens takes one whenever its level is a multiple of the page size b, that is
    in every b-th batch. Runs of more tokens are few and short, and are looked at batch by batch.
    """
    size = schedule.batch_count
    first, batches, tokens = schedule.first_batch - 1, schedule.batches, schedule.tokens
    if block == 1:
        return constant(first, batches, tokens, size)
    one = tokens == 1
    wait = -levels.before[one] % block
    count = np.maximum(-(-(batches[one] - wait) // block), 0)
    some = count > 0
    # No run has two marks that are as far apart as the schedule is long.
    growth = periodic((first[one] + wait)[some], count[some], min(block, size), size)
    chunk = np.flatnonzero(tokens > 1)
    step = offsets(batches[chunk])
    chunk = np.repeat(chunk, batches[chunk])
    level = levels.before[chunk] + step * tokens[chunk]
    pages = -(-(level + tokens[chunk]) // block) - -(-level // block)
    np.add.at(growth, first[chunk] + step, pages)
    return growth
