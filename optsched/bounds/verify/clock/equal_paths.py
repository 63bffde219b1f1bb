"""The cheapest way of one of many equal requests through priced batches, in whole numbers.

Events k = 0 .. O - 1 lie in batches j_0 < j_1 < ..; with p_k the pages held after event k,

    event    memory price p_k in its batch, and a token
    between  memory price p_k in each batch if the KV stays, or nothing and then a refill: rx_k r_j
             for what it costs in time to the r_j requests that wait, and all tokens but one
    prompt   its tokens, each at the least price of any batch so far; so are those of refills
    end      what an end in batch N costs

What is left out (a refill's last token, pages of chunks) is >= 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
Whole = NDArray[np.object_]
SAFE = 2**61  # all intermediate values stay below


@dataclass(frozen=True, kw_only=True)
class Paths:
    """Arrays are over batches 1, 2, .. or over events 0, 1, .., of Python's whole numbers.

    Parameters
    ----------
    fewest, output : int
        The first batch in which a request can end, and O.
    ends : array, shape ``(batches,)``
        What an end in each batch costs.
    prices : three arrays, shape ``(batches,)``
        Of a page, a token and a prefill token in each batch.
    refills : array, shape ``(O,)``
        rx of each event.
    waiting : int array, shape ``(batches,)``
        r of each batch.
    pages : array, shape ``(O,)``
        p of each event.
    refill_tokens : bool
        Whether a refill processes tokens; KV may also be copied back if there is host memory.
    """

    fewest: int
    output: int
    ends: Whole
    prices: tuple[Whole, Whole, Whole]
    refills: Whole
    waiting: IntArray
    pages: Whole
    prompt: int
    refill_tokens: bool

    @property
    def largest(self) -> int:
        """No intermediate value exceeds this: all batches held at the largest size, each event at
        the dearest batch, with a refill of all tokens."""
        memory, tokens, prefill = self.prices
        token = int(max(tokens)) + int(max(prefill))
        size = self.prompt + self.output
        held = int(sum(memory)) * int(self.pages[-1])
        event = int(max(memory)) * int(self.pages[-1]) + token * size
        event += int(max(self.refills)) * int(self.waiting[0])
        return int(max(self.ends)) + 2 * held + (self.output + 1) * event


def cheapest(paths: Paths) -> int:
    """The least price of any path; ``paths.largest`` must be below SAFE."""
    memory, tokens, prefill = (column.astype(np.int64) for column in paths.prices)
    fill = np.minimum.accumulate(tokens + prefill)
    pages, refills = paths.pages.astype(np.int64), paths.refills.astype(np.int64)
    upto = np.cumsum(memory)
    first = paths.fewest - paths.output  # batches before the first one with an event
    value = (paths.prompt * fill + memory * pages[0])[first:]
    for k in range(1, paths.output):
        # Event k - 1 lies in batch first + k at the soonest, index first + k - 1.
        before, at = slice(first + k - 1, -1), slice(first + k, None)
        held = pages[k - 1] * upto[before]
        stayed = np.minimum.accumulate(value[:-1] - held)
        stayed += held
        again = np.minimum.accumulate(value[:-1])
        again += refills[k] * paths.waiting[at]
        if paths.refill_tokens:
            again += (paths.prompt + k - 1) * fill[at]
        value = np.minimum(stayed, again)
        value += memory[at] * pages[k] + tokens[at]
    return int((value + paths.ends.astype(np.int64)[paths.fewest - 1 :]).min())
