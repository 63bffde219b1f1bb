"""How long each phase of a request's life takes."""

from __future__ import annotations

import numpy as np

from optsched.constraints.compact.rows import join, only, rows
from optsched.instance import Instance
from optsched.model.compact import CompactVariables
from optsched.model.compact_clock import AFTER_FIRST, UNTIL_FINISH
from optsched.model.milp import Block, IntArray

NAME = "phases"
Alive = tuple[float, list[tuple[IntArray, float]]]


def phases(instance: Instance, v: CompactVariables) -> Block:
    """With e, e' the ends of a batch and the one before, and x = 1 if the request is in the phase
    before the batch, hence in it:

        length >= e' - e - longest (1 - x),   length >= 0

    x = 1 - done until the end, 1 - begun until the first token, begun - done after that. Summed
    over batches it is e of the batch that ends the phase, less e of the one that it begins with:
    a product of two columns for each batch, priced batch by batch instead of once with a big-M as
    large as the horizon. (exact.md, section 4.)
    """
    if v.clock is None:
        return join(NAME, [])
    end, unit = v["end"], v.clock.unit_s
    shape = (len(instance), v.batches)
    blocks = []
    for name in (name for name in v.clock.phases if name in v):
        here = v[name] >= 0
        most = v.clock.longest_s if name != UNTIL_FINISH else v.clock.longest_without_s
        most = np.broadcast_to(most / unit, shape)
        constant, terms = alive(v, name)
        after, before = (only(np.broadcast_to(e, shape), here) for e in (end[1:], end[:-1]))
        present = [(only(index, here), -sign * most) for index, sign in terms]
        lower = (constant - 1) * most
        blocks.append(
            rows(NAME, shape, (v[name], 1), (after, -1), (before, 1), *present, lower=lower)
        )
    return join(NAME, blocks)


def alive(v: CompactVariables, phase: str) -> Alive:
    """1 if a request is in the phase at the start of a batch: a constant and terms, ``(requests,
    batches)``."""
    if phase == UNTIL_FINISH:
        return 1, [(v["done"][:, :-1], -1)]
    begun = v["begun"][:, :-1]
    if phase == AFTER_FIRST:
        return 0, [(begun, 1), (v["done"][:, :-1], -1)]
    return 1, [(begun, -1)]
