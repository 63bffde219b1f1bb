"""Stages of a request with calls: what it knows, has cached and must process after g tokens.

With g generated tokens a request knows S_g = I + g + (responses of the calls made by then). It
generated the last of them by processing all that it knew before, so c_g = S_(g-1) of them are
cached, unless the KV was evicted, and an unchunked step towards token g + 1 processes either the
1 + R_g others (R_g: the response of a call made at g, else 0), or all S_g.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optsched.cost import CostModel
from optsched.instance import Instance
from optsched.model.contexts import contexts

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Stages:
    """Of one request; arrays have one entry per stage g = 0 .. O - 1.

    Parameters
    ----------
    known : int array
        S_g.
    cached : int array
        c_g; 0 for g = 0.
    appended : int array
        1 + R_g tokens, which a request with its KV on the GPU processes next.
    pause_s : float array
        How long the call made at g takes; 0 if there is none.
    calls : tuple of int
        The stages at which calls are made.
    """

    known: IntArray
    cached: IntArray
    appended: IntArray
    pause_s: FloatArray
    calls: tuple[int, ...]

    def __len__(self) -> int:
        return int(self.known.size)

    def append_s(self, cost: CostModel) -> FloatArray:
        """Attention of the step on cached KV, seconds: a decode, or a prefill of a response."""
        decode = cost.decode_time(self.cached)
        prefill = cost.prefill_time(self.appended, self.cached)
        times: FloatArray = np.where(self.appended == 1, decode, prefill)
        return times

    def fill_s(self, cost: CostModel) -> FloatArray:
        """Attention of the step that processes everything, seconds."""
        return cost.prefill_time(self.known, 0)

    def least_s(self, cost: CostModel) -> FloatArray:
        """The least duration of a batch that takes the step, seconds."""
        decodes = self.appended == 1
        append = cost.token_time(self.appended) + self.append_s(cost)
        append += np.where(decodes, cost.d0, cost.p0)
        fill = cost.token_time(self.known) + self.fill_s(cost) + cost.p0
        least = np.minimum(append, fill)
        least[0] = fill[0]
        return least


def all_stages(instance: Instance) -> tuple[Stages, ...]:
    """The stages of every request."""
    sizes, found = contexts(instance), []
    for i, request in enumerate(instance.requests):
        own = slice(request.output_tokens)
        pause = np.zeros(request.output_tokens)
        for call in request.calls:
            pause[call.after_tokens] = call.duration_s
        cached = sizes.resident[i, own].copy()
        cached[0] = 0
        found.append(
            Stages(
                known=sizes.known[i, own], cached=cached, appended=1 + sizes.response[i, own],
                pause_s=pause, calls=tuple(call.after_tokens for call in request.calls),
            )
        )  # fmt: skip
    return tuple(found)
