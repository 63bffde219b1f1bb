"""Rule ``residency``: what an eviction needs, and what it leaves."""

from __future__ import annotations

from optsched.constraints.compact.rows import join, rows
from optsched.instance import Instance
from optsched.model.compact import CompactVariables
from optsched.model.milp import Block


def residency(instance: Instance, v: CompactVariables) -> Block:
    """An evicted request has KV and processes nothing in that batch; it is left with no KV, and so
    is one that has finished.

        m >= e,  d + p + e <= 1,  m' <= (I + O - 2)(1 - e - done')
    """
    shape = (len(instance), v.batches)
    most = instance.final_tokens[:, None] - 1
    e, done = v["evicts"], v["done"][:, 1:]
    name = "residency"
    return join(name, [
        rows(name, shape, (v["cached"][:, :-1], 1), (e, -1), lower=0),
        rows(name, shape, (v["decodes"], 1), (v["prefills"], 1), (e, 1), upper=1),
        rows(name, shape, (v["cached"][:, 1:], 1), (e, most), (done, most), upper=most),
    ])  # fmt: skip
