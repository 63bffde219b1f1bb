"""Rule ``arrival``."""

from __future__ import annotations

import numpy as np

from optsched.constraints.compact.durations import batch_time_terms
from optsched.constraints.compact.rows import Term, join, rows
from optsched.instance import Instance
from optsched.model.compact import CompactVariables
from optsched.model.milp import Block

NAME = "arrival"


def arrival(instance: Instance, v: CompactVariables) -> Block:
    """No batch starts before what it processes has arrived. Starts never decrease, so with a_k = 1
    from the first batch on that processes a request which arrives at T_k or later:

        e' - t >= sum_k (T_k - T_{k-1}) a_k,   a_k >= a_k before,   a_k >= d + p,   a_k >= a_{k+1}

    for the arrivals T_1 < T_2 < .. after T_0 = 0, without a big-M. (exact.md, section 4.)
    """
    if v.clock is None or instance.offline:
        return join(NAME, [])
    a, end, unit = v["arrived"], v["end"], v.clock.unit_s
    wait = -np.diff(v.clock.arrivals_s, prepend=0.0) / unit
    start: list[Term] = [(end[1:], 1), *batch_time_terms(v, -1)]
    late = v.clock.class_of
    members = np.flatnonzero(late >= 0)
    decodes, prefills = v["decodes"][members], v["prefills"][members]
    return join(NAME, [
        rows(NAME, (v.batches,), *start, (a.T, wait), lower=0),
        rows(NAME, a[:, 1:].shape, (a[:, 1:], 1), (a[:, :-1], -1), lower=0),
        rows(NAME, a[1:].shape, (a[:-1], 1), (a[1:], -1), lower=0),
        rows(NAME, decodes.shape, (a[late[members]], 1), (decodes, -1), (prefills, -1), lower=0),
    ])  # fmt: skip
