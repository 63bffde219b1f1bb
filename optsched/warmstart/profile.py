"""The KV profile of what runs, from now to its last token, if nothing else were admitted.

A running request makes one token in every batch and holds one more KV token each time, so memory
peaks in the batches that finish one. This is the admission rule of MC-SF (Jaillet et al., "Online
Scheduling for LLM Inference with KV Cache Constraints"), there for pages of one token.
"""

from __future__ import annotations

import numpy as np

from optsched.instance import IntArray
from optsched.warmstart.batch import Batch
from optsched.warmstart.state import State


def fits_profile(state: State, batch: Batch, request: int, tokens: int) -> bool:
    """Whether admitting ``request`` to this batch leaves memory for everything that runs, to its
    end.

    A fill that needs several batches is admitted only to an empty one, and nobody else before
    its last chunk, so it needs no look ahead.

    Where memory lacks at the end of a running request, the state remembers until when it will:
    what runs goes on as foreseen, and with every batch that ``request`` waits it would hold one
    token less at that time.
    """
    if tokens < state.known[request]:
        return True
    if state.blocked_until[request] > state.batch:
        return False
    filling = [r for r, c in batch.fills if state.cached[r] + c == state.known[r]]
    running = [key % state.count for key in state.decodes.keys]
    kv = [state.decodes.cached(r) + 1 for r in running]
    kv += [state.known[r] for r in filling]
    kv.append(state.known[request])
    left = [state.decodes.end[r] - state.decodes.steps for r in running]
    left += [state.output[r] for r in filling]
    left.append(state.output[request])
    order, pages = pages_at_finishes(np.array(kv), np.array(left), state.block)
    over = pages - state.pages
    if not (over > 0).any():
        return True
    meets = (over > 0) & (order != len(kv) - 1)  # at the end of another request
    if meets.any():
        ahead = np.array(left)[order][meets]
        waits = np.minimum((over[meets] - 1) * state.block + 1, ahead).max()
        state.blocked_until[request] = state.batch + int(waits)
    return False


def pages_at_finishes(kv: IntArray, left: IntArray, block: int) -> tuple[IntArray, IntArray]:
    """KV pages in use in the batch that makes each request's last token.

    Parameters
    ----------
    kv : int array, shape ``(running,)``
        KV tokens of each request in the batch that is formed.
    left : int array, shape ``(running,)``
        Batches until its end, this one included: it holds ``kv + j`` tokens j batches later,
        for j < ``left``.
    block : int
        b; pages are sum ceil((kv + j) / b) = (sum (kv + j) + sum of the padding) / b, the
        padding counted by the remainder of kv.

    Returns
    -------
    order, pages : int arrays, shape ``(running,)``
        Requests by falling ``left``, and the pages at the end of each. With equal ``left`` the
        last of them is the peak.
    """
    order = np.argsort(-left, kind="stable")
    kv, ahead = kv[order], left[order] - 1
    running = np.arange(1, kv.size + 1)
    tokens = kv.cumsum() + running * ahead
    if block == 1:
        return order, tokens
    remainders = np.arange(block)
    count = (kv[:, None] % block == remainders).cumsum(axis=0)
    padding = (count * (-(remainders + ahead[:, None]) % block)).sum(axis=1)
    pages: IntArray = (tokens + padding) // block
    return order, pages
