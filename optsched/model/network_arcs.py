"""Arcs of the network: what one request of a type does in one batch, as columns of a table.

    fill     (waiting g, j-1)  -> token g+1   all S = I + g tokens in batch j, from g = 0 a prompt,
                                              from g >= 1 a refill
    decode   (resident g, j-1) -> token g+1   one token
    restore  (waiting g, j-1)  -> resident g  S - 1 tokens, so that the last one is a decode later
                                              (only where fills may be chunked)
    hold     (resident g, j-1) -> resident g  nothing, the KV of S - 1 tokens stays
    wait     (waiting g, j-1)  -> waiting g   nothing
    evict    (resident g, j-1) -> waiting g   the KV is dropped

Token g+1 leads to (resident g+1, j), or to the sink if it is the last.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from optsched.instance import Instance
from optsched.model.network_nodes import Nodes, Window
from optsched.model.types import RequestType

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


class ArcKind(IntEnum):
    """What the request does in the batch."""

    FILL = 0
    DECODE = 1
    RESTORE = 2
    HOLD = 3
    WAIT = 4
    EVICT = 5

    @property
    def label(self) -> str:
        """Its name in column names."""
        return self.name.lower()


@dataclass(frozen=True, kw_only=True, eq=False)
class Arcs:
    """Arcs in columns, all of shape ``(arcs,)``; arc number = column number of the program.

    Parameters
    ----------
    kind, type, stage, batch : int arrays
        An :class:`ArcKind`; position of the type; g; j, from 1.
    tail, head : int arrays
        Node numbers.
    cached : int array
        Tokens of the request that are cached after the batch.
    pages : int array
        KV tokens that they take, in whole pages.
    tokens : int array
        Tokens processed in the batch (a partial fill that the arc completes is counted apart).
    most : int array
        The most requests that can take the arc together.
    """

    kind: IntArray
    type: IntArray
    stage: IntArray
    batch: IntArray
    tail: IntArray
    head: IntArray
    cached: IntArray
    pages: IntArray
    tokens: IntArray
    most: IntArray

    def __len__(self) -> int:
        return int(self.kind.size)

    def of(self, *kinds: ArcKind) -> BoolArray:
        """Which arcs are of one of ``kinds``, shape ``(arcs,)``."""
        return np.isin(self.kind, kinds)

    @property
    def generates(self) -> BoolArray:
        """Which arcs generate a token, shape ``(arcs,)``."""
        return self.of(ArcKind.FILL, ArcKind.DECODE)

    @property
    def prefills(self) -> BoolArray:
        """Which arcs process prefill tokens, shape ``(arcs,)``."""
        return self.of(ArcKind.FILL, ArcKind.RESTORE)


def network_arcs(
    instance: Instance,
    types: tuple[RequestType, ...],
    nodes: Nodes,
    *,
    policies: Collection[str],
    chunking: bool,
    idle_slots: bool,
) -> Arcs:
    """All arcs that policies, limits and windows allow.

    With ``idle_slots`` requests are held in slots that are not used, whatever the policy.
    """
    rows: list[IntArray] = []

    def add(
        kind: ArcKind, t: int, g: int, tail: Window, head: Window | int, cached: int, tokens: int
    ) -> None:
        first, last = tail.first + 1, tail.last + 1
        if isinstance(head, Window):
            first, last = max(first, head.first), min(last, head.last)
        j = np.arange(first, last + 1)
        ends = head.base + j - head.first if isinstance(head, Window) else np.full_like(j, head)
        most = _most(instance, types[t].count, kind, cached, tokens, chunking=chunking)
        if most:
            shared = (kind, t, g), (cached, instance.limits.pages(cached), tokens, most)
            left, right = (np.tile(np.array(part)[:, None], j.size) for part in shared)
            rows.append(np.vstack([left, j, tail.base + j - 1 - tail.first, ends, right]))

    for t, kind in enumerate(types):
        for g in range(kind.output_tokens):
            waiting, resident = nodes.waiting[t][g], nodes.resident[t][g]
            last = g + 1 == kind.output_tokens
            after = nodes.sink[t] if last else nodes.resident[t][g + 1]
            size = kind.prompt_tokens + g
            if g == 0 or "no-evict" not in policies:
                add(ArcKind.FILL, t, g, waiting, after, size, size)
                add(ArcKind.WAIT, t, g, waiting, waiting, 0, 0)
            if g == 0:
                continue
            add(ArcKind.DECODE, t, g, resident, after, size, 1)
            if idle_slots or "no-hold" not in policies:
                add(ArcKind.HOLD, t, g, resident, resident, size - 1, 0)
            if "no-evict" not in policies:
                add(ArcKind.EVICT, t, g, resident, waiting, 0, 0)
                if chunking:
                    add(ArcKind.RESTORE, t, g, waiting, resident, size - 1, size - 1)
    table = np.concatenate(rows, axis=1)
    return Arcs(
        kind=table[0], type=table[1], stage=table[2], batch=table[3], tail=table[4],
        head=table[5], cached=table[6], pages=table[7], tokens=table[8], most=table[9],
    )  # fmt: skip


def _most(
    instance: Instance, count: int, kind: ArcKind, cached: int, tokens: int, *, chunking: bool
) -> int:
    """The most of ``count`` requests that can take such an arc in one batch."""
    limits = instance.limits
    most = count
    if cached:
        most = min(most, limits.kv_tokens // limits.pages(cached))
    if tokens and limits.batch_requests is not None:
        most = min(most, limits.batch_requests)
    if kind is ArcKind.DECODE:
        most = min(most, limits.batch_tokens)
    if kind in (ArcKind.FILL, ArcKind.RESTORE):
        # One of several fills that end in a batch may have begun earlier, up to all but a token.
        begun = tokens - 1 if chunking else 0
        most = min(most, (limits.fill_tokens + begun) // tokens)
    return most
