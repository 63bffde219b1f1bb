"""Strengthening: where each request is, by number of generated tokens.

A request with k of O tokens is absent (not, or only partly, cached) or resident (all but the last
token cached) before every batch. These flows and what they say of s, m, c and the steps are implied
by the rules in whole numbers, and much tighter than the big-M rows in fractions.
"""

from __future__ import annotations

import numpy as np

from optsched.constraints.compact.rows import Term, join, rows
from optsched.instance import Instance
from optsched.model.compact import CompactVariables
from optsched.model.milp import Block, IntArray

NAME = "stages"


def stages(instance: Instance, v: CompactVariables) -> Block:
    """Flow of each request, and the columns of the rules as sums over it.

    F, L, D, E = fills, refill_decodes, stage_decodes, stage_evicts at k; A, R = absent, resident.

        A'_k = A_k - F_k - L_k + E_k,            R'_k = R_k - D_k - E_k + (F + L + D)_{k-1},
        F_k + L_k <= A_k (the evicted wait a batch),  D_k + E_k <= R_k,
        done' = done + (F + L + D)_{O-1},
        g = sum (F + L + D),  d = sum (L + D),  p >= sum F,  e >= sum E,
        s = sum (I + k)(A + R) + (I + O) done,   begun = 1 - A_0

    Under ``no-hold`` D_k + E_k = R_k.
    """
    if not v.strengthened:
        return join(NAME, [])
    return join(NAME, [*_flow(v), *_links(instance, v), *_tokens(instance, v)])


def per_request(index: IntArray) -> IntArray:
    """``(requests, k, batches)`` as ``(requests, batches, k)``, to sum over k."""
    return np.moveaxis(index, 1, 2)


def _events(v: CompactVariables) -> list[IntArray]:
    return [v[name] for name in ("fills", "refill_decodes", "stage_decodes") if name in v]


def _absent_events(v: CompactVariables) -> list[IntArray]:
    return [v[name] for name in ("fills", "refill_decodes") if name in v]


def _flow(v: CompactVariables) -> list[Block]:
    absent, resident, done = v["absent"], v["resident"], v["done"]
    decodes, evicts, events = v["stage_decodes"], v["stage_evicts"], _events(v)
    shape = decodes.shape
    from_absent = [(index, 1) for index in _absent_events(v)]
    from_resident = (decodes, 1), (evicts, 1)
    # The token k = O - 1 leads to no further stage, but finishes the request.
    generated = []
    for index in events:
        before = np.full_like(index, -1)
        before[:, 1:] = np.where(resident[:, 1:, 1:] >= 0, index[:, :-1], -1)
        generated.append((before, -1))
    final_stage = v.instance.output_tokens - 1
    least = 0 if "no-hold" in v.policies else -np.inf
    last = [(index[np.arange(shape[0]), final_stage], -1) for index in events]
    return [
        rows(NAME, shape, (absent[:, :, 1:], 1), (absent[:, :, :-1], -1), *from_absent,
             (evicts, -1), lower=0, upper=0),
        rows(NAME, shape, (resident[:, :, 1:], 1), (resident[:, :, :-1], -1), *from_resident,
             *generated, lower=0, upper=0),
        rows(NAME, shape, (absent[:, :, :-1], -1), *from_absent, upper=0),
        rows(NAME, shape, (resident[:, :, :-1], -1), *from_resident, lower=least, upper=0),
        rows(NAME, done[:, 1:].shape, (done[:, 1:], 1), (done[:, :-1], -1), *last,
             lower=0, upper=0),
    ]  # fmt: skip


def _links(instance: Instance, v: CompactVariables) -> list[Block]:
    shape = v["generates"].shape
    k = np.arange(v["absent"].shape[1])
    known = instance.prompt_tokens[:, None, None] + k
    last = (instance.prompt_tokens + instance.output_tokens)[:, None]
    exact = {"lower": 0, "upper": 0}
    whole = exact if "partial" not in v else {"lower": 0}
    generates = [(per_request(index), -1) for index in _events(v)]
    decodes = generates[1:]
    begun = []
    if "begun" in v:
        terms = (v["begun"], 1), (v["absent"][:, 0], 1)
        begun.append(rows(NAME, v["begun"].shape, *terms, lower=1, upper=1))
    return [
        *begun,
        rows(NAME, shape, (v["generates"], 1), *generates, **exact),
        rows(NAME, shape, (v["decodes"], 1), *decodes, **exact),
        rows(NAME, shape, (v["prefills"], 1), (per_request(v["fills"]), -1), **whole),
        rows(NAME, shape, (v["evicts"], 1), (per_request(v["stage_evicts"]), -1), **whole),
        rows(NAME, v["known"].shape, (v["known"], 1), (v["done"], -last),
             *((per_request(v[name]), -known) for name in ("absent", "resident")), **exact),
    ]  # fmt: skip


def _tokens(instance: Instance, v: CompactVariables) -> list[Block]:
    """With r = m - sum (I + k - 1) R, the tokens of a partial fill, S = I + k, and Q = p - sum F,
    E0 = e - sum E the steps and evictions of partial fills:

    - L: its fill has S - 1 tokens; V <= r <= (I + O - 2) V; r <= sum (S - 1) A;
    - r + c - r' - sum S (F + L) - sum D is 0, or r if a partial fill is evicted, r <= I + O - 2;
    - r + c <= sum S (F + L) + sum D + sum (S - 1)(A - F - L);
    - c >= sum (L + D) + F_0 + 2 sum_{k>=1} F_k + Q;
    - V >= sum L + E0, V <= sum A, V' <= V + Q, V' + sum (F + L) + E0 <= 1.

    Without partial fills r = 0, and c is known: sum S F + D.
    """
    shape = v["generates"].shape
    prompt = instance.prompt_tokens[:, None, None]
    size = prompt + np.arange(v["absent"].shape[1])  # S, (requests, 1, k)
    resident = (per_request(v["resident"]), 1 - size)
    fills, decodes = per_request(v["fills"]), per_request(v["stage_decodes"])
    m, c, p, e = v["cached"], v["tokens"], v["prefills"], v["evicts"]
    if "partial" not in v:
        return [
            rows(NAME, m.shape, (m, 1), resident, lower=0, upper=0),
            rows(NAME, shape, (c, 1), (fills, -size), (decodes, -1), lower=0, upper=0),
        ]
    under_way, after = v["partial"][:, :-1], v["partial"][:, 1:]
    ends, absent = per_request(v["refill_decodes"]), per_request(v["absent"])
    part: tuple[Term, Term] = (m, 1), resident
    now: tuple[Term, Term] = (m[:, :-1], 1), (resident[0][:, :-1], 1 - size)
    then: tuple[Term, Term] = (m[:, 1:], -1), (resident[0][:, 1:], size - 1)
    most = instance.final_tokens[:, None] - 1
    evicts = per_request(v["stage_evicts"])
    given_up = (e, -most), (evicts, most[:, :, None])
    completes = (fills, -size), (ends, -size), (decodes, -1)
    others = (fills, size - 1), (ends, size - 1), (absent[:, :-1], 1 - size)
    return [
        rows(NAME, m.shape, *part, (v["partial"], -1), lower=0),
        rows(NAME, m.shape, *part, (v["partial"], -most), upper=0),
        rows(NAME, m.shape, *part, (absent, 1 - size), upper=0),
        rows(NAME, m.shape, (v["partial"], 1), (absent, -1), upper=0),
        rows(NAME, shape, *now, (ends, 1 - size), lower=0),
        rows(NAME, shape, *now, (c, 1), *completes, *then, lower=0),
        rows(NAME, shape, *now, (c, 1), *completes, *then, *given_up, upper=0),
        rows(NAME, shape, *now, (c, 1), *completes, *others, upper=0),
        rows(NAME, shape, (c, 1), (p, -1), (v["decodes"], -1), (fills[:, :, 1:], -1), lower=0),
        rows(NAME, shape, (under_way, 1), (ends, -1), (e, -1), (evicts, 1), lower=0),
        rows(NAME, shape, (after, 1), (under_way, -1), (p, -1), (fills, 1), upper=0),
        rows(NAME, shape, (after, 1), (fills, 1), (ends, 1), (e, 1), (evicts, -1), upper=1),
    ]
