"""What is on the host, and what copies it."""

from __future__ import annotations

import numpy as np

from optsched.constraints.compact.rows import Term, join, rows
from optsched.constraints.compact.stages import per_request
from optsched.instance import Instance
from optsched.model.compact import CompactVariables
from optsched.model.milp import Block

NAME = "host"


def host(instance: Instance, v: CompactVariables) -> Block:
    """KV is on the GPU or, all of it, on the host: with a = 1 if it is on the host (away), o, i for
    swaps out and in, e for evictions, and m what is cached in either place,

        a <= a' + i + e,  a' <= a + o,  a' >= o,  a' <= 1 - i,  a' <= 1 - e,
        w = m a:  w <= m,  w <= (I + O - 2) a,  w >= m - (I + O - 2)(1 - a);   moved = m (o + i)

    What a swap copies (moved) is stated from below, or from both sides if times must be exact.

    In whole numbers implied, by number of tokens generated, of those that are ``resident``: the
    same flow, and w and moved as sums over it.
    """
    if not v.swapping:
        return join(NAME, [])
    most = instance.final_tokens[:, None] - 1
    a, w, m, e = v["away"], v["swapped"], v["cached"], v["evicts"]
    o, i = v["swap_outs"], v["swap_ins"]
    before, after, shape = a[:, :-1], a[:, 1:], o.shape
    blocks = [
        rows(NAME, shape, (after, 1), (before, -1), (i, 1), (e, 1), lower=0),
        rows(NAME, shape, (after, 1), (before, -1), (o, -1), upper=0),
        rows(NAME, shape, (after, 1), (o, -1), lower=0),
        rows(NAME, shape, (after, 1), (i, 1), (e, 1), upper=1),
        rows(NAME, w.shape, (w, 1), (m, -1), upper=0),
        rows(NAME, w.shape, (w, 1), (a, -most), upper=0),
        rows(NAME, w.shape, (w, 1), (m, -1), (a, -most), lower=-most),
    ]
    if "moved" in v:
        moved, cached = v["moved"], m[:, :-1]
        blocks.append(
            rows(NAME, shape, (moved, 1), (cached, -1), (o, -most), (i, -most), lower=-most)
        )
        if v.clock is not None and v.clock.exact:
            blocks += [
                rows(NAME, shape, (moved, 1), (cached, -1), upper=0),
                rows(NAME, shape, (moved, 1), (o, -most), (i, -most), upper=0),
            ]
    return join(NAME, [*blocks, *_stages(instance, v)])


def _stages(instance: Instance, v: CompactVariables) -> list[Block]:
    """With R, W, O, I, D, X, E = resident, stage_away, stage_outs, stage_ins, stage_decodes,
    appends, stage_evicts of a number of tokens, and c what is cached then at least:

        W - I - E + O <= W' <= W + O,  W + O <= R,  I <= W,  D + X + E + W' <= R,  W' + I <= R,
        a >= sum W,  o >= sum O,  i >= sum I  (equalities without partial fills),
        w >= sum c W,  moved >= sum c (O + I)
    """
    if not v.strengthened:
        return []
    away, outs, ins, full = (v[x] for x in ("stage_away", "stage_outs", "stage_ins", "resident"))
    before, after, resident = away[:, :, :-1], away[:, :, 1:], full[:, :, :-1]
    shape = outs.shape
    evicts = v["stage_evicts"]
    events = [(v[x], 1) for x in ("stage_decodes", "appends", "stage_evicts") if x in v]
    held = v.contexts.resident[:, :-1]
    kept = held[:, None, :]
    upper = 0 if "partial" not in v else np.inf
    blocks = [
        rows(NAME, shape, (after, 1), (before, -1), (outs, -1), (ins, 1), (evicts, 1), lower=0),
        rows(NAME, shape, (after, 1), (before, -1), (outs, -1), upper=0),
        rows(NAME, shape, (before, 1), (outs, 1), (resident, -1), upper=0),
        rows(NAME, shape, (ins, 1), (before, -1), upper=0),
        rows(NAME, shape, *events, (after, 1), (resident, -1), upper=0),
        rows(NAME, shape, (after, 1), (ins, 1), (resident, -1), upper=0),
    ]
    for name, stage in (("away", away), ("swap_outs", outs), ("swap_ins", ins)):
        terms: list[Term] = [(v[name], 1), (per_request(stage), -1)]
        blocks.append(rows(NAME, v[name].shape, *terms, lower=0, upper=upper))
    blocks.append(
        rows(NAME, v["swapped"].shape, (v["swapped"], 1), (per_request(away), -kept), lower=0)
    )
    if "moved" in v:
        copied = (per_request(outs), -kept), (per_request(ins), -kept)
        blocks.append(rows(NAME, v["moved"].shape, (v["moved"], 1), *copied, lower=0))
    return blocks
