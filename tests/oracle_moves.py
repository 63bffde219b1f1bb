"""What one request can do in one batch, for the exhaustive search of ``oracle.py``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from optsched.cost import CostModel
from optsched.instance import Instance
from optsched.schedule import Kind
from tests.oracle_bounds import AFTER, REQUESTS, Shares, alone_bound, shared_bounds

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


class Type:
    """Requests of the same (I, O, arrival), and the moves of one of them.

    ``states`` are the pairs (m, g) in which one can be, the last one meaning finished; ``index``
    is its inverse; ``members`` are the positions of the requests in the instance.
    """

    def __init__(
        self,
        prompt: int,
        output: int,
        arrival_s: float,
        members: Sequence[int],
        cost: CostModel,
        block: int,
        policies: frozenset[str],
    ) -> None:
        self.prompt, self.output, self.arrival_s = prompt, output, arrival_s
        self.final_tokens = prompt + output - 1
        self.members, self.cost, self.block, self.policies = members, cost, block, policies
        # s = I + g tokens are known, and the last of them has never been processed: m < s.
        self.states = [(m, g) for g in range(output) for m in range(prompt + g)]
        self.finished = len(self.states)
        self.states.append((0, output))
        self.index = {state: position for position, state in enumerate(self.states)}
        self.tables = [self._table(position) for position in range(len(self.states))]
        self.shared: FloatArray = np.zeros((0, len(self.states)))
        self.alone: FloatArray = np.zeros(len(self.states))
        self._ready: dict[int, tuple[FloatArray, FloatArray]] = {}

    def bound(self, shares: Shares) -> None:
        """Compute the lower bounds on what is left after each state."""
        self.shared = shared_bounds(self.tables, shares, self.cost)
        self.alone = alone_bound(self.tables, self.cost)

    def _table(self, position: int) -> FloatArray:
        """The moves of a state, one per column, see the rows in oracle_bounds."""
        m, g = self.states[position]
        pages = -(-m // self.block)
        moves = []
        if position == self.finished:
            return np.array([(0, 0, 0, 0, 0, 0.0, position)]).T
        if m == 0 or "no-hold" not in self.policies:
            moves.append((0, 0, 0, 0, pages, 0.0, position))
        if m > 0 and "no-evict" not in self.policies:
            moves.append((0, 0, 0, 0, 0, 0.0, self.index[0, g]))
        left = self.prompt + g - m
        for c in range(left if "no-chunk" in self.policies else 1, left + 1):
            cost = self.cost
            assert cost.p_mc is not None
            decode = c == 1 and left == 1 and m >= self.prompt
            if decode:
                step = cost.d_kv * m + cost.d_req
            else:
                step = cost.p_sq * c * c + cost.p_mc * m * c + cost.p_kv * m + cost.p_req
            if c < left:
                after = self.index[m + c, g]
            elif g + 1 < self.output:
                after = self.index[m + c, g + 1]
            else:
                after = self.finished
            held = -(-(m + c) // self.block)
            moves.append((c, 0 if decode else c, 1, int(decode), held, step, after))
        return np.array(moves, dtype=np.float64).T

    def moves(self, position: int) -> tuple[FloatArray, FloatArray]:
        """The moves of a state as columns: what is summed and what is maximised over a batch.

        After the rows of the table the first array has a row for each lower bound on what is left
        after the move. The rows of the second array are the arrival that the batch must wait for,
        the time that the request needs alone after it, and the earliest end of a request that has
        not started.
        """
        if position not in self._ready:
            table = self.tables[position]
            after = table[AFTER].astype(np.int64)
            alone = self.alone[after]
            arrival = np.where(table[REQUESTS] > 0, self.arrival_s, 0.0)
            # An unstarted request needs its time alone from its arrival on.
            late = np.where(after == self.index[0, 0], self.arrival_s + alone, 0.0)
            sums = np.vstack([table, self.shared[:, after]])
            self._ready[position] = sums, np.vstack([arrival, alone, late])
        return self._ready[position]

    def action(self, before: int, after: int) -> tuple[Kind | None, int]:
        """Kind and tokens of the move between two states, which name it; (None, 0) for none."""
        (m, g), (m_after, g_after) = self.states[before], self.states[after]
        if g_after > g:
            return Kind.PROCESS, self.prompt + g - m
        if m_after > m:
            return Kind.PROCESS, m_after - m
        return (Kind.EVICT, 0) if m_after < m else (None, 0)


def types_of(instance: Instance, policies: frozenset[str], prune: bool) -> list[Type]:
    """The requests of an instance, grouped; with lower bounds if ``prune``, else without any."""
    limits = instance.limits
    first_s = min(request.arrival_s for request in instance.requests)
    groups: dict[tuple[int, int, float], list[int]] = {}
    for k, request in enumerate(instance.requests):
        shape = (request.prompt_tokens, request.output_tokens, request.arrival_s - first_s)
        groups.setdefault(shape, []).append(k)
    types = [
        Type(*shape, members, instance.cost, limits.block_tokens, policies)
        for shape, members in groups.items()
    ]
    if prune:
        shares = Shares.of(instance)
        for kind in types:
            kind.bound(shares)
        # Shares and lines often coincide; keep one of each set of equal bounds.
        together = np.concatenate([kind.shared for kind in types], axis=1)
        _, different = np.unique(together, axis=0, return_index=True)
        for kind in types:
            kind.shared = kind.shared[different]
    return types
