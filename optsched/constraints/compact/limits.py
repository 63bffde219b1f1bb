"""The largest latency, service-level objectives, and limits on further objectives."""

from __future__ import annotations

import numpy as np

from optsched.constraints.compact.durations import need_clock
from optsched.constraints.compact.rows import Term, join, only, rows
from optsched.instance import Instance
from optsched.model.compact import CompactVariables
from optsched.model.compact_clock import (
    AFTER_FIRST,
    UNTIL_FINISH,
    UNTIL_FIRST,
    BoolArray,
    Clock,
    objectives_s,
)
from optsched.model.milp import Block
from optsched.objective import Objective

NAME = "limits"


def limits(instance: Instance, v: CompactVariables) -> Block:
    """With F, B the sums of a request's times until its end and until its first token, and W that
    of its times after it:

        worst >= F - T,   F - T <= latency SLO + M miss,   B - T <= TTFT SLO + M miss,
        W <= (O - 1) TPOT SLO + M miss

    M is what is left until the latest end. Limits on objectives are rows as well: e at the last
    boundary, sum F - T and sum B - T over n, worst, and the weight that is missed. Every limit is
    moved outwards by ``Clock.allowance_s``. To F, B and W comes what was skipped meanwhile
    (:mod:`optsched.model.compact_skips`).
    """
    if v.clock is None:
        return join(NAME, [])
    blocks = [*_slos(instance, v, v.clock), *_at_most(instance, v, v.clock)]
    if "worst" in v:
        worst = np.broadcast_to(v["worst"], (len(instance),))
        release = -v.clock.release_s / v.clock.unit_s
        terms = (worst, 1), (v[UNTIL_FINISH], -1), *across(v, UNTIL_FINISH, -1)
        blocks.append(rows(NAME, worst.shape, *terms, lower=release))
    return join(NAME, blocks)


def _slos(instance: Instance, v: CompactVariables, clock: Clock) -> list[Block]:
    if "misses" not in v:
        return []
    release, latest = clock.release_s, clock.latest_s[-1]
    gaps = np.maximum(instance.output_tokens - 1, 1)
    blocks = []
    for name, phase, start, count in (
        ("latency_slo_s", UNTIL_FINISH, release, 1),
        ("ttft_slo_s", UNTIL_FIRST, release, 1),
        ("tpot_slo_s", AFTER_FIRST, np.zeros(len(instance)), gaps),
    ):
        if phase not in v:
            continue
        limit = start + objectives_s(instance, name) * count
        has = np.isfinite(limit) & clock.phases[phase]
        until = limit + [clock.allowance_s(x) for x in limit.tolist()]
        counted = clock.skips.charged[phase] & ~clock.skips.missing[phase]
        excess = latest + clock.skips.skipped_s @ counted - until
        has &= excess > 0
        lengths, misses = only(v[phase], has[:, None]), only(v["misses"], has)
        skipped = across(v, phase, 1, has & counted)
        terms = (lengths, 1), *skipped, (misses, -excess / clock.unit_s)
        blocks.append(rows(NAME, has.shape, *terms, upper=until / clock.unit_s))
    return blocks


def _at_most(instance: Instance, v: CompactVariables, clock: Clock) -> list[Block]:
    blocks = []
    unit, everybody = clock.unit_s, float(clock.release_s.sum())
    terms: list[Term]
    for objective, value in v.goal.at_most.items():
        limit = value + clock.allowance(instance, objective, value)
        if objective is Objective.MAKESPAN:
            skipped = float(clock.skips.skipped_s.sum())
            terms, upper = [(v["end"][-1:], 1.0)], (limit - skipped) / unit
        elif objective is Objective.MAX_LATENCY:
            terms, upper = [(v["worst"], 1.0)], limit / unit
        elif objective is Objective.GOODPUT:
            weight = instance.weights
            limit = value - clock.allowance(instance, objective, value)
            terms, upper = [(v["misses"][None], weight[None])], float(weight.sum()) - limit
        else:
            phase = UNTIL_FINISH if objective is Objective.MEAN_LATENCY else UNTIL_FIRST
            total = limit * len(instance) + everybody
            charges = [
                (i.reshape(1, -1), np.tile(x, len(instance))) for i, x in across(v, phase, 1)
            ]
            terms, upper = [(v[phase].reshape(1, -1), 1.0), *charges], total / unit
        blocks.append(rows(NAME, (1,), *terms, upper=upper))
    return blocks


def across(
    v: CompactVariables, phase: str, sign: float, counted: BoolArray | None = None
) -> list[Term]:
    """``sign`` times what each request is charged for time that was skipped; ``(requests,)``.

    ``counted``, shape ``(arrivals, requests)``, leaves charges out.
    """
    name = f"{phase}_skips"
    if name not in v:
        return []
    index = v[name] if counted is None else only(v[name], counted)
    clock = need_clock(v)
    return [(index.T, sign * clock.skips.skipped_s / clock.unit_s)]
