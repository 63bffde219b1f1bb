"""What columns of the network formulation add to the duration of their batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from optsched.model.network_arcs import ArcKind

if TYPE_CHECKING:
    from optsched.model.network import NetworkVariables

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
Entries = tuple[IntArray, IntArray, FloatArray]


def durations(variables: NetworkVariables) -> Entries:
    """Entries (row = j - 1, column, value) of the duration of every batch, seconds.

    duration = sum over arcs of (beta tokens + attention) + alpha y_j + x_j + d0 D_j + p0 P_j
    with (alpha, beta) the flattest piece. A fill of S tokens costs p_sq S^2 + p_req however it
    is chunked, a restore p_sq (S-1)^2 + p_req. A fill that is partial after a batch, with f
    tokens cached, has one more chunk, which costs p_kv f + p_req, unless chunks are free.
    """
    arcs, law = variables.arcs, variables.instance.cost
    alpha, beta = min(law.pieces, key=lambda piece: piece[1])
    of_arcs = (
        beta * arcs.tokens
        + arcs.of(ArcKind.DECODE) * law.decode_time(arcs.cached - 1)
        + arcs.prefills * law.prefill_time(arcs.tokens, 0)
    )
    busy = np.flatnonzero(of_arcs)
    every = np.arange(variables.slots.count)
    parts: list[Entries] = [(arcs.batch[busy] - 1, busy, of_arcs[busy])]
    for columns, price in (
        (variables.used, alpha), (variables.excess, 1e-6),
        (variables.any_decode, law.d0), (variables.any_prefill, law.p0),
    ):  # fmt: skip
        if columns.size and price:
            parts.append((every, columns, np.full(every.size, price)))
    if not variables.free_chunks:
        partials = variables.partials
        for columns, price in ((partials.begun, law.p_req), (partials.tokens, law.p_kv)):
            parts.append((partials.batch - 1, columns, np.full(columns.size, price)))
    rows, numbers, values = (np.concatenate(part) for part in zip(*parts, strict=True))
    return rows, numbers, values
