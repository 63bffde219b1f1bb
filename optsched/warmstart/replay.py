"""Schedules from decisions about kinds of requests: which request it is that a decision is about.

Requests of a kind wait in the order in which they came to wait, and residents sit in slots that
ascend by kind.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from optsched.schedule import Kind, Schedule, from_steps
from optsched.warmstart.beam_kinds import Kinds


class Replay:
    """What has been decided so far.

    Attributes
    ----------
    waiting : list of deque of int
        Requests by kind.
    residents : list of (int, int)
        Kind and request in each slot, ascending.
    batches : int
    """

    def __init__(self, kinds: Kinds) -> None:
        self._following: list[int] = kinds.next.tolist()
        self._tokens: list[int] = kinds.fill_tokens.tolist()
        self._none = kinds.none
        self._steps: list[tuple[int, int, int, int]] = []
        self.waiting = [deque(own) for own in kinds.members]
        self.residents: list[tuple[int, int]] = []
        self.batches = 0

    def batch(self, evicted: Sequence[bool], decoded: Sequence[bool], fills: Iterable[int]) -> None:
        """One batch: what each slot does, and the kinds of those that are filled."""
        self.batches += 1
        filled = [(kind, self.waiting[kind].popleft()) for kind in fills]
        stay = []
        for (kind, request), leaves, runs in zip(self.residents, evicted, decoded, strict=True):
            if leaves:
                self.waiting[kind].append(request)
                self._steps.append((request, Kind.EVICT, self.batches, 0))
                continue
            if runs:
                self._steps.append((request, Kind.PROCESS, self.batches, 1))
            stay.append((self._following[kind] if runs else kind, request))
        for kind, request in filled:
            self._steps.append((request, Kind.PROCESS, self.batches, self._tokens[kind]))
            stay.append((self._following[kind], request))
        self.residents = sorted(pair for pair in stay if pair[0] < self._none)

    def schedule(self) -> Schedule:
        """All batches so far."""
        return from_steps(self._steps)
