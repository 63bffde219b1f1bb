"""The waiting queue: by arrival with evicted requests at its front, or always in rank order."""

from __future__ import annotations

import heapq
from collections import deque


class Arrivals:
    """First come, first served; an evicted request goes to the front."""

    def __init__(self) -> None:
        self._queue: deque[int] = deque()

    def __len__(self) -> int:
        return len(self._queue)

    def head(self) -> int:
        """The request to be admitted next."""
        return self._queue[0]

    def pop(self) -> int:
        """Take the head out."""
        return self._queue.popleft()

    def arrive(self, request: int) -> None:
        """Put a new request at the end."""
        self._queue.append(request)

    def give_back(self, request: int) -> None:
        """Put an evicted request at the front."""
        self._queue.appendleft(request)


class Ranked:
    """Lowest rank first, whether a request is new or was evicted."""

    def __init__(self, rank: list[int]) -> None:
        self._rank = rank
        self._heap: list[int] = []

    def __len__(self) -> int:
        return len(self._heap)

    def head(self) -> int:
        """The request to be admitted next."""
        return self._heap[0] % len(self._rank)

    def head_key(self) -> int:
        """Rank of the head."""
        return self._heap[0]

    def pop(self) -> int:
        """Take the head out."""
        return heapq.heappop(self._heap) % len(self._rank)

    def arrive(self, request: int) -> None:
        """Add a request at its rank."""
        heapq.heappush(self._heap, self._rank[request])

    give_back = arrive
