"""What one request can do in one batch, for the exhaustive search of ``oracle.py``."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from optsched.handling import required_handling
from optsched.instance import Instance, Request
from optsched.schedule import Kind

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# What has happened to a request since it made a call, while it has not been processed: NONE if
# there is no such call or its handling is free, CALLED right after the batch that made it.
NONE, CALLED, PRESERVED, DISCARDED, SWAPPED = range(5)
_HANDLED = {"preserve": PRESERVED, "discard": DISCARDED, "swap": SWAPPED}


class State(NamedTuple):
    """Of one request: tokens cached and swapped, output tokens made, and what its call has met."""

    cached: int
    swapped: int
    made: int
    since: int


class Move(NamedTuple):
    """What one action of a request does to it and to its batch; ``paused``: only while it waits
    for a call."""

    after: State
    held: int
    tokens: int = 0
    decode: bool = False
    step_s: float = 0.0
    paused: bool = False


class Type:
    """Requests that nothing tells apart, and the moves of one of them.

    ``states`` are those in which one can be, the last one meaning finished; ``index`` is its
    inverse; ``made`` counts the output tokens of each, ``call_s`` is the duration of the call
    that is made with the last of them (-inf if none is); ``members`` are the positions of the
    requests in the instance, ``request`` is one of them.
    """

    def __init__(
        self,
        instance: Instance,
        members: Sequence[int],
        handling: str | None,
        policies: frozenset[str],
    ) -> None:
        self.request = request = instance.requests[members[0]]
        self.members, self.policies = members, policies
        self.arrival_s = request.arrival_s - min(r.arrival_s for r in instance.requests)
        self.output, self.final_tokens = request.output_tokens, request.final_tokens
        self.limits, self.cost = instance.limits, instance.cost
        self.handling = NONE if handling is None else _HANDLED[handling]
        self.calls = {call.after_tokens: call for call in request.calls}
        moves = self._reachable()
        self.states = sorted(moves, key=lambda state: (state.made, *state))
        self.finished = len(self.states) - 1
        self.index = {state: position for position, state in enumerate(self.states)}
        self.made = np.array([state.made for state in self.states])
        self.call_s = np.array(
            [self.calls[g].duration_s if g in self.calls else -math.inf for g in self.made.tolist()]
        )
        self.begun = self.made > 0
        self.done = self.made == self.output
        self.tables = [
            np.array([self._column(s, move) for move in moves[s]], dtype=np.float64).T
            for s in self.states
        ]

    def known(self, made: int) -> int:
        """s: prompt, generated tokens and the responses of calls that were made."""
        answered = sum(c.response_tokens for k, c in self.calls.items() if k <= made)
        return self.request.prompt_tokens + made + answered

    def _reachable(self) -> dict[State, list[Move]]:
        """The states that can be reached, and their moves."""
        moves: dict[State, list[Move]] = {}
        todo = [State(0, 0, 0, NONE), State(0, 0, self.output, NONE)]
        while todo:
            state = todo.pop()
            if state not in moves:
                moves[state] = list(self._moves(state))
                todo += [move.after for move in moves[state]]
        return moves

    def _moves(self, state: State) -> Iterator[Move]:
        m, g, since = state.cached, state.made, state.since
        if g == self.output:
            yield Move(state, 0)
            return
        # Only a request with calls ever waits for one.
        must = "nonpreemptive" in self.policies and g > 0
        held_up = must or ("no-hold" in self.policies and m > 0)
        if self.calls or not held_up:
            idle = state._replace(since=PRESERVED if since == CALLED else since)
            yield Move(idle, m, paused=held_up)
        if self.calls or not must:
            yield from self._other_moves(state, must)
        if since in (NONE, CALLED, self.handling):
            yield from self._steps(state)

    def _other_moves(self, state: State, paused: bool) -> Iterator[Move]:
        """Evictions and swaps without processing."""
        m, w, g, since = state
        copy_s = self.cost.swap_tok
        if m + w > 0 and "no-evict" not in self.policies:
            yield Move(State(0, 0, g, since and DISCARDED), 0, paused=paused)
        if 0 < m <= self.limits.host_kv_tokens and "no-swap" not in self.policies:
            yield Move(State(0, m, g, since and SWAPPED), 0, step_s=copy_s * m, paused=paused)
        if w > 0:
            yield Move(State(w, 0, g, since), w, step_s=copy_s * w, paused=paused)

    def _steps(self, state: State) -> Iterator[Move]:
        """Processing, after what is on the host has been swapped in."""
        cost, g = self.cost, state.made
        assert cost.p_mc is not None
        m, copy_s = state.cached + state.swapped, cost.swap_tok * state.swapped
        left = self.known(g) - m
        for c in range(left if self.policies & {"no-chunk", "nonpreemptive"} else 1, left + 1):
            decode = c == left == 1 and m >= self.request.prompt_tokens
            if decode:
                step = cost.d_kv * m + cost.d_req
            else:
                step = cost.p_sq * c * c + cost.p_mc * m * c + cost.p_kv * m + cost.p_req
            if c < left:
                after = State(m + c, 0, g, NONE)
            elif g + 1 < self.output:
                called = g + 1 in self.calls and self.handling != NONE
                after = State(m + c, 0, g + 1, CALLED if called else NONE)
            else:
                after = State(0, 0, self.output, NONE)
            yield Move(after, m + c, c, decode, step + copy_s)

    def _column(self, before: State, move: Move) -> tuple[float, ...]:
        """A move as a column, see the rows in oracle_bounds."""
        after, held, tokens, decode, step_s, paused = move
        prefill, processed = (0 if decode else tokens), int(tokens > 0)
        pages = -(-held // self.limits.block_tokens)
        call = self.calls.get(after.made) if after.made > before.made else None
        return (
            tokens, prefill, processed, int(decode), pages, after.swapped, int(paused), step_s,
            call.duration_s if call else 0.0, self.index[after],
        )  # fmt: skip

    def actions(self, before: int, after: int) -> list[tuple[Kind, int]]:
        """Kinds and tokens of the move between two states, which name it."""
        m, w, g, _ = self.states[before]
        m_after, w_after, g_after, _ = self.states[after]
        reached = self.known(g) if g_after > g else m_after
        if reached > m:
            swap_in, c = [(Kind.SWAP_IN, 0)] if w else [], reached - m - w
            return swap_in + ([(Kind.PROCESS, c)] if c else [])
        if w_after > w:
            return [(Kind.SWAP_OUT, 0)]
        return [(Kind.EVICT, 0)] if m_after + w_after < m + w else []


def types_of(
    instance: Instance, policies: frozenset[str], prune: bool, by_service: bool
) -> list[Type]:
    """The requests of an instance, grouped if ``prune``; by SLOs and weight too if asked for."""
    handling = required_handling(instance, policies)
    groups: dict[tuple[object, ...], list[int]] = {}
    for k, r in enumerate(instance.requests):
        groups.setdefault((*_shape(r, by_service), handling[k]) if prune else (k,), []).append(k)
    return [Type(instance, members, handling[members[0]], policies) for members in groups.values()]


def _shape(r: Request, by_service: bool) -> tuple[object, ...]:
    shape = (r.prompt_tokens, r.output_tokens, r.arrival_s, r.calls)
    return (*shape, r.ttft_slo_s, r.tpot_slo_s, r.latency_slo_s, r.weight) if by_service else shape
