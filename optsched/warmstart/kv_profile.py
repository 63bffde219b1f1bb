"""What batches hold and process already, as far as it is decided: KV pages, tokens, requests.

A look-ahead scheduler decides all steps of a request when it admits it, so the loads of every
later batch are exact. Batches are slots counted from 0 here, forwards or backwards in time.
"""

from __future__ import annotations

import numpy as np

from optsched.instance import IntArray, Limits

_FIRST_SLOTS = 1024


class Profile:
    """Loads by slot, growing as far as it is written.

    Parameters
    ----------
    limits : Limits

    Attributes
    ----------
    kv : int array
        KV pages in use.
    tokens, prefill : int arrays
        Tokens processed, and those of them that fill.
    requests : int array
        Requests processed.
    """

    def __init__(self, limits: Limits) -> None:
        self.block = limits.block_tokens
        self.pages = limits.kv_tokens // limits.block_tokens
        self.batch_tokens = limits.batch_tokens
        self.fill_tokens = limits.fill_tokens
        self.batch_requests = limits.batch_requests
        self.kv: IntArray = np.zeros(_FIRST_SLOTS, dtype=np.int64)
        self.tokens, self.prefill, self.requests = (np.zeros_like(self.kv) for _ in range(3))

    def reach(self, slots: int) -> None:
        """Let every array have at least ``slots`` entries."""
        lacking = slots - self.kv.size
        if lacking > 0:
            more = np.zeros(max(lacking, self.kv.size), dtype=np.int64)
            self.kv, self.tokens, self.prefill, self.requests = (
                np.concatenate([a, more])
                for a in (self.kv, self.tokens, self.prefill, self.requests)
            )

    def pages_of(self, tokens: IntArray) -> IntArray:
        """ceil(tokens / b), elementwise."""
        return tokens if self.block == 1 else -(-tokens // self.block)

    def add(self, slot: int, kv: IntArray, tokens: IntArray, fills: slice) -> None:
        """Add a request that holds ``kv`` pages and processes ``tokens`` from ``slot`` on.

        ``fills`` are the entries of ``tokens`` that belong to its fill.
        """
        end = slot + kv.size
        self.kv[slot:end] += kv
        self.tokens[slot:end] += tokens
        self.prefill[slot:end][fills] += tokens[fills]
        self.requests[slot:end] += tokens > 0
