"""Strengthening: whoever arrives late does all its work late."""

from __future__ import annotations

import msgspec
import numpy as np

from optsched.constraints.compact.durations import attention_terms, lines
from optsched.constraints.compact.rows import Term, batches_for_sums, join, only, rows, up_to
from optsched.instance import Instance
from optsched.model.compact import CompactVariables
from optsched.model.compact_batches import least_batches
from optsched.model.compact_clock import UNTIL_FINISH, UNTIL_FIRST, Clock
from optsched.model.milp import Block

NAME = "arrival_bounds"


def arrival_bounds(instance: Instance, v: CompactVariables) -> Block:
    """With a_k = 1 from the first batch on that processes a request which arrives at T_k or later,
    y = 1 for a used batch, and alpha, beta of every affine piece, the set-up of any batch included:

    - until then somebody else is unfinished: a_k + y >= 1. So y a_k = y + a_k - 1, and by the end
      of batch j, as these batches and all work of such requests come after T_k,

          e_j >= T_k a_k + sum_{j' <= j} [alpha (y + a_k - 1) + sum (beta c + own attention)]

      (of long horizons, for some j);

    - a request that arrives at T_k, from then on and until it is finished (until its first token,
      which takes a whole prompt):

          F >= T_k + sum_j [alpha (a_k - done) + beta c + own attention],
          B >= T_k + sum_j alpha (a_k - begun) + beta I

    - the batches counted there are at least those that such requests need by themselves:
      sum_j (y + a_k - 1) >= least batches, sum_j (a_k - done) >= ceil(I / P') + O - 1,
      sum_j (a_k - begun) >= ceil(I / P').
    """
    if not v.strengthened or v.clock is None or instance.offline:
        return join(NAME, [])
    used, a = np.broadcast_to(v["used"], v["arrived"].shape), v["arrived"]
    return join(NAME, [
        rows(NAME, a.shape, (used, 1), (a, 1), lower=1),
        *_ends(instance, v, v.clock), *_requests(instance, v, v.clock),
        *_counts(instance, v, v.clock),
    ])  # fmt: skip


def _ends(instance: Instance, v: CompactVariables, clock: Clock) -> list[Block]:
    own = attention_terms(v, -1)
    last = batches_for_sums(v.batches, 2 + (1 + len(own)) * len(instance))
    end, used, blocks = v["end"][1:][last], up_to(v["used"], last), []
    for k, late in enumerate(clock.classes):
        a, arrival = v["arrived"][k], float(clock.arrivals_s[k]) / clock.unit_s
        work: list[Term] = [(up_to(index[late], last), x) for index, x in own]
        tokens, since = up_to(v["tokens"][late], last), up_to(a, last)
        for alpha, beta in lines(v):
            terms = (end, 1), (a[last], -arrival), (since, -alpha), (used, -alpha), (tokens, -beta)
            blocks.append(rows(NAME, last.shape, *terms, *work, lower=-alpha * (last + 1)))
    return blocks


def _requests(instance: Instance, v: CompactVariables, clock: Clock) -> list[Block]:
    late = np.maximum(clock.class_of, 0)
    a, release = v["arrived"][late], clock.release_s / clock.unit_s
    shape, blocks = release.shape, []
    own = attention_terms(v, -1)
    for phase in (UNTIL_FINISH, UNTIL_FIRST):
        if phase not in v:
            continue
        has = (clock.class_of >= 0) & clock.phases[phase]
        length = only(v[phase], has[:, None])
        since = only(a, has[:, None])
        for alpha, beta in lines(v):
            terms: list[Term] = [(length, 1), (since, -alpha)]
            if phase == UNTIL_FINISH:
                terms += [(only(v["done"][:, :-1], has[:, None]), alpha)]
                terms += [(only(i, has[:, None]), x) for i, x in [(v["tokens"], -beta), *own]]
                lower = release
            else:
                terms += [(only(v["begun"][:, :-1], has[:, None]), alpha)]
                lower = release + beta * instance.prompt_tokens
            blocks.append(rows(NAME, shape, *terms, lower=lower))
    return blocks


def _counts(instance: Instance, v: CompactVariables, clock: Clock) -> list[Block]:
    blocks = []
    for k, late in enumerate(clock.classes):
        members = tuple(r for r, here in zip(instance.requests, late, strict=True) if here)
        least = least_batches(msgspec.structs.replace(instance, requests=members))
        terms = (v["used"][None], 1), (v["arrived"][k][None], 1)
        blocks.append(rows(NAME, (1,), *terms, lower=least + v.batches))
    has = clock.class_of >= 0
    since = only(v["arrived"][np.maximum(clock.class_of, 0)], has[:, None])
    fill = -(-instance.prompt_tokens // instance.limits.fill_tokens)
    for name, chain in (("done", fill + instance.output_tokens - 1), ("begun", fill)):
        if name in v:
            reached = only(v[name][:, :-1], has[:, None])
            blocks.append(rows(NAME, has.shape, (since, 1), (reached, -1), lower=chain))
    return blocks
