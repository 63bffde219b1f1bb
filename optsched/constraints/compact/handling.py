"""How each call is handled."""

from __future__ import annotations

import numpy as np

from optsched.constraints.compact.rows import join, only, rows
from optsched.instance import Instance
from optsched.model.compact import CompactVariables
from optsched.model.compact_calls import DISCARD, SWAP
from optsched.model.milp import Block, IntArray

NAME = "handling"


def handling(instance: Instance, v: CompactVariables) -> Block:
    """One of three for every call (:mod:`optsched.handling`). With x_e, x_o = 1 where the request
    is evicted or swapped out while it waits (w = u - r before the batch, and no r' after it),

        x <= e (swap out),  x <= w,  x <= 1 - r',  x >= e (swap out) + w - 1,
        discard = sum x_e,  swap + discard >= x_o,  swap <= sum x_o,  sum of the three = 1

    An eviction is the last thing that can happen to the KV in a pause, so there is one at most.
    In whole numbers implied, with E (O) of ``stages`` at the k of the call: x <= E,  x >= E - r'.
    """
    if not len(v.calls):
        return join(NAME, [])
    h = v["handlings"]
    each = h[:, 0].shape
    evicts = v["pause_evicts"]
    blocks = [
        rows(NAME, each, (h, 1), lower=1, upper=1),
        rows(NAME, each, (h[:, DISCARD], 1), (evicts, -1), lower=0, upper=0),
        *_while_paused(v, evicts, "evicts"),
    ]
    if v.swapping:
        outs = v["pause_swap_outs"]
        either = [(np.broadcast_to(h[:, [k]], outs.shape), 1) for k in (DISCARD, SWAP)]
        blocks += [
            rows(NAME, outs.shape, *either, (outs, -1), lower=0),
            rows(NAME, each, (h[:, SWAP], 1), (outs, -1), upper=0),
            *_while_paused(v, outs, "swap_outs"),
        ]
    return join(NAME, blocks)


def _while_paused(v: CompactVariables, during: IntArray, action: str) -> list[Block]:
    who, k = v.calls.request, v.calls.after_tokens
    acts = v[action][who]
    u, r, after = v["made"][:, :-1], v["resumed"][:, :-1], v["resumed"][:, 1:]
    waits = (u, -1), (r, 1)
    shape, there = during.shape, during >= 0
    blocks = [
        rows(NAME, shape, (during, 1), (only(acts, there), -1), upper=0),
        rows(NAME, shape, (during, 1), (u, -1), (after, 1), upper=0),
        rows(NAME, shape, (during, 1), (acts, -1), *waits, lower=-1),
    ]
    stage = {"evicts": "stage_evicts", "swap_outs": "stage_outs"}[action]
    if stage in v:
        at = v[stage][who, k]
        blocks += [
            rows(NAME, shape, (during, 1), (only(at, there), -1), upper=0),
            rows(NAME, shape, (during, 1), (at, -1), (after, 1), lower=0),
        ]
    return blocks
