"""Rule ``progress``: what a step processes, and that every used batch has one."""

from __future__ import annotations

import numpy as np

from optsched.constraints.compact.rows import join, over_requests, rows
from optsched.instance import Instance
from optsched.model.compact import CompactVariables
from optsched.model.milp import Block


def progress(instance: Instance, v: CompactVariables) -> Block:
    """1 <= c <= s - m for whoever is processed, and somebody is in the batches 1 .. N.

    d + p <= c; s - m - c >= 1 - g, as a request that does not generate leaves a token for later;
    y' <= y, d + p <= y, sum (d + p) >= y.
    """
    shape = (len(instance), v.batches)
    s, m = v["known"][:, :-1], v["cached"][:, :-1]
    c, g, d, p = (v[name] for name in ("tokens", "generates", "decodes", "prefills"))
    y = v["used"]
    everyone = np.broadcast_to(y, shape)
    name = "progress"
    return join(name, [
        rows(name, shape, (c, 1), (d, -1), (p, -1), lower=0),
        rows(name, shape, (s, 1), (m, -1), (c, -1), (g, 1), lower=1),
        rows(name, (v.batches - 1,), (y[:-1], 1), (y[1:], -1), lower=0),
        rows(name, shape, (d, 1), (p, 1), (everyone, -1), upper=0),
        rows(name, y.shape, (over_requests(d), 1), (over_requests(p), 1), (y, -1), lower=0),
    ])  # fmt: skip
