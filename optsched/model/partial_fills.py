"""Columns of partial fills: requests that have some, but not all, of a fill cached after a batch.

A class is (type, g). Per class and batch j there is z_j, 1 if a request of the class is partially
filled after batch j, and f_j, how many of its tokens are cached; the request itself still
*waits* in the network. A fill that ends in batch j then processes S - f_(j-1) tokens in it.

Why one partial fill per class suffices, and one among all first fills (exchange). Take a schedule
and keep, per batch, the number of prefill tokens of the group.

- Two requests A, B of one class, both partial after some batch, B begun first. From there on give
  the tokens of both to B until it is full, then to A; B takes over the first of their two
  completions and all that follows it, A the second (they are identical from here on).
- First fills of any types: all can begin in batch 1, so earliest completion first gives every
  one its tokens no later than before, and only the first unfinished one is ever partial.

Either way the group's tokens in each batch, hence n, the prefill budget and the indicator of
prefills, are unchanged; so is its KV, except that a request may be complete early and then holds
its S tokens (or is released, if that was its last token), which the group's sum already counts.
So feasibility and cost are kept where

- the attention of a fill telescopes, p_mc = 2 p_sq, and chunks cost nothing, p_kv = p_req = 0;
- pages have one token, since rounded sums differ; ``batch_requests`` does not bind;
- holding is allowed (no ``no-hold``), for requests that are complete early;
- the last token of a refill may be processed alone. It then counts as a decode: it needs
  d_kv (S-1) + d_req <= p_sq (2S-1) and d0 = 0 not to cost more, and cannot be used under
  ``no-hybrid``. A refill whose last token is alone in the original is a *restore* of S - 1 tokens
  and a decode, and is exchanged as that.

A partial fill is never evicted: its tokens are better not processed, which leaves all else as it
was, unless its batch becomes empty. That batch can be dropped; a request evicted in it is evicted
in the next batch in which others run, and the chunks of its refill up to then follow in batches
of their own, which by convexity cost no more; or its refill ends before that and it decodes
instead, which needs decode + d0 <= refill for every refill.

The exchange across classes fails for refills: B may be partial when A is evicted, and A's refill
may have to end first. So refills have one z per class, not one in all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optsched.model.network_arcs import ArcKind, Arcs
from optsched.model.network_columns import Allocation

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class PartialFills:
    """One entry per (class, batch) in which a fill can be partial; shapes ``(partials,)``.

    Parameters
    ----------
    type, stage, batch : int arrays
        The class and j.
    most : int array
        The most tokens that a partial fill has.
    wait : int array
        The arc that the request takes meanwhile: wait in batch j.
    begun, tokens : int arrays
        Columns z_j and f_j.
    """

    type: IntArray
    stage: IntArray
    batch: IntArray
    most: IntArray
    wait: IntArray
    begun: IntArray
    tokens: IntArray

    def __len__(self) -> int:
        return int(self.type.size)

    def gained(self, batches: int) -> tuple[IntArray, IntArray, FloatArray]:
        """Entries (row = j - 1, column, value) of sum of f_j - f_(j-1) over the classes."""
        ones = np.ones(len(self))
        later = self.batch < batches
        return (
            np.concatenate([self.batch - 1, self.batch[later]]),
            np.concatenate([self.tokens, self.tokens[later]]),
            np.concatenate([ones, -ones[later]]),
        )


def partial_fills(arcs: Arcs, new: Allocation, *, last_token_alone: bool) -> PartialFills:
    """Partial fills of 1 .. S-1 tokens wherever a request can wait; their columns from ``new``.

    A refill of which S - 1 tokens are cached is resident, and the token left is a decode. Unless
    ``last_token_alone`` prices it as a prefill token, partial refills stop at S - 2.
    """
    size = arcs.cached * arcs.of(ArcKind.FILL)
    key = np.stack([arcs.type, arcs.stage])
    # The size of each class, read off its fills; a class without fills cannot be partial.
    sizes = np.zeros(key.max(axis=1) + 1, dtype=np.int64)
    np.maximum.at(sizes, (key[0], key[1]), size)
    largest = sizes[key[0], key[1]] - 1
    if not last_token_alone:
        largest -= arcs.stage > 0
    wait = np.flatnonzero(arcs.of(ArcKind.WAIT) & (largest >= 1))
    return PartialFills(
        type=arcs.type[wait], stage=arcs.stage[wait], batch=arcs.batch[wait],
        most=largest[wait], wait=wait,
        begun=new.add("begun", wait.size, upper=1.0, integer=True).numbers,
        tokens=new.add("partial_tokens", wait.size, upper=largest[wait], integer=True).numbers,
    )  # fmt: skip


def no_partial_fills() -> PartialFills:
    """The empty set, for programs without chunking."""
    none = np.zeros(0, dtype=np.int64)
    return PartialFills(
        type=none, stage=none, batch=none, most=none, wait=none, begun=none, tokens=none
    )
