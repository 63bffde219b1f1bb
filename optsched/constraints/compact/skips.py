"""Who is in a phase across an arrival: forbidden, a miss, or charged for what was skipped."""

from __future__ import annotations

import numpy as np

from optsched.constraints.compact.phases import alive
from optsched.constraints.compact.rows import Term, join, only, rows
from optsched.instance import Instance
from optsched.model.compact import CompactVariables
from optsched.model.compact_clock import AFTER_FIRST
from optsched.model.milp import Block, IntArray

NAME = "skips"


def skips(instance: Instance, v: CompactVariables) -> Block:
    """With a_k of family ``arrival``, and x = 1 if a request is in a phase before a batch:

        a_k + x <= 1 + z

    for z = 0, the miss or the charge of the request, as :class:`optsched.model.compact_skips.Skips`
    says: who is still in the phase when somebody is processed who arrives at T_k, or later, has
    been in it since its own arrival. The phase after the first token may have begun later, so there
    a_k counts only in the first batch in which it is 1: a_k - a_k before + x <= 1 + z.
    """
    if v.clock is None or instance.offline:
        return join(NAME, [])
    clock, n = v.clock, len(instance)
    shape = (clock.arrivals_s.size, n, v.batches)

    def everywhere(index: IntArray, which: np.ndarray) -> IntArray:
        return only(np.broadcast_to(index, shape), which[:, :, None])

    blocks = []
    for name in (name for name in clock.phases if name in v):
        constant, terms = alive(v, name)
        a = v["arrived"][:, None, :]
        before = np.concatenate([np.full_like(a[:, :, :1], -1), a[:, :, :-1]], axis=2)
        for which, excuse in (
            (clock.skips.forbidden[name], None),
            (clock.skips.missing[name], "misses"),
            (clock.skips.charged[name], f"{name}_skips"),
        ):
            parts: list[Term] = [(everywhere(a, which), 1)]
            parts += [(everywhere(before, which), -1)] if name == AFTER_FIRST else []
            parts += [(everywhere(index, which), sign) for index, sign in terms]
            if excuse is not None and excuse in v:
                z = v[excuse][:, None] if v[excuse].ndim == 1 else v[excuse][:, :, None]
                parts.append((everywhere(z, which), -1))
            blocks.append(rows(NAME, shape, *parts, upper=1 - constant))
    return join(NAME, blocks)
