"""The time of the weights under several affine pieces.

    x_j >= 1e6 [ (alpha_k - alpha_0) y_j + (beta_k - beta_0) n_j ]

x_j is the batch time above the flattest piece (alpha_0, beta_0), which the cost of batches and
tokens already contains. It is in microseconds, so that a solver's tolerance of 1e-6 is far below
a batch time.
"""

from __future__ import annotations

import numpy as np

from optsched.constraints.network.blocks import Part, stacked
from optsched.instance import Instance
from optsched.model.milp import Block
from optsched.model.network import NetworkVariables


def batch_time(instance: Instance, variables: NetworkVariables) -> Block:
    """Rows: one per batch and piece above the flattest."""
    (alpha, beta), *steeper = sorted(instance.cost.pieces, key=lambda piece: piece[1])
    batch, columns, tokens = variables.batch_sum(variables.arcs.tokens, of_partials=True)
    used, excess = variables.used, variables.excess
    every, parts = np.arange(excess.size), list[Part]()
    for k, piece in enumerate(steeper):
        height, slope = 1e6 * (piece[0] - alpha), 1e6 * (piece[1] - beta)
        first = k * excess.size
        parts += [
            (first + batch, columns, -slope * tokens),
            (first + every, used, np.full(every.size, -height)),
            (first + every, excess, np.ones(every.size)),
        ]
    return stacked("batch_time", parts, len(steeper) * excess.size, lower=0.0)
