"""What steps of the network with calls take alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optsched.instance import Instance
from optsched.model.calls_network_arcs import Arcs

FloatArray = NDArray[np.float64]


def alone_s(instance: Instance, arcs: Arcs) -> FloatArray:
    """Duration of a batch with nothing but the step, seconds; 0 for arcs that process nothing,
    which can pass while a call is out. Shape ``(arcs,)``."""
    cost = instance.cost
    setup = np.where(arcs.prefill, cost.p0, cost.d0)
    alone: FloatArray = np.where(
        arcs.generates, cost.token_time(arcs.tokens) + arcs.attention_s + setup, 0.0
    )
    return alone
