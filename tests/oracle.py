"""Exhaustive search for the best schedule of a tiny instance, with arithmetic of its own.

A state holds, for every request, m (tokens with KV on the GPU) and g (tokens generated). An arc is
one batch: every request idles (and so holds what it has), is evicted, or processes any c from 1 to
s - m tokens. Dijkstra's algorithm finds the earliest time at which every request is finished. The
earliest time at a state dominates later ones also with arrivals: a batch starts at the latest of
now and the arrivals of what it processes, which never decreases in now.

Only the coefficients and limits are read from the records; nothing of the checker, the simulator
or a formulation is used, so that the oracle can be held against all of them.

What makes it fast enough for hundreds of instances, none of which changes the optimum (``prune``
turns off 2 to 4; each proof stands where the rule is used):

1. The batches that leave a state are enumerated as arrays, one request after another.
2. Requests of the same (I, O, arrival) are interchangeable: states are kept sorted.
3. A* with lower bounds on the time that is left (:mod:`tests.oracle_bounds`).
4. A schedule found by diving bounds the search from above.

Calls and swapping are not covered, and the only objective is the makespan.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Sequence

import numpy as np

from optsched.errors import InfeasibleError, UnknownNameError, UnsupportedError
from optsched.instance import Instance
from optsched.schedule import Schedule, from_steps
from tests.oracle_bounds import AFTER, DECODES, PAGES, PREFILL, REQUESTS, STEP_TIME, TOKENS
from tests.oracle_moves import FloatArray, IntArray, types_of

POLICIES = frozenset({"no-evict", "no-chunk", "no-hybrid", "no-hold"})
DIVE_WEIGHTS = (1.0, 1.5, 3.0)
Children = tuple[IntArray, FloatArray, FloatArray]  # state keys, times, lower bounds on the end


def optimum(
    instance: Instance,
    policies: Sequence[str] = (),
    *,
    objective: str = "makespan",
    prune: bool = True,
    most_states: int = 2_000_000,
) -> tuple[float, Schedule]:
    """The least makespan of any schedule that the policies allow, and a schedule that has it.

    Parameters
    ----------
    instance : Instance
        At most some 4 requests; no calls. Host memory is ignored, as nothing is swapped.
    policies : sequence of str
        Any of ``no-evict``, ``no-chunk``, ``no-hybrid``, ``no-hold``.
    objective : str
        ``makespan``, the only one so far.
    prune : bool
        False: plain Dijkstra over the unsorted states, to hold the pruned search against.
    most_states : int
        Give up after this many expansions.

    Returns
    -------
    makespan_s : float
        Seconds from the earliest arrival to the end of the last batch.
    schedule : Schedule
        One that has this makespan.

    Raises
    ------
    InfeasibleError
        No schedule exists under these policies.
    UnknownNameError
        A policy that the search does not know.
    UnsupportedError
        Another objective, calls, or more states than ``most_states``.
    """
    for name in policies:
        if name not in POLICIES:
            raise UnknownNameError("policy of the oracle", name, POLICIES)
    if objective != "makespan":
        raise UnsupportedError(f"the oracle minimises makespan only, not {objective!r}")
    if any(request.calls for request in instance.requests):
        raise UnsupportedError(f"the oracle does not cover calls, which {instance.name!r} has")
    space = _Space(instance, frozenset(policies), prune)
    path, makespan_s = _search(space, most_states)
    return makespan_s, space.schedule(path)


class _Space:
    """The states of an instance as whole numbers, and the batches that leave each."""

    def __init__(self, instance: Instance, policies: frozenset[str], prune: bool) -> None:
        limits, self.cost = instance.limits, instance.cost
        self.name, self.prune = instance.name, prune
        self.hybrid = "no-hybrid" not in policies
        self.types = types_of(instance, policies, prune)
        self.bounds = len(self.types[0].shared)
        self.type_of = [kind for kind in self.types for _ in kind.members]
        self.members = [member for kind in self.types for member in kind.members]
        sizes = [len(kind.states) for kind in self.type_of]
        self.strides = [math.prod(sizes[:k]) for k in range(len(sizes))]
        if math.prod(sizes) >= 2**53:  # keys are summed as doubles
            raise UnsupportedError(f"{instance.name!r} has too many states for the oracle")
        groups, first = [], 0
        for kind in self.types:
            groups.append(slice(first, first + len(kind.members)))
            first += len(kind.members)
        self.groups = groups
        self.start = self.key([kind.index[0, 0] for kind in self.type_of])
        self.goal = self.key([kind.finished for kind in self.type_of])
        whole = sum(kind.final_tokens for kind in self.type_of)
        self.capacity = [
            (row, most)
            for row, most in (
                (TOKENS, limits.batch_tokens),
                (PREFILL, limits.prefill_tokens),
                (REQUESTS, limits.batch_requests),
                (PAGES, limits.kv_tokens // limits.block_tokens),
            )
            if most is not None and most < whole
        ]

    def key(self, columns: Sequence[int]) -> int:
        """The number of a state, given each request's position in its type's states."""
        return sum(stride * column for stride, column in zip(self.strides, columns, strict=True))

    def columns(self, keys: IntArray) -> IntArray:
        """The inverse of :meth:`key`, shape ``(requests, keys)``."""
        sizes = [len(kind.states) for kind in self.type_of]
        pairs = zip(self.strides, sizes, strict=True)
        return np.stack([keys // stride % size for stride, size in pairs])

    def sorted_keys(self, keys: IntArray) -> IntArray:
        """Each state with its interchangeable requests in order.

        Two requests of the same (I, O, arrival) can swap names throughout a schedule from any
        batch on if they are in each other's state there: no rule and no batch time tells them
        apart. So states that differ by such a swap have the same time left.
        """
        columns = self.columns(keys)
        for group in self.groups:
            columns[group] = np.sort(columns[group], axis=0)
        return np.asarray(np.array(self.strides) @ columns, dtype=np.int64)

    def batches(self, key: int, now: float) -> Children:
        """All batches that leave a state at a time, to states whose requests are not sorted.

        The third array is a lower bound on the end of any schedule that goes there.
        """
        state = self.columns(np.array([key]))[:, 0].tolist()
        sums, most = np.zeros((AFTER + 1 + self.bounds, 1)), np.zeros((3, 1))
        for kind, position, stride in zip(self.type_of, state, self.strides, strict=True):
            added, peak = kind.moves(position)
            keep = np.ones((sums.shape[1], added.shape[1]), dtype=bool)
            for row, limit in self.capacity:
                keep &= sums[row][:, None] + added[row] <= limit
            old, new = np.nonzero(keep)
            joined = sums[:, old] + added[:, new]
            joined[AFTER] = sums[AFTER, old] + stride * added[AFTER, new]
            sums, most = joined, np.maximum(most[:, old], peak[:, new])
        keep = sums[TOKENS] >= 1
        if not self.hybrid:
            keep &= (sums[DECODES] == 0) | (sums[DECODES] == sums[REQUESTS])
        sums, (arrival, alone, late) = sums[:, keep], most[:, keep]
        tokens = sums[TOKENS]
        length = np.max([alpha + beta * tokens for alpha, beta in self.cost.pieces], axis=0)
        length = length + self.cost.d0 * (sums[DECODES] > 0) + sums[STEP_TIME]
        length = length + self.cost.p0 * (sums[REQUESTS] > sums[DECODES])
        end = np.maximum(now, arrival) + length
        left = np.maximum(alone, sums[AFTER + 1 :].max(axis=0, initial=0.0))
        return sums[AFTER].astype(np.int64), end, np.maximum(end + left, late)

    def children(self, key: int, now: float, below: float) -> Children:
        """The successors of a state whose lower bound is under ``below``, best first, each once."""
        keys, times, floors = self.batches(key, now)
        keep = floors < below
        keys, times, floors = keys[keep], times[keep], floors[keep]
        if self.prune:
            keys = self.sorted_keys(keys)
        order = np.lexsort((times, keys))  # of several batches to one state, the earliest
        keys, times, floors = keys[order], times[order], floors[order]
        first = np.concatenate(([True], keys[1:] != keys[:-1]))[: keys.size]
        keys, times, floors = keys[first], times[first], floors[first]
        order = np.lexsort((-times, floors))
        return keys[order], times[order], floors[order]

    def schedule(self, path: Sequence[int]) -> Schedule:
        """The schedule that passes through these states; ``path`` begins with the start."""
        steps = []
        actual = self.columns(np.array([self.start]))[:, 0]
        for batch, (key, child) in enumerate(itertools.pairwise(path), start=1):
            # The requests in the order in which their states stand in the path's state.
            places = np.arange(actual.size)
            if self.prune:
                for group in self.groups:
                    places[group] = group.start + np.argsort(actual[group], kind="stable")
            keys, times, _ = self.batches(key, 0.0)
            same = np.flatnonzero((self.sorted_keys(keys) if self.prune else keys) == child)
            best = same[np.argmin(times[same])]
            after = self.columns(keys[best : best + 1])[:, 0]
            for place, position in zip(places.tolist(), after.tolist(), strict=True):
                kind, tokens = self.type_of[place].action(int(actual[place]), position)
                if kind is not None:
                    steps.append((self.members[place], int(kind), batch, tokens))
                actual[place] = position
        return from_steps(steps)


def _search(space: _Space, most_states: int) -> tuple[list[int], float]:
    """States from the start to the goal along a schedule of least makespan, and the makespan."""
    best, below = _dive(space) if space.prune else ([], math.inf)
    reached: dict[int, float] = {}
    parent: dict[int, int] = {}
    families = itertools.count()
    pending: dict[int, tuple[int, IntArray, FloatArray, FloatArray]] = {}
    heap: list[tuple[float, float, int, int]] = []  # lower bound, -time, family, child

    def push(family: int, child: int) -> None:
        """Queue the next child of a family that is not reached earlier another way."""
        _, keys, times, floors = pending[family]
        while child < keys.size and reached.get(int(keys[child]), math.inf) <= times[child]:
            child += 1
        if child < keys.size:
            heapq.heappush(heap, (float(floors[child]), -float(times[child]), family, child))
        else:
            del pending[family]

    def expand(key: int, now: float) -> None:
        nonlocal below
        keys, times, floors = space.children(key, now, below)
        ends = np.flatnonzero(keys == space.goal)
        if ends.size:
            below = min(below, float(times[ends[0]]))
        family = next(families)
        pending[family] = key, keys, times, floors
        push(family, 0)

    reached[space.start] = 0.0
    expand(space.start, 0.0)
    while heap:
        _, negative, family, child = heapq.heappop(heap)
        source, keys, *_ = pending[family]
        key, now = int(keys[child]), -negative
        push(family, child + 1)
        if reached.get(key, math.inf) <= now:
            continue
        reached[key], parent[key] = now, source
        if key == space.goal:
            return _trail(parent, space.start, key), now
        if len(reached) > most_states:
            raise UnsupportedError(
                f"{space.name!r}: no optimum after {most_states} states",
                hint="the oracle is for about 4 short requests",
            )
        expand(key, now)
    if not best:
        raise InfeasibleError(f"{space.name!r} has no schedule under these policies")
    return best, below  # nothing ends before the schedule that diving found


def _trail(parent: dict[int, int], start: int, key: int) -> list[int]:
    trail = [key]
    while key != start:
        key = parent[key]
        trail.append(key)
    return trail[::-1]


def _dive(space: _Space) -> tuple[list[int], float]:
    """A schedule by always taking the batch that looks best; ([], inf) if all attempts get stuck.

    It only bounds the search: a state whose lower bound is no less than the makespan of a known
    schedule cannot lead to a better one.
    """
    best: tuple[list[int], float] = ([], math.inf)
    for weight in DIVE_WEIGHTS:
        path, now, seen = [space.start], 0.0, {space.start}
        while path[-1] != space.goal:
            keys, times, floors = space.children(path[-1], now, best[1])
            looks = times + weight * (floors - times)
            fresh = [k for k in np.argsort(looks, kind="stable") if int(keys[k]) not in seen]
            if not fresh:
                break
            path.append(int(keys[fresh[0]]))
            now = float(times[fresh[0]])
            seen.add(path[-1])
        if path[-1] == space.goal and now < best[1]:
            best = (path, now)
    return best
