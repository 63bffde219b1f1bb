"""Strengthening: where each request is, by number of generated tokens.

A request with k of O tokens is resident (the KV that its token k left is still there, on the GPU
or on the host) or absent (not, or only partly, cached) before every batch. These flows and what
they say of s, m, c and the steps are implied by the rules in whole numbers, and much tighter than
the big-M rows in fractions.
"""

from __future__ import annotations

import numpy as np

from optsched.constraints.compact.rows import Term, join, only, rows
from optsched.instance import Instance
from optsched.model.compact import CompactVariables
from optsched.model.milp import Block, IntArray

NAME = "stages"


def stages(instance: Instance, v: CompactVariables) -> Block:
    """Flow of each request, and the columns of the rules as sums over it.

    F, L, D, X, E = fills, refill_decodes, stage_decodes, appends, stage_evicts at k; A, R = absent,
    resident; S_k tokens are known.

        A'_k = A_k - F_k - L_k + E_k,   R'_k = R_k - D_k - X_k - E_k + (F + L + D + X)_{k-1},
        F_k + L_k <= A_k (the evicted wait a batch),  D_k + X_k + E_k <= R_k,
        done' = done + (F + L + D + X)_{O-1},
        g = sum (F + L + D + X),  d = sum (L + D),  p >= sum (F + X),  e >= sum E,
        s = sum S_k (A + R) + (I + O + responses) done,   begun = 1 - A_0

    Under ``no-hold`` D_k + E_k = R_k, unless there is a response to process in chunks or KV can
    be swapped.
    """
    if not v.strengthened:
        return join(NAME, [])
    return join(NAME, [*_flow(v), *_links(instance, v), *_tokens(instance, v)])


def per_request(index: IntArray) -> IntArray:
    """``(requests, k, batches)`` as ``(requests, batches, k)``, to sum over k."""
    return np.moveaxis(index, 1, 2)


def _events(v: CompactVariables) -> list[IntArray]:
    names = ("fills", "refill_decodes", "stage_decodes", "appends")
    return [v[name] for name in names if name in v]


def _absent_events(v: CompactVariables) -> list[IntArray]:
    return [v[name] for name in ("fills", "refill_decodes") if name in v]


def _flow(v: CompactVariables) -> list[Block]:
    absent, resident, done = v["absent"], v["resident"], v["done"]
    decodes, evicts, events = v["stage_decodes"], v["stage_evicts"], _events(v)
    shape = decodes.shape
    from_absent = [(index, 1) for index in _absent_events(v)]
    from_resident = [(decodes, 1), (evicts, 1)]
    if "appends" in v:
        from_resident.append((v["appends"], 1))
    # The token k = O - 1 leads to no further stage, but finishes the request.
    generated = []
    for index in events:
        before = np.full_like(index, -1)
        before[:, 1:] = np.where(resident[:, 1:, 1:] >= 0, index[:, :-1], -1)
        generated.append((before, -1))
    final_stage = v.instance.output_tokens - 1
    responds = v.contexts.response[:, :-1, None] > 0
    idles = "no-hold" not in v.policies or v.swapping
    least = np.where(idles | responds, -np.inf, 0.0)
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
    known = v.contexts.known[:, None, :-1]
    last = instance.final_tokens[:, None] + 1
    exact = {"lower": 0, "upper": 0}
    whole = exact if "partial" not in v else {"lower": 0}
    generates = [(per_request(index), -1) for index in _events(v)]
    decodes = [(per_request(v[x]), -1) for x in ("refill_decodes", "stage_decodes") if x in v]
    prefills = [(per_request(v[x]), -1) for x in ("fills", "appends") if x in v]
    begun = []
    if "begun" in v:
        terms = (v["begun"], 1), (v["absent"][:, 0], 1)
        begun.append(rows(NAME, v["begun"].shape, *terms, lower=1, upper=1))
    return [
        *begun,
        rows(NAME, shape, (v["generates"], 1), *generates, **exact),
        rows(NAME, shape, (v["decodes"], 1), *decodes, **exact),
        rows(NAME, shape, (v["prefills"], 1), *prefills, **whole),
        rows(NAME, shape, (v["evicts"], 1), (per_request(v["stage_evicts"]), -1), **whole),
        rows(NAME, v["known"].shape, (v["known"], 1), (v["done"], -last),
             *((per_request(v[name]), -known) for name in ("absent", "resident")), **exact),
    ]  # fmt: skip


def _tokens(instance: Instance, v: CompactVariables) -> list[Block]:
    """With S the tokens known at k, R_k the response of a call made then, c_k = S - 1 - R_k what a
    resident request has cached before it processes any of that; r = m - sum c_k R, the tokens of a
    partial fill or response; Q = p - sum (F + X), E0 = e - sum E the steps and evictions of partial
    fills; D1, E1, R1 = sums over the k with R_k > 0, where partial responses are:

    - L and D: of the fill S - 1 tokens, of the response R_k are there; V <= r <= (I + O - 2) V;
      r <= sum (S - 1) A + sum R_k R;
    - r + c - r' - sum S (F + L) - sum (1 + R_k)(D + X) is 0, or r if a partial fill or response is
      evicted, at most I + O - 2 or R_k;
    - r + c <= sum S (F + L) + sum (1 + R_k)(D + X) + sum (S - 1)(A - F - L)
      + sum R_k (R - D - X);
    - c >= sum (L + D) + F_0 + 2 sum_{k>=1} (F_k + X_k) + Q;
    - V >= sum L + D1 + E0, V <= sum A + R1, V' <= V + Q, V' + sum (F + L + X) + D1 + E0 + E1 <= 1.

    Without partial fills r = 0, and c is known: sum S F + D + (1 + R_k) X.
    """
    shape = v["generates"].shape
    size = v.contexts.known[:, None, :-1]  # S, (requests, 1, k)
    response = v.contexts.response[:, None, :-1]
    base = size - 1 - response
    resident = (per_request(v["resident"]), -base)
    fills, decodes = per_request(v["fills"]), per_request(v["stage_decodes"])
    appends = [per_request(v["appends"])] if "appends" in v else []
    m, c, p, e = v["cached"], v["tokens"], v["prefills"], v["evicts"]
    from_resident = [(index, -1 - response) for index in (decodes, *appends)]
    if "partial" not in v:
        return [
            rows(NAME, m.shape, (m, 1), resident, lower=0, upper=0),
            rows(NAME, shape, (c, 1), (fills, -size), *from_resident, lower=0, upper=0),
        ]
    under_way, after = v["partial"][:, :-1], v["partial"][:, 1:]
    ends, absent = per_request(v["refill_decodes"]), per_request(v["absent"])
    part: tuple[Term, Term] = (m, 1), resident
    now: tuple[Term, Term] = (m[:, :-1], 1), (resident[0][:, :-1], -base)
    then: tuple[Term, Term] = (m[:, 1:], -1), (resident[0][:, 1:], base)
    most = instance.final_tokens[:, None] - 1
    evicts = per_request(v["stage_evicts"])
    given_up = (e, -most), (evicts, most[:, :, None] - response)
    completes = (fills, -size), (ends, -size), *from_resident
    others = (fills, size - 1), (ends, size - 1), (absent[:, :-1], 1 - size)
    responding = np.broadcast_to(response > 0, resident[0].shape)
    # The response of a call, where there is one: of whom is at k, and what ends it.
    answers = only(resident[0], responding)
    waiting: list[Term] = [(answers, -response)]
    other_answers: list[Term] = [(answers[:, :-1], -response)]
    last_decode = only(decodes, responding[:, :-1])
    other_answers += [(index, response) for index in (last_decode, *appends)]
    ended = [(index, 1) for index in (last_decode, *appends, only(evicts, responding[:, :-1]))]
    return [
        rows(NAME, m.shape, *part, (v["partial"], -1), lower=0),
        rows(NAME, m.shape, *part, (v["partial"], -most), upper=0),
        rows(NAME, m.shape, *part, (absent, 1 - size), *waiting, upper=0),
        rows(NAME, m.shape, (v["partial"], 1), (absent, -1), (answers, -1), upper=0),
        rows(NAME, shape, *now, (ends, 1 - size), (last_decode, -response), lower=0),
        rows(NAME, shape, *now, (c, 1), *completes, *then, lower=0),
        rows(NAME, shape, *now, (c, 1), *completes, *then, *given_up, upper=0),
        rows(NAME, shape, *now, (c, 1), *completes, *others, *other_answers, upper=0),
        rows(NAME, shape, (c, 1), (p, -1), (v["decodes"], -1), (fills[:, :, 1:], -1),
             *((index, -1) for index in appends), lower=0),
        rows(NAME, shape, (under_way, 1), (ends, -1), (last_decode, -1), (e, -1), (evicts, 1),
             lower=0),
        rows(NAME, shape, (after, 1), (under_way, -1), (p, -1), (fills, 1),
             *((index, 1) for index in appends), upper=0),
        rows(NAME, shape, (after, 1), (fills, 1), (ends, 1), (e, 1), (evicts, -1), *ended,
             upper=1),
    ]  # fmt: skip
