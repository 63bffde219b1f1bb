"""Schedules that follow the flow of the optimal closed walks, for few requests in memory.

In every content the next unit move is the one that is furthest behind its share of the flow among
those that are possible; off the flow it is the one with the least reduced cost. The last requests
are left to a beam search, for which no steady state matters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from itertools import count

from optsched.instance import Instance
from optsched.schedule import Schedule
from optsched.warmstart.beam import BeamOptions, beam
from optsched.warmstart.beam_kinds import Kinds
from optsched.warmstart.replay import Replay
from optsched.warmstart.walk_flow import EVICT, FILL, Move, Moves, Node


def follow_walks(
    instance: Instance, kinds: Kinds, moves: Moves, last: int, options: Callable[[int], BeamOptions]
) -> Schedule:
    """The schedule that follows ``moves`` until ``last`` requests are unfinished.

    Parameters
    ----------
    instance : Instance
    kinds : Kinds
    moves : dict of list of Move
        From :func:`walk_flow.optimal_moves`.
    last : int
        Requests that are left to the beam search, or more if the walk does not lead on.
    options : callable
        Number of unfinished requests -> options of the beam search.
    """
    walk = _Walk(kinds, moves)
    while walk.unfinished > last and walk.batch():
        pass
    return beam(instance, options(walk.unfinished), walk.so_far)


Path = list[tuple[Node, int]]  # nodes, and the number of the move taken from there
_OFF_FLOW_S = 1e-9  # between moves of reduced cost 0 those with flow left come first


class _Walk:
    """A walk in progress."""

    def __init__(self, kinds: Kinds, moves: Moves) -> None:
        self.so_far = Replay(kinds)
        self.unfinished = sum(len(own) for own in kinds.members)
        self._moves = moves
        self._following: list[int] = kinds.next.tolist()
        self._none = kinds.none
        self._at: Node = (EVICT, ())
        self._taken: dict[Node, list[int]] = {}

    def batch(self) -> bool:
        """One batch; False, and nothing done, if none processes a token."""
        path = self._on_flow() or self._cheapest()
        if path is None:
            return False
        evicted: Counter[int] = Counter()  # by resident kind
        decoded: Counter[int] = Counter()
        fills: Counter[int] = Counter()
        for node, k in path:
            self._taken_from(node)[k] += 1
            move = self._moves[node][k]
            if node[0] == EVICT and move.kind >= 0:
                evicted[self._following[move.kind]] += 1
            elif move.event >= 0:
                (fills if node[0] == FILL else decoded)[move.event] += 1
            self._at = move.head
        made = (*decoded.elements(), *fills.elements())
        self.unfinished -= sum(self._following[kind] == self._none for kind in made)
        held = [kind for kind, _ in self.so_far.residents]
        leaves = [_take(evicted, kind) for kind in held]
        runs = [not gone and _take(decoded, kind) for kind, gone in zip(held, leaves, strict=True)]
        self.so_far.batch(leaves, runs, fills.elements())
        return True

    def _on_flow(self) -> Path | None:
        """Moves that are behind their share of the flow, furthest behind first; None if at some
        point none is possible."""
        path: Path = []
        node, processed = self._at, False
        fills: tuple[int, ...] = ()
        while True:
            taken = self._taken_from(node)
            best, best_key = -1, 0.0
            for k, move in self._possible(node, fills, processed):
                key = (taken[k] + 0.5) / move.flow if taken[k] < move.flow else 0.0
                if key and (best < 0 or key < best_key):
                    best, best_key = k, key
            if best < 0:
                return None
            path.append((node, best))
            move = self._moves[node][best]
            if node[0] == FILL and move.event < 0:
                return path
            processed = processed or move.event >= 0
            if node[0] == FILL:
                fills = (*fills, move.event)
            node = move.head

    def _cheapest(self) -> Path | None:
        """The moves of the batch with the least sum of reduced costs; None if none is possible."""
        order = count()
        pending: list[tuple[float, int, Node, tuple[int, ...], bool, Path]] = [
            (0.0, next(order), self._at, (), False, [])
        ]
        seen = set()
        while pending:
            cost_s, _, node, fills, processed, path = heappop(pending)
            if path and path[-1][0][0] == FILL and node[0] == EVICT:
                return path
            if (node, fills, processed) in seen:
                continue
            seen.add((node, fills, processed))
            taken = self._taken_from(node)
            for k, move in self._possible(node, fills, processed):
                more = 0.0 if taken[k] < move.flow else max(move.cost_s, _OFF_FLOW_S)
                filled = (*fills, move.event) if node[0] == FILL and move.event >= 0 else fills
                heappush(pending, (
                    cost_s + more, next(order), move.head, filled, processed or move.event >= 0,
                    [*path, (node, k)],
                ))  # fmt: skip
        return None

    def _possible(
        self, node: Node, fills: tuple[int, ...], processed: bool
    ) -> Iterator[tuple[int, Move]]:
        """Moves from ``node`` for which somebody waits; a batch that processes nothing ends not."""
        for k, move in enumerate(self._moves[node]):
            if node[0] == FILL:
                if move.event < 0 and not processed:
                    continue
                waiting = self.so_far.waiting[move.event] if move.event >= 0 else ()
                if move.event >= 0 and len(waiting) <= fills.count(move.event):
                    continue
            yield k, move

    def _taken_from(self, node: Node) -> list[int]:
        """How often each move from ``node`` has been taken."""
        return self._taken.setdefault(node, [0] * len(self._moves[node]))


def _take(left: Counter[int], kind: int) -> bool:
    """Whether one of ``kind`` is left, and take it."""
    if not left[kind]:
        return False
    left[kind] -= 1
    return True
