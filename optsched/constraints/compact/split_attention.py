"""Strengthening: what the chunks of fills cost together."""

from __future__ import annotations

import numpy as np

from optsched.constraints.compact.rows import Term, batches_for_sums, join, rows, up_to
from optsched.instance import Instance
from optsched.model.compact import CompactVariables
from optsched.model.milp import Block

NAME = "split_attention"


def split_attention(instance: Instance, v: CompactVariables) -> Block:
    """The attention of a fill of S tokens, p_sq sum c^2 + p_mc sum m c over its chunks, is
    p_mc / 2 S^2 + (p_sq - p_mc / 2) sum c^2 with S <= sum c^2 <= S^2; call the least f(S). By the
    end of a batch j a request's chunks have cost at least that of the fills ended by then:

        sum_{j' <= j} (p_sq chunk_square + p_mc cross)
            >= sum_{j' <= j} sum_k f(S) F_k + f(S - 1) L_k + h(1 + R_k) X_k + h(R_k) D_k

    for fills F whose last step is a prefill, and L whose last token is a decode (``stages``); and
    for the response R_k of a call, appended to c cached tokens, likewise:
    h(n) = p_mc / 2 ((c + n)^2 - c^2) + (p_sq - p_mc / 2) sum c^2.
    """
    if not v.strengthened or v.clock is None or "cross" not in v:
        return join(NAME, [])
    cost, unit = instance.cost, v.clock.unit_s
    every = (
        ("fills", 1, 0), ("refill_decodes", 0, 0), ("appends", 1, 1), ("stage_decodes", 0, 1)
    )  # fmt: skip
    names = [(name, last, kept) for name, last, kept in every if name in v]
    if not instance.has_calls:
        names = names[:2]
    last = batches_for_sums(v.batches, 2 + len(names) * v["fills"].shape[1])
    known, resident = v.contexts.known[:, :-1, None], v.contexts.resident[:, :-1, None]
    half, rest = cost.mixed / 2, cost.p_sq - cost.mixed / 2
    blocks = []
    for i in range(len(instance)):
        paid: list[Term] = [
            (up_to(v[name][i], last), v.columns.durations[name] / unit)
            for name in ("chunk_square", "cross")
            if name in v
        ]
        owed: list[Term] = []
        for name, whole, kept in names:
            start = resident[i] * kept + np.zeros(v.batches)
            end = known[i] - 1 + whole
            length = end - start
            least = half * (end**2 - start**2) + np.minimum(rest * length, rest * length**2)
            least = np.broadcast_to(least.reshape(1, -1), (last.size, least.size))
            owed.append((up_to(v[name][i], last), -least / unit))
        blocks.append(rows(NAME, last.shape, *paid, *owed, lower=0))
    return join(NAME, blocks)
