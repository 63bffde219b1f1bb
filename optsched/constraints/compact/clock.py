"""When batches end."""

from __future__ import annotations

import numpy as np

from optsched.constraints.compact.durations import batch_time_terms
from optsched.constraints.compact.rows import join, rows
from optsched.instance import Instance
from optsched.model.compact import CompactVariables
from optsched.model.milp import Block

NAME = "clock"


def clock(instance: Instance, v: CompactVariables) -> Block:
    """With e, e' the ends of a batch and the one before, t the time it takes:

        e' >= e + t,   and e' = e + t if all requests arrive at once and none makes a call.

    Families ``arrival`` and ``pause`` keep it from starting too early. It may start late: that is
    never better, except for the time after a first token. Where this matters and t is exact, with q
    (at_once):

        e' - t <= e + idle (1 - q),   e' - t <= sum_k (T_k - T_{k-1}) a_k + latest q,
        a_k <= a_k before + sum of (d + p) of who arrives at T_k or later
    """
    if v.clock is None:
        return join(NAME, [])
    end, shape = v["end"], (v.batches,)
    start = (end[1:], 1), *batch_time_terms(v, -1)
    upper = 0 if instance.offline and not instance.has_calls else np.inf
    blocks = [rows(NAME, shape, *start, (end[:-1], -1), lower=0, upper=upper)]
    if not v.clock.exact:
        return join(NAME, blocks)
    q, a, unit = v["at_once"], v["arrived"], v.clock.unit_s
    idle, latest = v.clock.idle_s / unit, v.clock.latest_s[:-1] / unit
    wait = -np.diff(v.clock.arrivals_s, prepend=0.0) / unit
    before = np.concatenate([np.full((a.shape[0], 1), -1), a[:, :-1]], axis=1)
    runs = [
        (np.where(v.clock.classes[:, None, :], v[name].T[None], -1), -1)
        for name in ("decodes", "prefills")
    ]
    return join(NAME, [
        *blocks,
        rows(NAME, shape, *start, (end[:-1], -1), (q, idle), upper=idle),
        rows(NAME, shape, *start, (a.T, wait), (q, -latest), upper=0),
        rows(NAME, a.shape, (a, 1), (before, -1), *runs, upper=0),
    ])  # fmt: skip
