"""Rule ``kv_capacity``: the KV held after a batch, finishing requests included, fits."""

from __future__ import annotations

import numpy as np

from optsched.constraints.compact.rows import Term, join, over_requests, rows
from optsched.instance import Instance
from optsched.model.compact import CompactVariables
from optsched.model.milp import Block


def kv_capacity(instance: Instance, v: CompactVariables) -> Block:
    """Sum over requests of m' + (I + O - 1)(done' - done) <= M y, in whole pages:
    b w >= m' + (I + O - 1)(done' - done) and sum w <= floor(M / b) y with integer w if b > 1.
    What is on the host (``swapped``) is not counted.
    """
    limits = instance.limits
    final = instance.final_tokens[:, None]
    m, done, y = v["cached"][:, 1:], v["done"], v["used"]
    name = "kv_capacity"
    kv: list[Term] = [(m, 1), (done[:, 1:], final), (done[:, :-1], -final)]
    if v.swapping:
        kv.append((v["swapped"][:, 1:], -1))
    if "pages" not in v:
        columns = [
            (over_requests(index), over_requests(np.broadcast_to(np.asarray(value), index.shape)))
            for index, value in kv
        ]
        return rows(name, y.shape, *columns, (y, -limits.kv_tokens), upper=0)
    pages, block = v["pages"], limits.block_tokens
    return join(name, [
        rows(name, pages.shape, (pages, block), *((i, -np.asarray(a)) for i, a in kv), lower=0),
        rows(name, y.shape, (over_requests(pages), 1), (y, -(limits.kv_tokens // block)), upper=0),
    ])  # fmt: skip
