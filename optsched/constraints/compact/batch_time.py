"""What a batch costs: the columns that carry the parts of the batch time that are not linear."""

from __future__ import annotations

import numpy as np

from optsched.constraints.compact.rows import join, over_requests, rows
from optsched.constraints.compact.squares import Count, by_digits, square
from optsched.instance import Instance
from optsched.model.compact import CompactVariables
from optsched.model.milp import Block

NAME = "batch_time"


def batch_time(instance: Instance, v: CompactVariables) -> Block:
    """Rows of the batch-time law (problem.md, 4); its linear parts are costs of columns.

    Several pieces: time >= alpha_k y + beta_k sum c for every k. Indicators: decode_batch >= d,
    prefill_batch >= p, both <= y. Products with binaries: decode_kv >= m - (I + O - 2)(1 - d),
    prefill_kv >= m - (I + O - 2)(1 - p).

    Attention of prefill steps: p_sq c^2 + p_mc m c = p_mc/2 ((m + c)^2 - m^2) + (p_sq - p_mc/2)
    c^2. Over the steps of one fill the first part telescopes to p_mc/2 times the squared length
    of the fill when it ends: s if its last step is a prefill that generates, m if it is given up
    or its last token is a decode. ``partial`` (V) remembers that a fill is under way.

        fill >= s - (I + O - 1)(2 - p - g),      fill >= m - (I + O - 2)(2 - V - d - e)
        V' >= p - g,                             V' >= V - d - p - e

    The second part, absent by default, is priced step by step; c - d is the length of a prefill
    step, and 0 otherwise. Where every batch must have its own time and fills may be split, so is
    all attention, with the binary digits of c - d: m c = sum 2^b digit_b m, and

        cut_b >= m - (I + O - 2)(1 - digit_b),   cross >= sum 2^b cut_b
    """
    return join(NAME, [*_pieces(instance, v), *_batch_kinds(v), *_kv(instance, v),
                       *_fills(instance, v), *_chunks(instance, v),
                       *_cross(instance, v)])  # fmt: skip


def _pieces(instance: Instance, v: CompactVariables) -> list[Block]:
    if "time" not in v:
        return []
    time, used, tokens = v["time"], v["used"], over_requests(v["tokens"])
    unit = v.columns.durations["time"]
    return [
        rows(NAME, time.shape, (time, 1), (used, -alpha / unit), (tokens, -beta / unit), lower=0)
        for alpha, beta in instance.cost.pieces
    ]


def _batch_kinds(v: CompactVariables) -> list[Block]:
    blocks = []
    for kind, steps in (("decode_batch", v["decodes"]), ("prefill_batch", v["prefills"])):
        if kind in v:
            everyone = np.broadcast_to(v[kind], steps.shape)
            blocks.append(rows(NAME, steps.shape, (everyone, 1), (steps, -1), lower=0))
            blocks.append(rows(NAME, v[kind].shape, (v[kind], 1), (v["used"], -1), upper=0))
    return blocks


def _kv(instance: Instance, v: CompactVariables) -> list[Block]:
    cached, most = v["cached"][:, :-1], instance.final_tokens[:, None] - 1
    blocks = []
    for kv, steps in (("decode_kv", v["decodes"]), ("prefill_kv", v["prefills"])):
        if kv in v:
            terms = (v[kv], 1), (cached, -1), (steps, -most)
            blocks.append(rows(NAME, steps.shape, *terms, lower=-most))
    return blocks


def _fills(instance: Instance, v: CompactVariables) -> list[Block]:
    if "fill" not in v:
        return []
    fill, final = v["fill"], instance.final_tokens[:, None]
    g, d, p, e = (v[name] for name in ("generates", "decodes", "prefills", "evicts"))
    terms = (fill, 1), (v["known"][:, :-1], -1), (p, -final), (g, -final)
    blocks = [rows(NAME, fill.shape, *terms, lower=-2 * final)]
    if "partial" in v:
        under_way, after, m = v["partial"][:, :-1], v["partial"][:, 1:], v["cached"][:, :-1]
        ends = [(column, 1 - final) for column in (under_way, d, e)]
        blocks += [
            rows(NAME, fill.shape, (fill, 1), (m, -1), *ends, lower=2 - 2 * final),
            rows(NAME, fill.shape, (after, 1), (p, -1), (g, 1), lower=0),
            rows(NAME, fill.shape, (after, 1), (under_way, -1), (d, 1), (p, 1), (e, 1), lower=0),
        ]
    return blocks + square(v, "fill", ((fill, 1),), final)


def _chunks(instance: Instance, v: CompactVariables) -> list[Block]:
    if "chunk_square" not in v:
        return []
    most = np.minimum(instance.final_tokens, instance.limits.fill_tokens)[:, None]
    return square(v, "chunk", chunk(v), most)


def _cross(instance: Instance, v: CompactVariables) -> list[Block]:
    if "cross" not in v:
        return []
    cross, digit, cut = v["cross"], v["chunk_digit"], v["cross_cut"]
    power, most = 2.0 ** np.arange(digit.shape[-1]), instance.final_tokens[:, None, None] - 1
    m = np.broadcast_to(v["cached"][:, :-1, None], digit.shape)
    blocks = [
        rows(NAME, digit.shape, (cut, 1), (m, -1), (digit, -most), lower=-most),
        rows(NAME, cross.shape, (cross, 1), (cut, -power), lower=0),
    ]
    if "chunk_cut" not in v:  # otherwise the square has said what the digits are
        blocks.append(by_digits(v, "chunk", chunk(v)))
    return blocks


def chunk(v: CompactVariables) -> Count:
    """c - d: the length of a prefill step, 0 of any other."""
    return (v["tokens"], 1), (v["decodes"], -1)
