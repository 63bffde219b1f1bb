"""Rule ``residency``: what an eviction and a swap need, and what they leave."""

from __future__ import annotations

from optsched.constraints.compact.rows import join, rows
from optsched.instance import Instance
from optsched.model.compact import CompactVariables
from optsched.model.milp import Block


def residency(instance: Instance, v: CompactVariables) -> Block:
    """An evicted request has KV and processes nothing in that batch; it is left with no KV, and so
    is one that has finished.

        m >= e,  d + p + e <= 1,  m' <= (I + O - 2)(1 - e - done')

    m is on the GPU or, if a = 1, on the host. A swap out (o) needs m on the GPU, a swap in (i) on
    the host; nothing is processed in the batch of a swap out, nor with m on the host after it:

        m >= o,  o <= 1 - a,  i <= a,  d + p + e + o <= 1,  d + p + a' <= 1,  e + i <= 1
    """
    shape = (len(instance), v.batches)
    most = instance.final_tokens[:, None] - 1
    e, done = v["evicts"], v["done"][:, 1:]
    name = "residency"
    return join(name, [
        *_swaps(v),
        rows(name, shape, (v["cached"][:, :-1], 1), (e, -1), lower=0),
        rows(name, shape, (v["decodes"], 1), (v["prefills"], 1), (e, 1), upper=1),
        rows(name, shape, (v["cached"][:, 1:], 1), (e, most), (done, most), upper=most),
    ])  # fmt: skip


def _swaps(v: CompactVariables) -> list[Block]:
    if not v.swapping:
        return []
    out, back, evicts = v["swap_outs"], v["swap_ins"], v["evicts"]
    before, after = v["away"][:, :-1], v["away"][:, 1:]
    runs = (v["decodes"], 1), (v["prefills"], 1)
    shape, name = out.shape, "residency"
    return [
        rows(name, shape, (v["cached"][:, :-1], 1), (out, -1), lower=0),
        rows(name, shape, (out, 1), (before, 1), upper=1),
        rows(name, shape, (back, 1), (before, -1), upper=0),
        rows(name, shape, *runs, (evicts, 1), (out, 1), upper=1),
        rows(name, shape, *runs, (after, 1), upper=1),
        rows(name, shape, (evicts, 1), (back, 1), upper=1),
    ]
