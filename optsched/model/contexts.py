"""How much a request knows, by number of generated tokens: its calls append their responses.

A request that has generated k tokens knows S_k = I + k + the responses of its calls after at most
k tokens. If nothing was evicted since it generated token k, S_{k-1} = S_k - 1 - R_k of them are
cached, where R_k is the response of the call that token k made (0 if it made none).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optsched.instance import Instance

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Contexts:
    """Sizes by request and number of generated tokens k.

    Parameters
    ----------
    known : int array, shape ``(requests, k)``, k = 0 .. largest O
        S_k; beyond a request's own O it goes on as if it generated further tokens.
    response : int array, of the same shape
        R_k.
    """

    known: IntArray
    response: IntArray

    @property
    def resident(self) -> IntArray:
        """S_{k-1}, what is cached right after token k was generated; of k = 0 it means nothing."""
        return self.known - 1 - self.response


def contexts(instance: Instance) -> Contexts:
    """The sizes of ``instance``."""
    shape = len(instance), int(instance.output_tokens.max()) + 1
    response = np.zeros(shape, dtype=np.int64)
    for i, request in enumerate(instance.requests):
        for call in request.calls:
            response[i, call.after_tokens] = call.response_tokens
    generated = np.arange(shape[1])
    known = instance.prompt_tokens[:, None] + generated + response.cumsum(axis=1)
    return Contexts(known=known, response=response)


@dataclass(frozen=True, kw_only=True, eq=False)
class Calls:
    """The calls of an instance by request and then in order, in columns of shape ``(calls,)``.

    ``request`` is a position, ``after_tokens`` k how many tokens were generated when the call is
    made, ``known_before`` and ``known_after`` what the request knows before and after that.
    """

    request: IntArray
    after_tokens: IntArray
    known_before: IntArray
    known_after: IntArray
    duration_s: FloatArray

    def __len__(self) -> int:
        return int(self.request.size)


def calls_of(instance: Instance) -> Calls:
    """The calls of ``instance``."""
    pairs = [
        (i, call.after_tokens) for i, request in enumerate(instance.requests)
        for call in request.calls
    ]  # fmt: skip
    request, after = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    known = contexts(instance).known
    durations = [call.duration_s for request in instance.requests for call in request.calls]
    return Calls(
        request=request, after_tokens=after,
        known_before=known[request, after - 1], known_after=known[request, after],
        duration_s=np.array(durations, dtype=np.float64),
    )  # fmt: skip
