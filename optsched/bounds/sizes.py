"""KV pages of token events: in total, by size, and by their place in the request's chain.

All are closed forms or difference arrays over runs; no event is expanded. A size of S tokens takes
p(S) = ceil(S / b) pages of b tokens.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optsched.bounds.events import TokenRuns

IntArray = NDArray[np.int64]


def run_pages(runs: TokenRuns, block_tokens: int) -> IntArray:
    """Pages of all events of each run, shape ``(runs,)``."""
    last = runs.size + runs.count - 1
    return _pages_upto(last, block_tokens) - _pages_upto(runs.size - 1, block_tokens)


def _pages_upto(size: IntArray, b: int) -> IntArray:
    """p(1) + .. + p(size) = b q (q + 1) / 2 + r (q + 1) with size = b q + r."""
    q, r = size // b, size % b
    return np.asarray(b * q * (q + 1) // 2 + r * (q + 1), dtype=np.int64)


def size_counts(runs: TokenRuns, block_tokens: int) -> IntArray:
    """How many events take p pages, for p = 0, 1, ..; shape ``(largest p + 1,)``."""
    last = runs.size + runs.count - 1
    change = np.zeros(int(last.max()) + 2, dtype=np.int64)
    np.add.at(change, runs.size, 1)
    np.add.at(change, last + 1, -1)
    by_tokens = np.cumsum(change)[1:-1]
    padded = np.zeros(-(-by_tokens.size // block_tokens) * block_tokens, dtype=np.int64)
    padded[: by_tokens.size] = by_tokens
    return np.concatenate(([0], padded.reshape(-1, block_tokens).sum(axis=1)))


def pages_by_position(runs: TokenRuns, position: IntArray, block_tokens: int) -> IntArray:
    """Pages of all events that stand at position 0, 1, .., event k of a run standing at its
    ``position + k``; shape ``(largest position + 1,)``.

    Along a run the pages start at p(size) and grow by one at every b-th position: jumps at its
    ends plus increments, which form an arithmetic progression of step b.
    """
    b = block_tokens
    end = position + runs.count
    span = -(-(int(end.max()) + b + 1) // b) * b
    first = -(-runs.size // b)
    last = -(-(runs.size + runs.count - 1) // b)
    grows = position + b - (runs.size - 1) % b
    marks = np.zeros(span, dtype=np.int64)
    np.add.at(marks, grows, 1)
    np.add.at(marks, grows + b * (last - first), -1)
    change = np.cumsum(marks.reshape(-1, b), axis=0).ravel()
    np.add.at(change, position, first)
    np.add.at(change, end, -last)
    return np.cumsum(change)[: int(end.max())]
