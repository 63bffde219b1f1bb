"""Evictions without haste: who is filled can run on for a while, and who makes room is advanced.

Where memory holds few large requests, one more of them fits only for some batches at a time: until
the others, which grow by a token per batch, need its place. A refill then costs about a batch, so
it pays only if it runs for several; and to evict an advanced request makes room for longer than to
evict a young one. Residents always decode; if they do not all fit, the one of a given rank by size
is evicted; a waiting request, the largest first, is filled iff all can then decode for a given
number of batches, or until one ends that is filled now.
"""

from __future__ import annotations

from dataclasses import dataclass

from optsched.instance import Instance
from optsched.schedule import Schedule
from optsched.warmstart.beam_kinds import Kinds, kinds_of
from optsched.warmstart.replay import Replay


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How to decide.

    Parameters
    ----------
    batches : int
        For how many batches, the one of the fill included, all must fit.
    rank : int
        Who is evicted: 0 the largest, 1 the next, .. ; the smallest if there are no more.
    """

    batches: int
    rank: int


def patient(instance: Instance, patience: Patience) -> Schedule:
    """The schedule for an instance that is :func:`beam.searchable`.

    Limits on requests per batch are left out of account.
    """
    return _Patient(kinds_of(instance, 1.0), patience).schedule()


class _Patient:
    """A schedule in the making."""

    def __init__(self, kinds: Kinds, patience: Patience) -> None:
        self._patience, self._none = patience, kinds.none
        self._capacity = kinds.capacity
        self._after: list[int] = kinds.after.tolist()
        self._next: list[int] = kinds.next.tolist()
        self._so_far = Replay(kinds)

    def schedule(self) -> Schedule:
        """All batches."""
        waiting = self._so_far.waiting
        while self._so_far.residents or any(waiting):
            held = [kind for kind, _ in self._so_far.residents]
            stay = self._staying(held)
            fills = self._fills([kind for kind, keeps in zip(held, stay, strict=True) if keeps])
            self._so_far.batch([not keeps for keeps in stay], stay, fills)
        return self._so_far.schedule()

    def _staying(self, held: list[int]) -> list[bool]:
        """Whether each resident stays, of those given ascending."""
        places = list(range(len(held)))
        while sum(self._after[held[k]] for k in places) > self._capacity:
            places.pop(max(0, len(places) - 1 - self._patience.rank))
        return [k in places for k in range(len(held))]

    def _fills(self, running: list[int]) -> list[int]:
        fills: list[int] = []
        candidates = [kind for kind, own in enumerate(self._so_far.waiting) if own]
        for kind in reversed(candidates):
            for _ in self._so_far.waiting[kind]:
                alone = not running and not fills
                if not alone and not self._runs_on([*running, *fills], kind):
                    break
                fills.append(kind)
        return fills

    def _runs_on(self, others: list[int], kind: int) -> bool:
        """Whether all can decode for long enough."""
        for _ in range(self._patience.batches):
            if kind == self._none:
                return True
            used = self._after[kind] + sum(self._after[other] for other in others)
            if used > self._capacity:
                return False
            kind = self._next[kind]
            others = [self._next[other] for other in others]
        return True
