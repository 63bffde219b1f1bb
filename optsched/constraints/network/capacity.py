"""Rows that limit what is held after a batch, in slots that may be idle.

    sum of weight x over all arcs of batch j          <= K y_j     last interval
    sum of weight x over all arcs of batch j          <= K         earlier ones
    sum of weight x over arcs that process tokens     <= K y_j     earlier ones

After the last batch nothing is held; but in an idle slot before a later arrival requests are held
without a batch (:mod:`optsched.model.network_slots`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optsched.constraints.network.blocks import Part
from optsched.model.network import NetworkVariables

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


def held_at_most(
    variables: NetworkVariables, arc: IntArray, weight: FloatArray, limit: float, rows: int
) -> tuple[list[Part], FloatArray]:
    """Entries of the rows, numbered from ``rows``, and their upper bounds."""
    slots, arcs = variables.slots, variables.arcs
    batch, early = arcs.batch[arc] - 1, np.flatnonzero(~slots.last)
    late = np.flatnonzero(slots.last)
    busy = (arcs.tokens[arc] > 0) & ~slots.last[batch]
    again = rows + slots.count
    return [
        (rows + batch, arc, weight),
        (rows + late, variables.used[late], np.full(late.size, -float(limit))),
        (again + batch[busy], arc[busy], weight[busy]),
        (again + early, variables.used[early], np.full(early.size, -float(limit))),
    ], np.concatenate([np.where(slots.last, 0.0, float(limit)), np.zeros(early.size)])
