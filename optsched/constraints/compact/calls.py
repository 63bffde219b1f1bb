"""Which calls are made, and which requests have resumed from theirs."""

from __future__ import annotations

import numpy as np

from optsched.constraints.compact.rows import Term, join, only, rows
from optsched.instance import Instance
from optsched.model.compact import CompactVariables
from optsched.model.milp import Block

NAME = "calls"


def calls(instance: Instance, v: CompactVariables) -> Block:
    """A call after k tokens is made (u = 1) iff S_k tokens are known, S_{k-1} without it; a request
    that has made it is processed only in batches by whose end it has resumed (r' = 1), and has
    resumed only if it was processed since:

        I + (S_k - I) u <= s <= S_{k-1} + (I + O + responses - S_{k-1}) u,
        d + p <= 1 - u + r',  r' <= u,  r <= r' <= r + d + p

    In whole numbers implied: with A, R of ``stages``, u = 1 - sum of (A + R) before k, and
    r >= 1 - sum of (A + R) up to k, with equality if fills are not split.
    """
    who = v.calls.request
    if not len(v.calls):
        return join(NAME, [])
    u, r, s = v["made"], v["resumed"], v["known"][who]
    end = instance.final_tokens[who, None] + 1
    prompt = instance.prompt_tokens[who, None]
    before, after = v.calls.known_before[:, None], v.calls.known_after[:, None]
    runs = [(v[name][who], -1) for name in ("decodes", "prefills")]
    shape = r[:, 1:].shape
    return join(NAME, [
        rows(NAME, s.shape, (s, 1), (u, prompt - after), lower=prompt),
        rows(NAME, s.shape, (s, 1), (u, before - end), upper=before),
        rows(NAME, shape, *runs, (u[:, :-1], -1), (r[:, 1:], 1), lower=-1),
        rows(NAME, shape, (r[:, 1:], 1), (u[:, :-1], -1), upper=0),
        rows(NAME, shape, (r[:, 1:], 1), (r[:, :-1], -1), lower=0),
        rows(NAME, shape, (r[:, 1:], 1), (r[:, :-1], -1), *runs, upper=0),
        *_stages(v),
    ])  # fmt: skip


def _stages(v: CompactVariables) -> list[Block]:
    if not v.strengthened:
        return []
    who, after = v.calls.request, v.calls.after_tokens[:, None, None]
    k = np.arange(v["absent"].shape[1])[None, :, None]
    at = [np.moveaxis(v[name][who], 1, 2) for name in ("absent", "resident")]
    behind = np.moveaxis(np.broadcast_to(k < after, v["absent"][who].shape), 1, 2)
    there = np.moveaxis(np.broadcast_to(k <= after, v["absent"][who].shape), 1, 2)
    made: list[Term] = [(v["made"], 1), *((only(i, behind), 1) for i in at)]
    resumed: list[Term] = [(v["resumed"], 1), *((only(i, there), 1) for i in at)]
    shape, whole = v["made"].shape, np.inf if "partial" in v else 1
    return [
        rows(NAME, shape, *made, lower=1, upper=1),
        rows(NAME, shape, *resumed, lower=1, upper=whole),
    ]
