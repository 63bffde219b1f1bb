"""Numbers of output tokens at which something happens to a request: a call, or its end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optsched.instance import Instance

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Milestones:
    """The calls of every request in order, each request's closed by its end.

    Parameters
    ----------
    first : int array, shape ``(requests,)``
        Position of each request's first milestone in the columns below.
    after : int array, shape ``(milestones,)``
        Output tokens that reach it; O for an end.
    response : int array, shape ``(milestones,)``
        Tokens that the call appends; 0 for an end.
    duration_s : float array, shape ``(milestones,)``
        How long the call takes; 0 for an end.
    """

    first: IntArray
    after: IntArray
    response: IntArray
    duration_s: FloatArray


def milestones(instance: Instance) -> Milestones:
    """The milestones of all requests."""
    requests = len(instance)
    if not instance.has_calls:
        return Milestones(
            first=np.arange(requests, dtype=np.int64),
            after=instance.output_tokens,
            response=np.zeros(requests, dtype=np.int64),
            duration_s=np.zeros(requests),
        )
    counts = np.array([len(r.calls) + 1 for r in instance.requests], dtype=np.int64)
    rows: list[tuple[int, int, float]] = []
    for request in instance.requests:
        rows += [(c.after_tokens, c.response_tokens, c.duration_s) for c in request.calls]
        rows.append((request.output_tokens, 0, 0.0))
    after, response, duration = zip(*rows, strict=True)
    return Milestones(
        first=np.cumsum(counts) - counts,
        after=np.array(after, dtype=np.int64),
        response=np.array(response, dtype=np.int64),
        duration_s=np.array(duration, dtype=np.float64),
    )
