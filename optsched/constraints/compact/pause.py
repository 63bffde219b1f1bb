"""Rule ``pause``."""

from __future__ import annotations

import numpy as np

from optsched.constraints.compact.durations import batch_time_terms, need_clock
from optsched.constraints.compact.rows import join, rows
from optsched.instance import Instance
from optsched.model.compact import CompactVariables
from optsched.model.milp import Block

NAME = "pause"


def pause(instance: Instance, v: CompactVariables) -> Block:
    """No batch that processes a request starts before its call returns. With e' the end of a batch
    j, b the start of a later one, and the call made before batch j (u = 1) and resumed from by the
    end of the later one (r = 1):

        b - e' >= D (r - u),   b = end - t,   b >= end of the batch before

    which says what the rule says if j makes the call and b resumes from it, and follows from the
    order of batches otherwise; there is no big-M. Batches so far apart that those between them
    take D have no row. (calls.md.)
    """
    if not len(v.calls):
        return join(NAME, [])
    clock = need_clock(v)
    start, end = v["start"], v["end"]
    made, later = np.triu_indices(v.batches, 1)
    blocks = [
        rows(NAME, start.shape, (start, 1), (end[1:], -1), *batch_time_terms(v, 1),
             lower=0, upper=0),
        rows(NAME, start.shape, (start, 1), (end[:-1], -1), lower=0),
    ]  # fmt: skip
    for q, takes_s in enumerate(v.calls.duration_s.tolist()):
        near = (later - made - 1) * clock.shortest_s < takes_s
        j, r = made[near], later[near]
        wait = takes_s / clock.unit_s
        terms = (start[r], 1), (end[j + 1], -1), (v["resumed"][q, r + 1], -wait), (
            v["made"][q, j], wait
        )  # fmt: skip
        blocks.append(rows(NAME, j.shape, *terms, lower=0))
    return join(NAME, blocks)
