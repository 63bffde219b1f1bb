"""The hindsight problem solved: a search through the rounds under the Lagrangian's potentials.

A node is what waits and what runs after a round. Its cost so far, with what runs until its end, and
what its state is worth in the Lagrangian bound every schedule that goes through it; only nodes that
could still be better than the best known schedule are kept. Of two nodes of a round with the same
requests waiting, one is dropped if it costs no less and what runs in it holds no less KV in any
later round: whatever follows it can follow the other.

First only the most promising nodes of each round are kept, which finds good schedules, then more
and more; once none had to be left out the best schedule is optimal.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from optsched.bounds.hindsight import HindsightBound
from optsched.bounds.hindsight_lagrangian import Lagrangian
from optsched.errors import UnsupportedError
from optsched.model.hindsight import Rounds
from optsched.model.hindsight_program import schedule_of_starts
from optsched.schedule import Schedule

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

WIDTHS = (30, 300, 3000, None)
MOST_NODES = 2_000_000


@dataclass(frozen=True, kw_only=True, eq=False)
class Found:
    """What the search found.

    Parameters
    ----------
    total : int
        The least sum of latencies known, in rounds.
    schedule : Schedule or None
        One that has it; None if none is better than what was known before.
    proven : bool
        Whether ``total`` is the least of all.
    nodes : int
        Nodes looked at.
    """

    total: int
    schedule: Schedule | None
    proven: bool
    nodes: int


class _Trail(NamedTuple):
    """Starts (type, round) of a node, linked to those before."""

    before: _Trail | None
    starts: tuple[tuple[int, int], ...]


_Running = tuple[tuple[int, int], ...]  # (round of the end, type), sorted
_Key = tuple[tuple[int, ...], _Running]


class _Node(NamedTuple):
    """Latencies of all that ended or runs; the Lagrangian's terms of the rounds before; a lower
    bound on what goes through the node."""

    latency: int
    priced: float
    bound: float
    trail: _Trail | None


def search(
    bound: HindsightBound,
    *,
    known: int,
    widths: tuple[int | None, ...] = WIDTHS,
    most_nodes: int = MOST_NODES,
    time_limit_s: float | None = None,
) -> Found:
    """Look for a schedule whose latencies sum to less than ``known`` rounds.

    Parameters
    ----------
    bound : HindsightBound
        With the prices that guide the search.
    known : int
        A sum that some schedule has, or one more than matters.
    widths : tuple of int or None
        Most nodes kept per round, one pass after the other; None for all.
    most_nodes : int
        A pass that looks at more ends without proof.

    Raises
    ------
    UnsupportedError
        Tokens, prefill tokens or requests per batch are limited, beside KV.
    """
    begin = time.monotonic()

    def late() -> bool:
        return time_limit_s is not None and time.monotonic() - begin >= time_limit_s

    layers = _Layers(bound, known)
    schedule, proven, nodes = None, bound.total >= known, 0
    for width in widths:
        if proven or late():
            break
        layers.nodes = 0
        complete = layers.run(width, most_nodes, late)
        nodes += layers.nodes
        proven = complete or bound.total >= layers.best
        if layers.nodes > most_nodes:
            break
    if layers.best_starts is not None:
        schedule = _schedule(layers.rounds, layers.best_starts)
    return Found(total=layers.best, schedule=schedule, proven=proven, nodes=nodes)


class _Layers:
    """Passes through the rounds; ``best`` is the least sum of latencies known so far."""

    def __init__(self, bound: HindsightBound, known: int) -> None:
        lagrangian: Lagrangian = bound.lagrangian
        rounds = self.rounds = lagrangian.rounds
        limits = rounds.instance.limits
        if (
            int(rounds.instance.prompt_tokens.sum()) > limits.fill_tokens
            or len(rounds.instance) > (limits.batch_requests or len(rounds.instance))
        ):  # fmt: skip
            raise UnsupportedError("the search in rounds knows no limit but kv_tokens")
        self.best = known
        self.best_starts: list[tuple[int, int]] | None = None
        self.nodes = 0
        self._threshold, self._horizon = lagrangian.threshold, lagrangian.horizon
        self._capacity, self._number = limits.kv_tokens, lagrangian.graph.number
        memory = bound.prices.memory[lagrangian.piece]
        charges = lagrangian.charges(memory)
        # What is left after the last priced round earns nothing, whatever it is.
        self._after = lagrangian.sweep(bound.prices, charges, open_ended=True).after
        self._worth: list[float] = []  # of each state after the present round
        # Lists, because they are read one number at a time.
        self._memory: list[float] = memory.tolist()
        self._charge: list[list[float]] = charges.tolist()
        # What a request costs at least if it ends in this round or later.
        cheapest = np.minimum.accumulate(charges[:, ::-1], axis=1)[:, ::-1]
        self._later: list[list[float]] = cheapest.tolist()
        self._tracked: list[bool] = lagrangian.tracked.tolist()
        self._price: list[float] = bound.prices.request.tolist()
        self._kv: list[list[int]] = [rounds.kv_of(k).tolist() for k in range(len(rounds.types))]
        self._output: list[int] = rounds.output.tolist()
        self._release: list[int] = rounds.release.tolist()
        self._prompt: list[int] = rounds.prompt.tolist()
        self._longest = int(rounds.output.max())

    def run(self, width: int | None, most_nodes: int, late: Callable[[], bool]) -> bool:
        """One pass; whether it left out nothing that could be better than ``best``."""
        first: _Key = (tuple(self.rounds.count.tolist()), ())
        layer = {first: _Node(0, 0.0, 0.0, None)}
        complete = True
        for r in range(1, self._horizon + 1):
            self._worth = self._after[r].tolist()
            found: dict[_Key, _Node] = {}
            for key, node in layer.items():
                self._expand(key, node, r, found)
            if self.nodes > most_nodes or late():
                return False
            layer = self._undominated(found, r)
            if width is not None and len(layer) > width:
                complete = False
                ranked = sorted(layer.items(), key=lambda item: item[1].bound)
                layer = dict(ranked[:width])
            if not layer:
                return complete
        return False

    def _expand(self, key: _Key, node: _Node, r: int, found: dict[_Key, _Node]) -> None:
        """Add to ``found`` what a node can be after round r."""
        waiting, running = key
        free = [self._capacity] * self._longest
        for end, kind in running:
            for later, kv in enumerate(self._kv[kind][r - 1 - end :]):
                free[later] -= kv
        arrived = [k for k, n in enumerate(waiting) if n and self._release[k] < r]
        everyone = len(arrived) == sum(n > 0 for n in waiting)
        for starts in self._choices(arrived, waiting, free):
            if not starts and not running and everyone:
                continue  # all that follows could be a round earlier
            self._add(waiting, running, starts, node, r, found)

    def _choices(
        self, kinds: list[int], waiting: tuple[int, ...], free: list[int]
    ) -> Iterator[tuple[int, ...]]:
        """All multisets of types that fit beside what runs until they end."""
        if not kinds:
            yield ()
            return
        kind, rest = kinds[0], kinds[1:]
        kv = self._kv[kind]
        chosen: tuple[int, ...] = ()
        for _ in range(waiting[kind] + 1):
            for others in self._choices(rest, waiting, free):
                yield chosen + others
            left = [have - need for have, need in zip(free, kv, strict=False)]
            if min(left) < 0:
                return
            free = left + free[len(kv) :]
            chosen = (*chosen, kind)

    def _add(
        self, waiting: tuple[int, ...], running: _Running, starts: tuple[int, ...], node: _Node,
        r: int, found: dict[_Key, _Node],
    ) -> None:  # fmt: skip
        self.nodes += 1
        ends = [(r - 1 + self._output[kind], kind) for kind in starts]
        latency = node.latency + sum(end - self._release[kind] for end, kind in ends)
        if latency >= self.best:
            return
        left = list(waiting)
        for kind in starts:
            left[kind] -= 1
        trail = (
            _Trail(node.trail, tuple((kind, r - 1) for kind in starts)) if starts else node.trail
        )
        if not any(left):
            self.best, self.best_starts = latency, _starts(trail)
            return
        # Terms of the Lagrangian: memory in this round, ends and charges of what ended, and the
        # prices of all that did not, less what the state can earn.
        memory = self._memory[r]
        priced, prices, stay, sizes = node.priced - memory * self._capacity, 0.0, [], []
        for end, kind in (*running, *ends):
            size = self._prompt[kind] + r - 1 - end + self._output[kind]
            above = size > self._threshold
            if above:
                priced += memory * self._kv[kind][size - self._prompt[kind]]
            if end == r:
                priced += self._charge[kind][end]
                continue
            stay.append((end, kind))
            prices += self._price[kind] if self._tracked[kind] else self._cost(kind, end)
            if above:
                sizes.append(size)
        for kind, count in enumerate(left):
            if count and self._tracked[kind]:
                prices += count * self._price[kind]
            elif count:
                soonest = max(r, self._release[kind]) + self._output[kind]
                prices += count * self._cost(kind, soonest, or_later=True)
        sizes.sort(reverse=True)
        bound = priced + prices - self._worth[self._number[tuple(sizes)]]
        if bound > self.best - 1:
            return
        key = (tuple(left), tuple(sorted(stay)))
        if key not in found or latency < found[key].latency:
            found[key] = _Node(latency, priced, bound, trail)

    def _cost(self, kind: int, end: int, *, or_later: bool = False) -> float:
        """Least cost of an untracked request that ends in round ``end``, or possibly later."""
        beyond = self._horizon + 1.0 - self._release[kind]
        if end > self._horizon:
            return beyond
        return min(beyond, self._later[kind][end]) if or_later else self._charge[kind][end]

    def _undominated(self, layer: dict[_Key, _Node], r: int) -> dict[_Key, _Node]:
        """The nodes that no other with the same requests waiting makes superfluous."""
        groups: dict[tuple[int, ...], list[tuple[_Key, _Node]]] = {}
        for key, node in layer.items():
            groups.setdefault(key[0], []).append((key, node))
        kept: dict[_Key, _Node] = {}
        for group in groups.values():
            if len(group) == 1:
                kept[group[0][0]] = group[0][1]
                continue
            held = np.zeros((len(group), self._longest), dtype=np.int64)
            for row, ((_, running), _) in zip(held, group, strict=True):
                for end, kind in running:
                    row[: end - r] += self._kv[kind][r - end :]
            latency = np.array([node.latency for _, node in group])
            profiles = np.empty_like(held)
            size = 0
            for n in np.lexsort((held.sum(axis=1), latency)).tolist():
                if size and (profiles[:size] <= held[n]).all(axis=1).any():
                    continue
                profiles[size] = held[n]
                size += 1
                kept[group[n][0]] = group[n][1]
        return kept


def _starts(trail: _Trail | None) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    while trail is not None:
        found += trail.starts
        trail = trail.before
    return found


def _schedule(rounds: Rounds, starts: list[tuple[int, int]]) -> Schedule:
    members = [list(kind.members) for kind in rounds.types]
    request = np.array([members[kind].pop() for kind, _ in starts])
    return schedule_of_starts(rounds.instance, request, np.array([k for _, k in starts]))
