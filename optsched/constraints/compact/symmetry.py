"""Requests of the same lengths are interchangeable: they finish in their order."""

from __future__ import annotations

from optsched.constraints.compact.rows import join, rows
from optsched.instance import Instance
from optsched.model.compact import CompactVariables
from optsched.model.milp import Block


def symmetry(instance: Instance, v: CompactVariables) -> Block:
    """done_i >= done_k at every boundary, for k the next request with the lengths of i.

    Exchanging all the actions of two such requests changes no rule and no batch time, so every
    schedule has an equal one that satisfies this.
    """
    pairs = v.alike()
    if not pairs:
        return join("symmetry", [])
    first, second = (v["done"][list(members), 1:-1] for members in zip(*pairs, strict=True))
    return rows("symmetry", first.shape, (first, 1), (second, -1), lower=0)
