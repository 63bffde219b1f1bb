"""Arcs of one request through batches, with calls and swapping; every fill takes one batch.

After batch j a request with g generated tokens is *waiting* (nothing of it is kept), *resident*
(c_g tokens cached) or *swapped* (c_g tokens in host memory). In batch j it takes one arc:

    fill     waiting g  -> token g+1    all S_g tokens, from g >= 1 a refill
    step     resident g -> token g+1    the 1 + R_g tokens that are not cached: a decode if R_g = 0
    back     swapped g  -> token g+1    swaps in and takes the step in the same batch
    hold     resident g -> resident g
    out, in  resident g -> swapped g and back, without processing
    stay     swapped g  -> swapped g
    evict    resident g -> waiting g
    wait     waiting g  -> waiting g

Token g+1 leads to resident g+1, or to the end if it is the last.

Two things are left out, since nobody gains from them. KV that is dropped is dropped in the batch
after the one that generated the last token: an eviction later on, from the host or after swapping
in, made no use of what was kept, and without it no batch is longer and nobody holds more. (The
handling of a call remains ``discard``.) So there is no arc swapped -> waiting, and a row
(:mod:`optsched.constraints.calls_network.flow`) lets only fresh KV be evicted.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from optsched.instance import Instance
from optsched.model.calls_network_stages import Stages

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


class Move(IntEnum):
    """What the request does in the batch."""

    FILL = 0
    STEP = 1
    BACK = 2
    HOLD = 3
    OUT = 4
    IN = 5
    STAY = 6
    EVICT = 7
    WAIT = 8

    @property
    def label(self) -> str:
        """Its name in column names."""
        return self.name.lower()


class Place(IntEnum):
    """Where the KV of an unfinished request is after a batch."""

    WAITING = 0
    RESIDENT = 1
    SWAPPED = 2


_FROM = {
    Move.FILL: Place.WAITING, Move.WAIT: Place.WAITING,
    Move.STEP: Place.RESIDENT, Move.HOLD: Place.RESIDENT, Move.OUT: Place.RESIDENT,
    Move.EVICT: Place.RESIDENT,
    Move.BACK: Place.SWAPPED, Move.IN: Place.SWAPPED, Move.STAY: Place.SWAPPED,
}  # fmt: skip
_TO = {
    Move.WAIT: Place.WAITING, Move.EVICT: Place.WAITING, Move.HOLD: Place.RESIDENT,
    Move.IN: Place.RESIDENT, Move.OUT: Place.SWAPPED, Move.STAY: Place.SWAPPED,
}  # fmt: skip
GENERATES = (Move.FILL, Move.STEP, Move.BACK)
SWAPS = (Move.OUT, Move.IN, Move.BACK)


@dataclass(frozen=True, kw_only=True, eq=False)
class Arcs:
    """Arcs in columns of shape ``(arcs,)``; arc number = column number of the program.

    Parameters
    ----------
    move, request, stage, batch : int arrays
        A :class:`Move`; position of the request; g; j, from 1.
    tail, head : int arrays
        Node numbers; the head of a last token is the request's end.
    cached, pages : int arrays
        Tokens on the GPU after the batch, and in whole pages.
    swapped : int array
        Tokens in host memory after the batch.
    copied : int array
        Tokens swapped in or out.
    tokens : int array
        Tokens processed.
    prefill : bool array
        Whether they are a prefill.
    attention_s : float array
        What the arc adds to its batch beyond the time of the tokens: attention and copying.
    """

    move: IntArray
    request: IntArray
    stage: IntArray
    batch: IntArray
    tail: IntArray
    head: IntArray
    cached: IntArray
    pages: IntArray
    swapped: IntArray
    copied: IntArray
    tokens: IntArray
    prefill: BoolArray
    attention_s: FloatArray
    nodes: int
    ends: IntArray
    sources: IntArray

    def __len__(self) -> int:
        return int(self.move.size)

    def of(self, *moves: Move) -> BoolArray:
        """Which arcs are one of ``moves``, shape ``(arcs,)``."""
        return np.isin(self.move, moves)

    @property
    def generates(self) -> BoolArray:
        """Which arcs generate a token, shape ``(arcs,)``."""
        return self.of(*GENERATES)


def calls_arcs(
    instance: Instance, stages: Sequence[Stages], last_batches: Sequence[IntArray],
    handlings: Sequence[str | None], policies: Collection[str],
) -> Arcs:  # fmt: skip
    """All arcs that policies, limits and windows allow.

    Token g + 1 comes in batch g + 1 at the earliest, and at the latest in ``last_batches[i][g]``.
    ``handlings`` fixes what happens to each request's KV at its calls, see
    :mod:`optsched.handling`.
    """
    columns: list[tuple[Move, int, int, int, int, int]] = []
    node: dict[tuple[int, int, Place, int], int] = {}
    ends = np.arange(len(stages))
    for i, request in enumerate(stages):
        for g in range(len(request)):
            allowed = _allowed(instance, request, g, handlings[i], policies)
            moves = [move for move in Move if move in allowed]
            for move in moves:
                first, last = _window(move, g, int(last_batches[i][g]))
                for j in range(first, last + 1):
                    tail = i, g, _FROM[move], j - 1
                    columns.append((move, i, g, j, _number(node, tail, ends.size), 0))
    heads = []
    for move, i, g, j, _, _ in columns:
        if move not in GENERATES:
            heads.append(_number(node, (i, g, _TO[move], j), ends.size))
        elif g + 1 == len(stages[i]):
            heads.append(i)
        else:
            heads.append(_number(node, (i, g + 1, Place.RESIDENT, j), ends.size))
    table = np.array(columns, dtype=np.int64).reshape(-1, 6).T
    sources = np.array([node[i, 0, Place.WAITING, 0] for i in range(len(stages))])
    return _described(instance, stages, table, np.array(heads), len(node) + ends.size, sources)


def _number(node: dict[tuple[int, int, Place, int], int], key: tuple[int, int, Place, int],
            ends: int) -> int:  # fmt: skip
    return node.setdefault(key, ends + len(node))


def _window(move: Move, g: int, last: int) -> tuple[int, int]:
    """First and last batch in which a request can take the arc at stage g, if its token g + 1
    comes in batch ``last`` at the latest."""
    last -= move not in GENERATES
    if g == 0:
        return 1, last
    later = {Move.STEP: 1, Move.HOLD: 1, Move.EVICT: 1, Move.OUT: 1, Move.WAIT: 2, Move.FILL: 2,
             Move.BACK: 2, Move.STAY: 2, Move.IN: 2}  # fmt: skip
    return g + later[move], last


def _allowed(
    instance: Instance, stages: Stages, g: int, handling: str | None, policies: Collection[str]
) -> set[Move]:
    """Moves at stage g that policies, limits and the handling of a call allow."""
    if g == 0:
        return {Move.FILL, Move.WAIT}
    moves = set(Move)
    evict, swap = "no-evict" not in policies, "no-swap" not in policies
    fixed = handling if g in stages.calls else None
    limits, cached = instance.limits, int(stages.cached[g])
    if not evict or fixed in ("preserve", "swap") or stages.known[g] > limits.fill_tokens:
        moves -= {Move.EVICT, Move.WAIT, Move.FILL}
    if not swap or fixed in ("preserve", "discard") or cached > limits.host_kv_tokens:
        moves -= {Move.OUT, Move.IN, Move.STAY, Move.BACK}
    if fixed == "discard":
        moves -= {Move.HOLD}  # resident after the batch that made the call: step or evict
    if "no-hold" in policies:
        moves -= {Move.HOLD, Move.IN}
    return moves


def _described(
    instance: Instance, stages: Sequence[Stages], table: IntArray, heads: IntArray, nodes: int,
    sources: IntArray,
) -> Arcs:  # fmt: skip
    move, request, stage, batch, tail, _ = table
    cost, block = instance.cost, instance.limits.block_tokens
    offset = np.cumsum([0, *(len(each) for each in stages)])[:-1]
    at = offset[request] + stage

    def of_stage(name: str) -> IntArray:
        values: IntArray = np.concatenate([getattr(each, name) for each in stages])[at]
        return values

    known, cached, appended = (of_stage(name) for name in ("known", "cached", "appended"))
    append_s = np.concatenate([each.append_s(cost) for each in stages])[at]
    fill_s = np.concatenate([each.fill_s(cost) for each in stages])[at]
    generates, fill = np.isin(move, GENERATES), move == Move.FILL
    on_gpu = np.where(generates, known, np.where(np.isin(move, (Move.HOLD, Move.IN)), cached, 0))
    copied = np.where(np.isin(move, SWAPS), cached, 0)
    step_s = np.where(generates, append_s, 0.0) + cost.swap_tok * copied
    return Arcs(
        move=move, request=request, stage=stage, batch=batch, tail=tail, head=heads,
        cached=on_gpu, pages=block * -(-on_gpu // block),
        swapped=np.where(np.isin(move, (Move.OUT, Move.STAY)), cached, 0), copied=copied,
        tokens=np.where(fill, known, np.where(generates, appended, 0)),
        prefill=fill | (generates & (appended > 1)),
        attention_s=np.where(fill, fill_s, step_s),
        nodes=nodes, ends=np.arange(len(stages)), sources=sources,
    )  # fmt: skip
