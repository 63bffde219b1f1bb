"""One-partial-fill arcs: what a partial fill may hold and when it may change.

    z_j <= w_j                             the request waits in batch j: it was not evicted in it
    z_j <= f_j <= F z_j                    it holds some, but not all, of its tokens
    f_(j-1) - f_j <= F (p_j + r_j)         tokens never leave, except into a completed fill
    sum over types of z_j at g = 0 <= 1    one partial first fill in all

with F the most tokens of a partial fill, S - 1 or S - 2. :mod:`optsched.model.partial_fills` has
the proof that these lose nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optsched.constraints.network.blocks import stacked
from optsched.instance import Instance
from optsched.model.milp import Block
from optsched.model.network import NetworkVariables

IntArray = NDArray[np.int64]


def chunking(instance: Instance, variables: NetworkVariables) -> Block:
    """Rows: four per partial fill, then one per batch."""
    partials, arcs = variables.partials, variables.arcs
    count = len(partials)
    if not count:
        return stacked("chunking", [], 0)
    every, ones, most = np.arange(count), np.ones(count), partials.most.astype(np.float64)
    # Number of the class and batch, and of the partial fill that f_(j-1) belongs to.
    following = _key(variables, partials.type, partials.stage, partials.batch + 1)
    k, later = _matches(following, _key(variables, partials.type, partials.stage, partials.batch))
    ends = np.flatnonzero(arcs.prefills)
    closed, end = _matches(
        following, _key(variables, arcs.type[ends], arcs.stage[ends], arcs.batch[ends])
    )
    first = np.flatnonzero(partials.stage == 0)
    parts = [
        (every, partials.begun, -ones), (every, partials.wait, ones),
        (count + every, partials.tokens, ones), (count + every, partials.begun, -ones),
        (2 * count + every, partials.begun, most), (2 * count + every, partials.tokens, -ones),
        (3 * count + every, partials.tokens, -ones),
        (3 * count + k, partials.tokens[later], np.ones(k.size)),
        (3 * count + closed, ends[end], most[closed]),
        (4 * count + partials.batch[first] - 1, partials.begun[first], -ones[first]),
    ]  # fmt: skip
    lower = np.concatenate([np.zeros(4 * count), np.full(variables.slots.count, -1.0)])
    return stacked("chunking", parts, lower.size, lower=lower)


def _key(
    variables: NetworkVariables, type_: IntArray, stage: IntArray, batch: IntArray
) -> IntArray:
    """One number per (type, stage, batch)."""
    stages = max(kind.output_tokens for kind in variables.types)
    return (type_ * stages + stage) * (variables.slots.count + 2) + batch


def _matches(left: IntArray, right: IntArray) -> tuple[IntArray, IntArray]:
    """Positions of all pairs of equal numbers; ``left`` has none twice."""
    order = np.argsort(left)
    place = np.minimum(np.searchsorted(left[order], right), left.size - 1)
    equal = np.flatnonzero(left[order][place] == right)
    return order[place[equal]], equal
