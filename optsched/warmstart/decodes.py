"""The running decodes, advanced together.

In nearly every batch all of them make one token. So a request is not touched per batch: with
``steps`` the number of batches in which the decodes ran so far, its KV is ``offset + steps`` with
a constant offset, and it finishes when ``steps`` reaches a number known from the start. A request
that is left out of a batch has both shifted by one.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort

from optsched.warmstart.record import Record


class Decodes:
    """Requests in the decode phase, in the order of their keys.

    A key is ``major * requests + request``, so keys are unique, ties of the major number go by
    arrival, and ``key % requests`` is the request.

    Parameters
    ----------
    requests : int
        Number of requests of the instance.
    block : int
        b, KV tokens per page.
    record : Record
        Where stretches of decoding are written when they end.
    """

    def __init__(self, requests: int, block: int, record: Record) -> None:
        self.steps = 0
        self.keys: list[int] = []
        self.offset = [0] * requests
        self.offset_sum = 0
        self.end = [0] * requests
        self._key = [0] * requests
        self._since = [0] * requests
        self._ends: list[tuple[int, int]] = []  # heap of (end, request), stale entries included
        self._running = [False] * requests
        self._block = block
        # How many requests have an offset of this remainder: at ``steps`` those with
        # offset = -steps (mod b) have full pages and need a new one to decode.
        self._remainders = [0] * block
        self._record = record

    def __len__(self) -> int:
        return len(self.keys)

    def join(self, request: int, cached: int, remaining: int, key: int) -> None:
        """Add a request with ``cached`` tokens in KV and ``remaining`` >= 1 tokens to make."""
        self._running[request] = True
        self._since[request] = self.steps
        self._place(request, cached - self.steps, self.steps + remaining, key)

    def leave(self, request: int) -> None:
        """Take out a request: evicted, or finished."""
        self._running[request] = False
        self._displace(request)
        self._stop(request)

    def hold(self, request: int, key: int) -> None:
        """Leave ``request`` out of the batch that :meth:`advance` is about to count."""
        self._displace(request)
        self._stop(request)
        self._since[request] = self.steps + 1
        self._place(request, self.offset[request] - 1, self.end[request] + 1, key)

    def cached(self, request: int) -> int:
        """m of a request."""
        return self.offset[request] + self.steps

    def cached_sum(self) -> int:
        """Sum of m over all decodes."""
        return self.offset_sum + self.steps * len(self.keys)

    def growth(self) -> int:
        """Pages that one more token for each of them takes."""
        return self._remainders[-self.steps % self._block]

    def growth_over(self, batches: int) -> int:
        """Pages that ``batches`` more tokens for each of them take."""
        cycles, rest = divmod(batches, self._block)
        return cycles * len(self.keys) + sum(
            self._remainders[-(self.steps + j) % self._block] for j in range(rest)
        )

    def batches_within(self, pages: int) -> int:
        """The most batches in which all of them can decode when ``pages`` are free."""
        cycles, left = divmod(pages, len(self.keys))
        batches = cycles * self._block
        while (need := self._remainders[-(self.steps + batches) % self._block]) <= left:
            left -= need
            batches += 1
        return batches

    def batches_to_finish(self) -> int:
        """Batches until the first of them finishes."""
        return self._next_end() - self.steps

    def advance(self, first_batch: int, batches: int) -> list[int]:
        """All but the held ones decode in ``batches`` batches; take out and return the finished."""
        self._record.decoding(self.steps, first_batch)
        self.steps += batches
        finished = []
        while self._ends and self._next_end() <= self.steps:
            request = heapq.heappop(self._ends)[1]
            finished.append(request)
            self.leave(request)
        return finished

    def _next_end(self) -> int:
        while True:
            end, request = self._ends[0]
            if self._running[request] and self.end[request] == end:
                return end
            heapq.heappop(self._ends)
            if not self._ends:
                return self.steps + 1

    def _place(self, request: int, offset: int, end: int, key: int) -> None:
        self.offset[request] = offset
        self.end[request] = end
        self._key[request] = key
        self.offset_sum += offset
        self._remainders[offset % self._block] += 1
        heapq.heappush(self._ends, (end, request))
        insort(self.keys, key)

    def _displace(self, request: int) -> None:
        offset = self.offset[request]
        self.offset_sum -= offset
        self._remainders[offset % self._block] -= 1
        del self.keys[bisect_left(self.keys, self._key[request])]

    def _stop(self, request: int) -> None:
        if self._since[request] < self.steps:
            self._record.decoded(request, self._since[request], self.steps)
