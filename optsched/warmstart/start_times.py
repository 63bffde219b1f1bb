"""A schedule without evictions and waits, written as the batch of every first token.

From its first token on, such a request makes one token in every batch, so where its fill ends says
everything but how the fill is cut.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optsched.instance import Instance, IntArray
from optsched.schedule import Kind, Schedule


@dataclass(frozen=True, kw_only=True, eq=False)
class StartTimes:
    """Batches count from any number; those that process nothing are dropped.

    Parameters
    ----------
    first_token : int array, shape ``(requests,)``
        Batch that generates the first token of each request.
    chunk_request, chunk_batch, chunk_tokens : int arrays, shape ``(chunks,)``
        Earlier chunks of fills; what they leave is processed in the batch of the first token.
    """

    first_token: IntArray
    chunk_request: IntArray
    chunk_batch: IntArray
    chunk_tokens: IntArray

    def schedule(self, instance: Instance) -> Schedule:
        """The decisions as runs; batches from 1 without gaps."""
        output = instance.output_tokens
        last_chunk = instance.prompt_tokens.copy()
        np.subtract.at(last_chunk, self.chunk_request, self.chunk_tokens)
        every = np.arange(len(instance))
        long = np.flatnonzero(output > 1)
        request = np.concatenate([every, long, self.chunk_request])
        first = np.concatenate([self.first_token, self.first_token[long] + 1, self.chunk_batch])
        batches = np.concatenate(
            [np.ones_like(every), output[long] - 1, np.ones_like(self.chunk_batch)]
        )
        tokens = np.concatenate([last_chunk, np.ones_like(long), self.chunk_tokens])
        return Schedule(
            request=request,
            kind=np.full(request.size, int(Kind.PROCESS)),
            first_batch=_renumbered(first, batches),
            batches=batches,
            tokens=tokens,
        ).merged()


def _renumbered(first: IntArray, batches: IntArray) -> IntArray:
    """Batch numbers from 1, counting only batches that some run covers."""
    offset = int(first.min())
    size = int((first + batches).max()) - offset
    marks = np.zeros(size + 1, dtype=np.int64)
    np.add.at(marks, first - offset, 1)
    np.subtract.at(marks, first + batches - offset, 1)
    number = np.cumsum(np.cumsum(marks[:-1]) > 0)
    return np.asarray(number[first - offset], dtype=np.int64)
