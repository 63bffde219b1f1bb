"""Strengthening: how long phases and batches take at least."""

from __future__ import annotations

from optsched.constraints.compact.durations import attention_terms, lines
from optsched.constraints.compact.phases import alive
from optsched.constraints.compact.rows import Term, join, only, rows
from optsched.instance import Instance
from optsched.model.compact import CompactVariables
from optsched.model.compact_clock import UNTIL_FINISH, UNTIL_FIRST, Clock
from optsched.model.milestones import earliest_ends
from optsched.model.milp import Block

NAME = "clock_bounds"


def clock_bounds(instance: Instance, v: CompactVariables) -> Block:
    """With x = 1 if a request is in a phase before a batch, and alpha_k (the set-up of any batch
    included) and beta_k of every affine piece:

    - a batch takes at least that of one token: length >= g(1) x; until its end a request pays its
      own step: length >= alpha_k x + beta_k c + own attention;
    - the i-th request to finish, or to have its first token, does so at
      :func:`~optsched.model.milestones.earliest_ends` or later: sum of all lengths >= their sum,
      and the end of the last batch >= the last of them;
    - a request whose batch j ends no earlier than j g(1), past what its limit allows, misses it
      unless it is finished (has its first token) before: miss + done >= 1.
    """
    if not v.strengthened or v.clock is None:
        return join(NAME, [])
    return join(NAME, [
        *_each_batch(instance, v, v.clock), *_all_requests(instance, v, v.clock),
        *_deadlines(instance, v, v.clock),
    ])  # fmt: skip


def _each_batch(instance: Instance, v: CompactVariables, clock: Clock) -> list[Block]:
    shape, blocks = (len(instance), v.batches), []
    for name in (name for name in clock.phases if name in v):
        here = v[name] >= 0
        constant, terms = alive(v, name)
        # Each is (least time of a batch, of a token, own attention counts).
        least = [(clock.shortest_s / clock.unit_s, 0.0, False)]
        if name == UNTIL_FINISH:
            least += [(*line, True) for line in lines(v)]
        for alpha, beta, own in least:
            present = [(only(index, here), -sign * alpha) for index, sign in terms]
            step: list[Term] = [(only(v["tokens"], here), -beta)] if own else []
            step += [(only(i, here), x) for i, x in attention_terms(v, -1)] if own else []
            parts = (v[name], 1), *present, *step
            blocks.append(rows(NAME, shape, *parts, lower=constant * alpha))
    return blocks


def _all_requests(instance: Instance, v: CompactVariables, clock: Clock) -> list[Block]:
    last = float(earliest_ends(clock.instance)[-1]) / clock.unit_s
    blocks = [rows(NAME, (1,), (v["end"][-1:], 1), lower=last)]
    for name, first in ((UNTIL_FINISH, False), (UNTIL_FIRST, True)):
        if clock.phases[name].all():
            total = float(earliest_ends(clock.instance, first_tokens=first).sum()) / clock.unit_s
            blocks.append(rows(NAME, (1,), (v[name].reshape(1, -1), 1), lower=total))
    return blocks


def _deadlines(instance: Instance, v: CompactVariables, clock: Clock) -> list[Block]:
    if "misses" not in v:
        return []
    blocks = []
    for name, phase in (("latency_slo_s", UNTIL_FINISH), ("ttft_slo_s", UNTIL_FIRST)):
        if phase not in v:
            continue
        reached = v["done"] if phase == UNTIL_FINISH else v["begun"]
        for i, request in enumerate(instance.requests):
            slo = getattr(request, name)
            if slo is None:
                continue
            until = float(clock.release_s[i]) + slo
            until += clock.allowance_s(until)
            # The first batch, from 0, that ends too late, even after the shortest ones before it.
            batch = int(min(until / clock.shortest_s * (1 + 1e-9), v.batches))
            if batch < v.batches:
                terms = (v["misses"][i : i + 1], 1), (reached[i, batch : batch + 1], 1)
                blocks.append(rows(NAME, (1,), *terms, lower=1))
    return blocks
