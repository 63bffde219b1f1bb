"""What one request can do in one batch, for the exhaustive search of ``oracle.py``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from optsched.cost import CostModel
from optsched.instance import Instance, Request
from optsched.schedule import Kind

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


class Type:
    """Requests that nothing tells apart, and the moves of one of them.

    ``states`` are the pairs (m, g) in which one can be, the last one meaning finished; ``index``
    is its inverse; ``begun`` tells in which ones it has its first token; ``members`` are the
    positions of the requests in the instance, ``request`` is one of them.
    """

    def __init__(
        self,
        request: Request,
        arrival_s: float,
        members: Sequence[int],
        cost: CostModel,
        block: int,
        policies: frozenset[str],
    ) -> None:
        self.request, self.arrival_s = request, arrival_s
        self.prompt, self.output = request.prompt_tokens, request.output_tokens
        self.final_tokens = self.prompt + self.output - 1
        self.members, self.cost, self.block, self.policies = members, cost, block, policies
        # s = I + g tokens are known, and the last of them has never been processed: m < s.
        self.states = [(m, g) for g in range(self.output) for m in range(self.prompt + g)]
        self.finished = len(self.states)
        self.states.append((0, self.output))
        self.index = {state: position for position, state in enumerate(self.states)}
        self.begun = np.array([g > 0 for _, g in self.states])
        self.done = np.arange(len(self.states)) == self.finished
        self.tables = [self._table(position) for position in range(len(self.states))]

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

    def action(self, before: int, after: int) -> tuple[Kind | None, int]:
        """Kind and tokens of the move between two states, which name it; (None, 0) for none."""
        (m, g), (m_after, g_after) = self.states[before], self.states[after]
        if g_after > g:
            return Kind.PROCESS, self.prompt + g - m
        if m_after > m:
            return Kind.PROCESS, m_after - m
        return (Kind.EVICT, 0) if m_after < m else (None, 0)


def types_of(
    instance: Instance, policies: frozenset[str], prune: bool, by_service: bool
) -> list[Type]:
    """The requests of an instance, grouped if ``prune``; by SLOs and weight too if asked for."""
    first_s = min(request.arrival_s for request in instance.requests)
    groups: dict[tuple[object, ...], list[int]] = {}
    for k, r in enumerate(instance.requests):
        shape: tuple[object, ...] = (r.prompt_tokens, r.output_tokens, r.arrival_s)
        if by_service:
            shape += (r.ttft_slo_s, r.tpot_slo_s, r.latency_slo_s, r.weight)
        groups.setdefault(shape if prune else (k,), []).append(k)
    return [
        Type(
            instance.requests[members[0]], instance.requests[members[0]].arrival_s - first_s,
            members, instance.cost, instance.limits.block_tokens, policies,
        )
        for members in groups.values()
    ]  # fmt: skip
