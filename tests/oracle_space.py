"""States and batches of a tiny instance, for the exhaustive search of ``oracle.py``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optsched.errors import UnsupportedError
from optsched.instance import Instance
from tests.oracle_bounds import (
    AFTER,
    DECODES,
    HOST,
    PAGES,
    PAUSED,
    PREFILL,
    REQUESTS,
    STEP_TIME,
    TOKENS,
    BoolArray,
)  # fmt: skip
from tests.oracle_moves import FloatArray, IntArray, State, types_of


@dataclass(frozen=True)
class Batches:
    """All batches that leave a state.

    ``columns``, shape ``(requests, batches)``: the positions of the requests after each, in the
    order in which they stand in the state before; ``processed`` and ``paused``, of the same shape:
    whether the request is processed, and whether it does what it may only do while it waits for a
    call; ``length_s``, ``(batches,)``: the time that the batch takes.
    """

    columns: IntArray
    processed: BoolArray
    paused: BoolArray
    length_s: FloatArray


class Space:
    """The states of an instance as whole numbers, and the batches that leave each.

    ``by_service`` tells requests apart by their SLOs and weights too.
    """

    def __init__(
        self, instance: Instance, policies: frozenset[str], prune: bool, *, by_service: bool
    ) -> None:
        limits, self.cost = instance.limits, instance.cost
        self.instance, self.name, self.prune = instance, instance.name, prune
        self.hybrid = "no-hybrid" not in policies
        self.types = types_of(instance, policies, prune, by_service)
        self.type_of = [kind for kind in self.types for _ in kind.members]
        self.members = [member for kind in self.types for member in kind.members]
        self.arrival_s = np.array([kind.arrival_s for kind in self.type_of])
        self.sizes = [len(kind.states) for kind in self.type_of]
        self.strides = [math.prod(self.sizes[:k]) for k in range(len(self.sizes))]
        if math.prod(self.sizes) >= 2**53:  # keys are summed as doubles
            raise UnsupportedError(f"{instance.name!r} has too many states for the oracle")
        groups, first = [], 0
        for kind in self.types:
            groups.append(slice(first, first + len(kind.members)))
            first += len(kind.members)
        self.groups = groups if prune else []
        self.start = np.array([kind.index[State(0, 0, 0, 0)] for kind in self.type_of])
        self.goal = self.key([kind.finished for kind in self.type_of])
        whole = sum(kind.final_tokens for kind in self.type_of)
        self.capacity = [
            (row, most)
            for row, most in (
                (TOKENS, limits.batch_tokens),
                (PREFILL, limits.prefill_tokens),
                (REQUESTS, limits.batch_requests),
                (PAGES, limits.kv_tokens // limits.block_tokens),
                (HOST, limits.host_kv_tokens),
            )
            if most is not None and most < whole
        ]
        # By place and state: output tokens made, and how long the call made with the last takes.
        self.made = self._padded([kind.made for kind in self.type_of])
        self.call_s = self._padded([kind.call_s for kind in self.type_of])
        self.clocked = any((table[PAUSED] > 0).any() for k in self.types for table in k.tables)
        # Places (earlier, later) of requests whose first tokens must come in this order.
        self.in_order = [
            (i, k)
            for i, k in np.ndindex(len(self.members), len(self.members))
            if "fcfs" in policies and self.arrival_s[i] < self.arrival_s[k]
        ]
        self._known: dict[int, Batches] = {}

    def _padded(self, rows: Sequence[NDArray[np.generic]]) -> FloatArray:
        """Values of the states of each type, ``(requests, states)``."""
        return np.array([np.pad(row, (0, max(self.sizes) - row.size)) for row in rows])

    def key(self, columns: Sequence[int]) -> int:
        """The number of a state, given each request's position in its type's states."""
        return sum(stride * int(at) for stride, at in zip(self.strides, columns, strict=True))

    def keys(self, columns: IntArray) -> IntArray:
        """The numbers of states, given as ``(requests, states)``."""
        return np.asarray(np.array(self.strides) @ columns, dtype=np.int64)

    def order(self, columns: IntArray, times: Sequence[FloatArray]) -> IntArray:
        """Which request of each state stands at each place, ``(requests, states)``.

        Two requests of the same type can swap names throughout a schedule from any batch on if
        they are in each other's state there (and released, and due, at each other's ``times``): no
        rule, no batch time and no objective tells them apart. So labels that differ by such a swap
        have the same future, and each is kept with its interchangeable requests in order.
        """
        order = np.broadcast_to(np.arange(columns.shape[0])[:, None], columns.shape).copy()
        for group in self.groups:
            if group.stop - group.start > 1:
                keys = tuple(each[group] for each in (*times, columns))
                order[group] = group.start + np.lexsort(keys, axis=0)
        return order

    def batches(self, columns: IntArray) -> Batches:
        """All batches that leave a state, to states whose requests are not sorted."""
        key = self.key(columns.tolist())
        if key not in self._known:
            self._known[key] = self._batches(columns.tolist())
        return self._known[key]

    def _batches(self, state: Sequence[int]) -> Batches:
        sums = np.zeros((AFTER + 1, 1))
        processed = paused = np.zeros((len(state), 1), dtype=bool)
        for place, (kind, position, stride) in enumerate(
            zip(self.type_of, state, self.strides, strict=True)
        ):
            added = kind.tables[position]
            keep = np.ones((sums.shape[1], added.shape[1]), dtype=bool)
            for row, limit in self.capacity:
                keep &= sums[row][:, None] + added[row] <= limit
            old, new = np.nonzero(keep)
            joined = sums[:, old] + added[:, new]
            joined[AFTER] = sums[AFTER, old] + stride * added[AFTER, new]
            processed, paused = processed[:, old], paused[:, old]
            processed[place], paused[place] = added[REQUESTS, new] > 0, added[PAUSED, new] > 0
            sums = joined
        keep = sums[TOKENS] >= 1
        if not self.hybrid:
            keep &= (sums[DECODES] == 0) | (sums[DECODES] == sums[REQUESTS])
        keys = sums[AFTER].astype(np.int64)
        columns = np.stack([keys // d % n for d, n in zip(self.strides, self.sizes, strict=True)])
        for earlier, later in self.in_order:
            has, other = self.type_of[earlier].begun, self.type_of[later].begun
            keep &= has[columns[earlier]] | ~other[columns[later]]
        sums, columns = sums[:, keep], columns[:, keep]
        tokens = sums[TOKENS]
        length = np.max([alpha + beta * tokens for alpha, beta in self.cost.pieces], axis=0)
        length = length + self.cost.d0 * (sums[DECODES] > 0) + sums[STEP_TIME]
        length = length + self.cost.p0 * (sums[REQUESTS] > sums[DECODES])
        return Batches(columns, processed[:, keep], paused[:, keep], length)
