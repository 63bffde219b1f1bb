"""Policies ``preserve``, ``discard`` and ``swap``, for the calls of all requests or of one."""

from __future__ import annotations

import numpy as np

from optsched.constraints.compact.rows import join, rows
from optsched.handling import HANDLINGS
from optsched.instance import Instance
from optsched.model.compact import CompactVariables
from optsched.model.milp import Block


def preserve(instance: Instance, v: CompactVariables) -> Block:
    """``preserve``."""
    return _fixed(v, "preserve")


def discard(instance: Instance, v: CompactVariables) -> Block:
    """``discard``."""
    return _fixed(v, "discard")


def swap(instance: Instance, v: CompactVariables) -> Block:
    """``swap``."""
    return _fixed(v, "swap")


def _fixed(v: CompactVariables, name: str) -> Block:
    """If a batch lies between a call and what resumes from it (in that batch u - r' = 1, with u, r
    of ``calls``), the call is handled so: h >= u - r'."""
    asked = np.array([v.handled[i] == name for i in v.calls.request.tolist()], dtype=bool)
    if not asked.any():
        return join(name, [])
    u, r = v["made"][asked, :-1], v["resumed"][asked, 1:]
    h = np.broadcast_to(v["handlings"][asked, HANDLINGS.index(name)][:, None], u.shape)
    return rows(name, u.shape, (h, 1), (u, -1), (r, 1), lower=0)
