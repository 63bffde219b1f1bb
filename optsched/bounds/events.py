"""Token events: which batch sizes every schedule must meet, as runs of consecutive sizes.

Token g+1 of a request with prompt I is generated in a batch after which the request has exactly
S = I + g (+ the responses of its calls so far) tokens of KV, whether the batch decodes it, ends a
fill, or ends a refill after an eviction; swapping changes nothing of that. These *events* (request,
S) are what the lower bounds count: there is one per output token, two of one request never share
a batch, and the batch of an event holds at least S tokens of KV for its request.

From one event to the next S grows by 1, except across a call with response R, where it grows by
1 + R. So the events of a request form one run of consecutive sizes, plus one per call that
responds; 19,000 requests with millions of tokens are 19,000 rows.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from optsched.instance import Instance, Limits

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, eq=False)
class TokenRuns:
    """Runs of token events, all columns of shape ``(runs,)``; event k of a run (k from 0) has
    size ``size + k``, and needs the one before it unless k = 0.

    Parameters
    ----------
    request : int array
        Position of the request in the instance; the runs of a request are adjacent and in order.
    size : int array
        KV tokens S of the first event.
    count : int array
        Events of the run, >= 1.
    cached : int array
        KV tokens after the event before the run, 0 if the run starts with the request: the first
        event needs ``size - cached`` tokens that no earlier event needed.
    earliest : int array
        No schedule has the first event before this batch (batches count from 1).
    remaining : int array
        Every schedule has at least this many batches after that of the first event.
    """

    request: IntArray
    size: IntArray
    count: IntArray
    cached: IntArray
    earliest: IntArray
    remaining: IntArray

    def select(self, rows: BoolArray) -> TokenRuns:
        """The runs where ``rows`` is true."""
        return TokenRuns(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})

    def trimmed(self, head: int, tail: int) -> TokenRuns:
        """The events that lie after the first ``head`` and before the last ``tail`` batches of
        every schedule: earliest > head and remaining >= tail."""
        skip = np.clip(head + 1 - self.earliest, 0, self.count)
        keep = np.minimum(self.count, self.remaining - tail + 1) - skip
        rows = keep > 0
        return TokenRuns(
            request=self.request[rows], size=(self.size + skip)[rows], count=keep[rows],
            cached=np.where(skip > 0, self.size + skip - 1, self.cached)[rows],
            earliest=(self.earliest + skip)[rows], remaining=(self.remaining - skip)[rows],
        )  # fmt: skip

    def decodes(self) -> TokenRuns:
        """The events that a single decode can make: all but the first of each run."""
        rows = self.count > 1
        return TokenRuns(
            request=self.request[rows], size=self.size[rows] + 1, count=self.count[rows] - 1,
            cached=self.size[rows], earliest=self.earliest[rows] + 1,
            remaining=self.remaining[rows] - 1,
        )  # fmt: skip

    @property
    def first(self) -> BoolArray:
        """Runs that start with the request's first token, shape ``(runs,)``."""
        first: BoolArray = self.cached == 0
        return first

    @property
    def events(self) -> int:
        """Number of token events."""
        return int(self.count.sum())


def token_runs(instance: Instance) -> TokenRuns:
    """The token events of all requests of ``instance``."""
    if instance.has_calls:
        rows = [row for i in range(len(instance)) for row in _request_rows(instance, i)]
        request, size, count, cached = np.array(rows, dtype=np.int64).T
    else:
        request = np.arange(len(instance), dtype=np.int64)
        size, count = instance.prompt_tokens, instance.output_tokens
        cached = np.zeros_like(size)
    earliest, remaining = _positions(request, size, count, cached, instance.limits)
    return TokenRuns(
        request=request, size=size, count=count, cached=cached,
        earliest=earliest, remaining=remaining,
    )  # fmt: skip


def _request_rows(instance: Instance, i: int) -> list[tuple[int, int, int, int]]:
    """Rows (request, size, count, cached) of one request, cut at calls that append tokens."""
    request = instance.requests[i]
    rows, made, size, cached = [], 0, request.prompt_tokens, 0
    for call in request.calls:
        if call.response_tokens:
            count = call.after_tokens - made
            rows.append((i, size, count, cached))
            cached = size + count - 1
            size, made = cached + 1 + call.response_tokens, call.after_tokens
    rows.append((i, size, request.output_tokens - made, cached))
    return rows


def _positions(
    request: IntArray, size: IntArray, count: IntArray, cached: IntArray, limits: Limits
) -> tuple[IntArray, IntArray]:
    """Earliest batch of each run's first event and least number of batches after it.

    A batch processes at most min(C, P) tokens of one request in prefill and one in a decode, so
    the ``size - cached`` new tokens before a run's first event take ceil of that over min(C, P)
    batches, each further event one; a refill takes no fewer.
    """
    lead = -(-(size - cached) // limits.fill_tokens)
    length = lead + count - 1
    upto = np.cumsum(length)
    starts = np.flatnonzero(np.concatenate(([True], request[1:] != request[:-1])))
    owner = np.cumsum(np.concatenate(([False], request[1:] != request[:-1])))
    before = (upto - length)[starts][owner]
    ends = np.concatenate((upto[starts[1:] - 1], upto[-1:]))[owner]
    earliest = upto - length - before + lead
    return earliest.astype(np.int64), (ends - before - earliest).astype(np.int64)
