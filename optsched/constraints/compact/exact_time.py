"""A batch takes no longer than it does, where it could gain from that."""

from __future__ import annotations

import numpy as np

from optsched.constraints.compact.rows import join, over_requests, rows
from optsched.instance import Instance
from optsched.model.compact import CompactVariables
from optsched.model.milp import Block

NAME = "exact_time"


def exact_time(instance: Instance, v: CompactVariables) -> Block:
    """The other side of the rows of ``batch_time``, if the clock must be exact.

    Several pieces: time <= alpha_k + beta_k sum c + M (1 - z_k) for the piece k with z_k = 1, of
    which a used batch has one. Indicators: decode_batch <= sum d, prefill_batch <= sum p.
    Products: decode_kv <= m, decode_kv <= (I + O - 2) d, the same for prefill_kv;
    cut_b <= m, cut_b <= (I + O - 2) digit_b, cross <= sum 2^b cut_b. Whole fills:
    fill <= s, fill <= (I + O - 1) p. Squares: in ``squares``.
    """
    if v.clock is None or not v.clock.exact:
        return join(NAME, [])
    return join(NAME, [*_pieces(instance, v), *_batch_kinds(v), *_products(instance, v),
                       *_fills(instance, v)])  # fmt: skip


def _pieces(instance: Instance, v: CompactVariables) -> list[Block]:
    if "time" not in v:
        return []
    time, used, tokens = v["time"], v["used"], over_requests(v["tokens"])
    unit = v.columns.durations["time"]
    longest = float(v.columns.upper[time].max())
    blocks = [
        rows(NAME, time.shape, (time, 1), (used, -longest), upper=0),
        rows(NAME, time.shape, (v["piece"].T, 1), (used, -1), lower=0, upper=0),
    ]
    for k, (alpha, beta) in enumerate(instance.cost.pieces):
        most = longest - min(alpha / unit, 0.0)
        terms = (time, 1), (used, -alpha / unit), (tokens, -beta / unit), (v["piece"][k], most)
        blocks.append(rows(NAME, time.shape, *terms, upper=most))
    return blocks


def _batch_kinds(v: CompactVariables) -> list[Block]:
    return [
        rows(NAME, v[kind].shape, (v[kind], 1), (over_requests(v[step]), -1), upper=0)
        for kind, step in (("decode_batch", "decodes"), ("prefill_batch", "prefills"))
        if kind in v
    ]


def _products(instance: Instance, v: CompactVariables) -> list[Block]:
    cached, most = v["cached"][:, :-1], instance.final_tokens[:, None] - 1
    blocks = []
    for kv, steps in (("decode_kv", v["decodes"]), ("prefill_kv", v["prefills"])):
        if kv in v:
            blocks.append(rows(NAME, steps.shape, (v[kv], 1), (cached, -1), upper=0))
            blocks.append(rows(NAME, steps.shape, (v[kv], 1), (steps, -most), upper=0))
    if "cross" in v:
        cross, digit, cut = v["cross"], v["chunk_digit"], v["cross_cut"]
        power = 2.0 ** np.arange(digit.shape[-1])
        each = np.broadcast_to(cached[:, :, None], digit.shape)
        blocks += [
            rows(NAME, digit.shape, (cut, 1), (each, -1), upper=0),
            rows(NAME, digit.shape, (cut, 1), (digit, -most[:, :, None]), upper=0),
            rows(NAME, cross.shape, (cross, 1), (cut, -power), upper=0),
        ]
    return blocks


def _fills(instance: Instance, v: CompactVariables) -> list[Block]:
    if "fill" not in v:
        return []
    fill, final = v["fill"], instance.final_tokens[:, None]
    return [
        rows(NAME, fill.shape, (fill, 1), (v["known"][:, :-1], -1), upper=0),
        rows(NAME, fill.shape, (fill, 1), (v["prefills"], -final), upper=0),
    ]
