"""The hindsight problem solved: a search through the rounds under the Lagrangian's potentials.

A node is what waits and what runs after a round. Two things bound every schedule that goes through
it: its cost so far, with what runs until its end, and what its state is worth in the Lagrangian;
and the latencies if all that waits starts at once. Only nodes that could still be better than the
best known schedule are kept. Of two nodes of a round with the same requests waiting, one is dropped
if it costs no less and what runs in it holds no less KV in any later round: whatever follows it can
follow the other.

First only the most promising nodes of each round are kept, which finds good schedules, then more
and more; once none had to be left out the best schedule is optimal. Whatever goes through a node
that was left out costs no less than its bound, so a pass also bounds if it is not complete, and
the last one, which keeps what memory allows, ends in a bound and not in a lack of memory.

The loops are compiled (:mod:`optsched.bounds.hindsight_kernel`); prices are multiples of 2^-20, so
that all is decided in whole numbers of that unit.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from optsched.bounds.hindsight import HindsightBound
from optsched.bounds.hindsight_lagrangian import Lagrangian
from optsched.errors import UnsupportedError
from optsched.model.hindsight import Rounds
from optsched.model.hindsight_program import schedule_of_starts
from optsched.schedule import Schedule

if TYPE_CHECKING:
    from optsched.bounds.hindsight_kernel import Nodes, Problem

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

WIDTHS = (100, 3000, 30_000, 300_000, None)
MEMORY_BYTES = 2**30
MOST_REQUESTS = 62  # bits of a mask
_ROOM = 3  # nodes of a round before the superfluous are dropped, per node kept
_PROFILES = 20_000  # of nodes with the same requests waiting, against which others are compared
_NODES_PER_CALL = 10**6
_COMPARED_PER_CALL = 10_000
_LARGEST = 2.0**38  # rounds; stands for all larger numbers
_MARK_BITS = 56  # the sum over all requests fits in 62


@dataclass(frozen=True, kw_only=True, eq=False)
class Found:
    """What the search found.

    Parameters
    ----------
    total : int
        The least sum of latencies known, in rounds.
    schedule : Schedule or None
        One that has it; None if none is better than what was known before.
    bound : int
        No schedule has a smaller sum.
    nodes : int
        Nodes looked at.
    """

    total: int
    schedule: Schedule | None
    bound: int
    nodes: int

    @property
    def proven(self) -> bool:
        """Whether ``total`` is the least of all."""
        return self.bound >= self.total


def search(
    bound: HindsightBound,
    *,
    known: int,
    widths: tuple[int | None, ...] = WIDTHS,
    most_nodes: int | None = None,
    time_limit_s: float | None = None,
    memory_bytes: int = MEMORY_BYTES,
) -> Found:
    """Look for a schedule whose latencies sum to less than ``known`` rounds.

    Parameters
    ----------
    bound : HindsightBound
        With the prices that guide the search.
    known : int
        A sum that some schedule has, or one more than matters.
    widths : tuple of int or None
        Most nodes kept per round, one pass after the other; None for as many as memory allows.
    most_nodes : int, optional
        Nodes to look at, of all passes, before the search ends.
    memory_bytes : int
        For the nodes of two rounds; the widths are no larger than this allows.

    Raises
    ------
    UnsupportedError
        Tokens, prefill tokens or requests per batch are limited, beside KV, or there are more
        requests than bits in a mask.
    """
    begin = time.monotonic()
    passes = _Passes(bound, known, memory_bytes)

    def stop() -> bool:
        late = time_limit_s is not None and time.monotonic() - begin >= time_limit_s
        return late or (most_nodes is not None and passes.nodes >= most_nodes)

    reached = bound.total
    for width in widths:
        if reached >= passes.total or stop():
            break
        reached = max(reached, passes.run(width, stop))
    return Found(
        total=passes.total, schedule=passes.schedule(), bound=min(reached, passes.total),
        nodes=passes.nodes,
    )  # fmt: skip


class _Passes:
    """Passes through the rounds."""

    def __init__(self, bound: HindsightBound, known: int, memory_bytes: int) -> None:
        from optsched.bounds import hindsight_kernel

        self._kernel = hindsight_kernel
        self._rounds = bound.lagrangian.rounds
        _require_searchable(self._rounds)
        self._kinds = np.repeat(np.arange(len(self._rounds.types)), self._rounds.count)
        self._problem: Problem = problem_of(bound, self._kinds)
        requests, longest = self._problem.kv.shape
        self._best = np.array([known], dtype=np.int64)
        self._best_start = np.full(requests, -1, dtype=np.int64)
        # Two layers, and for one of them the order and what is sorted by.
        per_node = 2 * (4 * 8 + 4 * requests) + 4 * 8
        self._room = max(memory_bytes // per_node, 2 * _ROOM)
        self._profiles = np.empty((_PROFILES, longest), dtype=np.int64)
        self.nodes = 0

    @property
    def total(self) -> int:
        """The least sum of latencies known so far."""
        return int(self._best[0])

    def schedule(self) -> Schedule | None:
        """One that has it, if it is better than what was known."""
        if self._best_start[0] < 0:
            return None
        members = [list(kind.members) for kind in self._rounds.types]
        request = np.array([members[kind].pop() for kind in self._kinds])
        return schedule_of_starts(self._rounds.instance, request, self._best_start)

    def run(self, width: int | None, stop: Callable[[], bool]) -> int:
        """One pass; a lower bound on all schedules, 0 if it was stopped."""
        width = self._room // _ROOM if width is None else min(width, self._room // _ROOM)
        layer, out = self._layer(width), self._layer(width)
        requests = self._best_start.size
        layer.waiting[0], layer.start[0] = (1 << requests) - 1, -1
        layer.latency[0] = layer.priced[0] = layer.bound[0] = 0
        size = 1
        bounds: list[int] = []  # of nodes that were left out
        for r in itertools.count(1):
            at, count, kept = 0, 0, 0
            while at < size:
                at, count, made, fits = self._kernel.expand(
                    self._problem, r, layer, at, size, out, count, self._best, self._best_start,
                    _NODES_PER_CALL,
                )  # fmt: skip
                self.nodes += made
                if stop():
                    return 0
                if not fits and count > kept:
                    count = kept = self._reduce(out, count, width, r, bounds, stop)
                elif not fits:
                    # Too many of this node alone.
                    bounds.append(int(layer.bound[at]))
                    at += 1
            size = self._reduce(out, count, width, r, bounds, stop)
            layer, out = out, layer
            if stop():
                return 0
            if not size:
                break
        # All that costs less than the best goes through one of these.
        return min([self.total, *[-(-least >> self._kernel.UNIT_BITS) for least in bounds]])

    def _layer(self, width: int) -> Nodes:
        room, requests = _ROOM * width, self._best_start.size
        return self._kernel.Nodes(
            waiting=np.empty(room, np.int64), latency=np.empty(room, np.int64),
            priced=np.empty(room, np.int64), bound=np.empty(room, np.int64),
            start=np.empty((room, requests), np.int32),
        )  # fmt: skip

    def _reduce(
        self, nodes: Nodes, count: int, width: int, r: int, bounds: list[int],
        stop: Callable[[], bool],
    ) -> int:  # fmt: skip
        """Keep at most ``width`` undominated nodes, the first of ``nodes``, and return how many;
        the least bound of those left out is added to ``bounds``."""
        sums = np.empty(count, dtype=np.int64)
        self._kernel.hold_in_sum(self._problem, r, nodes, 0, sums)
        order = np.lexsort((sums, nodes.latency[:count], nodes.waiting[:count]))
        keep = np.zeros(count, dtype=np.bool_)
        size = 0
        for first in range(0, count, _COMPARED_PER_CALL):
            size = self._kernel.keep_undominated(
                self._problem, r, nodes, order, first, min(first + _COMPARED_PER_CALL, count),
                keep, size, self._profiles, self._best,
            )  # fmt: skip
            if stop():
                return 0
        kept = order[keep[order]]
        if kept.size > width:
            ranked = np.argpartition(nodes.bound[kept], width)
            bounds.append(int(nodes.bound[kept[ranked[width:]]].min()))
            kept = kept[np.sort(ranked[:width])]
        for column in nodes:
            column[: kept.size] = column[kept]
        return int(kept.size)


def _require_searchable(rounds: Rounds) -> None:
    limits, requests = rounds.instance.limits, len(rounds.instance)
    if requests > MOST_REQUESTS:
        raise UnsupportedError(
            f"{requests} requests are too many for the search in rounds, which has room for "
            f"{MOST_REQUESTS}"
        )
    fills = int(rounds.instance.prompt_tokens.sum())
    if fills > limits.fill_tokens or requests > (limits.batch_requests or requests):
        raise UnsupportedError("the search in rounds knows no limit but kv_tokens")


def problem_of(bound: HindsightBound, kinds: IntArray) -> Problem:
    """What the compiled loops read; ``kinds`` are the types of all requests, in order."""
    from optsched.bounds.hindsight_kernel import Problem

    lagrangian = bound.lagrangian
    rounds = lagrangian.rounds
    memory = bound.prices.memory[lagrangian.piece]
    charges = lagrangian.charges(memory)
    # What is left after the last priced round earns nothing, whatever it is.
    worth = lagrangian.sweep(bound.prices, charges, open_ended=True).after
    # What a request costs at least if it ends in this round or later.
    later = np.minimum.accumulate(charges[:, ::-1], axis=1)[:, ::-1]
    kv = np.zeros((kinds.size, int(rounds.output.max())), dtype=np.int64)
    for row, kind in zip(kv, kinds.tolist(), strict=True):
        row[: rounds.output[kind]] = rounds.kv_of(kind)
    mark, keys, slots = _state_table(lagrangian)
    return Problem(
        kv=kv, output=rounds.output[kinds], release=rounds.release[kinds],
        prompt=rounds.prompt[kinds], kind=kinds, tracked=lagrangian.tracked[kinds],
        price=_units(bound.prices.request)[kinds],
        beyond=_units(lagrangian.horizon + 1 - rounds.release)[kinds],
        charge=_units(charges)[kinds], later=_units(later)[kinds], memory=_units(memory),
        worth=_units(worth), mark=mark, keys=keys, slots=slots,
        capacity=int(rounds.instance.limits.kv_tokens), threshold=lagrangian.threshold,
    )  # fmt: skip


def _units(rounds: FloatArray | IntArray) -> IntArray:
    """Numbers of rounds in the kernel's unit, exactly unless they stand for infinity."""
    from optsched.bounds.hindsight_kernel import UNIT_BITS

    scaled = np.rint(np.clip(rounds, -_LARGEST, _LARGEST) * 2.0**UNIT_BITS)
    return np.asarray(scaled, dtype=np.int64)


def _state_table(lagrangian: Lagrangian) -> tuple[IntArray, IntArray, NDArray[np.int32]]:
    """Marks of sizes so that all states have different sums, and a table of these sums."""
    from optsched.bounds.hindsight_kernel import enter_states

    states = lagrangian.graph.states
    sizes = np.array([size for state in states for size in state], dtype=np.int64)
    owner = np.repeat(np.arange(len(states)), [len(state) for state in states])
    room = 1 << (2 * len(states)).bit_length()
    for seed in range(100):
        rng = np.random.default_rng(seed)
        mark = rng.integers(1, 2**_MARK_BITS, int(lagrangian.final.max()) + 1)
        entered = np.zeros(len(states), dtype=np.int64)
        np.add.at(entered, owner, mark[sizes])
        keys, slots = np.zeros(room, dtype=np.int64), np.full(room, -1, dtype=np.int32)
        if enter_states(keys, slots, entered):
            return mark, keys, slots
    raise AssertionError("a hundred random hash functions all had collisions")
