"""Calls of all requests in columns, keyed by the level at which they are made.

The *level* of a request is its number of cached tokens. With g tokens generated it knows
s(g) = I + g + (responses of the calls with after_tokens <= g) tokens, and token g + 1 is
generated when the level first reaches s(g). A call after k tokens is therefore made at level
s(k - 1), and the next token comes at s(k) = s(k - 1) + 1 + R: the R levels in between, which
feed the response, generate nothing. They are called *silent* here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from optsched.instance import Instance

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class CallTable:
    """Columns of shape ``(calls,)``, sorted by request and then by ``after_tokens``.

    Parameters
    ----------
    request : int array
        Position of the calling request in the instance.
    after_tokens, response_tokens : int arrays
        Output tokens generated when the call is made, and tokens that it appends.
    duration_s : float array
        Seconds until it returns.
    level : int array
        Cached tokens after the batch that makes the call, s(after_tokens - 1).
    stride : int
        Above every level of every request: ``request * stride + level`` sorts by both.
    """

    request: IntArray
    after_tokens: IntArray
    response_tokens: IntArray
    duration_s: FloatArray
    level: IntArray
    stride: int

    @cached_property
    def _key(self) -> IntArray:
        return self.request * self.stride + self.level

    @cached_property
    def _appended(self) -> IntArray:
        """Responses of the calls before each call, over all requests; ``(calls + 1,)``."""
        return np.concatenate(([0], np.cumsum(self.response_tokens)))

    def appended_tokens(self, request: IntArray, generated: IntArray) -> IntArray:
        """Responses in the context of ``request`` once ``generated`` tokens exist; elementwise."""
        key = self.request * self.stride + self.after_tokens
        upto = np.searchsorted(key, request * self.stride + generated, side="right")
        appended: IntArray = self._appended[upto]
        return appended - self._appended[np.searchsorted(self.request, request)]

    def silent_levels(self, request: IntArray, level: IntArray) -> IntArray:
        """Silent levels of ``request`` that are at most ``level``; elementwise."""
        begin = np.searchsorted(self.request, request)
        upto = np.searchsorted(self._key, request * self.stride + level)
        silent: IntArray = self._appended[upto] - self._appended[begin]
        # Only the last call made can have silent levels above this one.
        some = np.flatnonzero(upto > begin)
        last = upto[some] - 1
        silent[some] -= np.maximum(self.level[last] + self.response_tokens[last] - level[some], 0)
        return silent

    def overlaps(
        self, request: IntArray, low: IntArray, high: IntArray
    ) -> tuple[IntArray, IntArray, IntArray]:
        """Parts of the ranges [low, high) of a step's starting level that feed a response.

        A step starting at level m reaches m + 1, so it ends on a silent level iff
        call level <= m < call level + R.

        Returns
        -------
        owner, low, high : int arrays, shape ``(overlaps,)``
            Position of the range that each part belongs to, and the part [low, high).
        """
        begin = np.searchsorted(self._key + self.response_tokens, request * self.stride + low)
        count = np.searchsorted(self._key, request * self.stride + high) - begin
        owner = np.repeat(np.arange(request.size), count)
        call = begin[owner] + offsets(count)
        start = self.level[call]
        return (
            owner,
            np.maximum(start, low[owner]),
            np.minimum(start + self.response_tokens[call], high[owner]),
        )


def call_table(instance: Instance) -> CallTable:
    """The calls of ``instance`` in columns."""
    rows = []
    for i, request in enumerate(instance.requests):
        appended = 0
        for call in request.calls:
            level = request.prompt_tokens + call.after_tokens - 1 + appended
            rows.append((i, call.after_tokens, call.response_tokens, level))
            appended += call.response_tokens
    table = np.array(rows, dtype=np.int64).reshape(-1, 4)
    durations = [call.duration_s for request in instance.requests for call in request.calls]
    return CallTable(
        request=table[:, 0],
        after_tokens=table[:, 1],
        response_tokens=table[:, 2],
        duration_s=np.array(durations, dtype=np.float64),
        level=table[:, 3],
        stride=int(instance.final_tokens.max()) + 2,
    )


def offsets(counts: IntArray) -> IntArray:
    """0 .. count - 1 for each count in turn: offsets(2, 3) = 0, 1, 0, 1, 2."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if counts.size else 0
    return np.arange(total) - np.repeat(ends - counts, counts)
