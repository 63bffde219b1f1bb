"""Who is active, who waits for a call, what is cached where (compiled where that pays)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from optsched.warmstart.calls_shape import FloatArray, IntArray, Room, Shape

ABSENT, ACTIVE, PAUSED, FINISHED = range(4)
PROCESS, EVICT, SWAP_OUT, SWAP_IN = range(4)  # as Kind
HELD, SWAPPED, ACTIVES, PAUSES, BATCH, STEPS, ARRIVED, EVENTS, LEFT = range(9)
COUNTS = 9  # of them
NOW, LAST, NEXT = range(3)
CLOCKS = 3
OVERDUE = 1e9  # added to the key of a request that cannot meet its objectives any more


class Rule(NamedTuple):
    """The order of requests and the settings, see :class:`~.calls_settings.Settings`.

    The least key is served first: ``base`` of the segment, plus ``per_token`` for each output
    token left in it and ``per_fill`` for each known token that is not cached, plus ``first``
    until the first token is there, plus much once ``latest_s`` has passed.

    Parameters
    ----------
    base, per_token, per_fill, latest_s : float arrays, shape ``(segments,)``
    first, first_latest_s : float arrays, shape ``(requests,)``
    run_steps, run_tokens : int arrays, shape ``(segments,)``
        Steps, and tokens of KV, to come after the segment in those that pauses of at most
        ``keep_s`` join to it.
    """

    base: FloatArray
    per_token: FloatArray
    per_fill: FloatArray
    latest_s: FloatArray
    first: FloatArray
    first_latest_s: FloatArray
    run_steps: IntArray
    run_tokens: IntArray
    chunk: float
    keep_s: float
    wait: float
    share: float
    swap_bias: float
    most: int
    most_share: float
    most_attention_s: float
    fills_alone: bool
    margin_s: float


class State(NamedTuple):
    """What changes from batch to batch; arrays of shape ``(requests,)`` but for the last four.

    Parameters
    ----------
    phase, segment, left, known, cached, host : int arrays
        Phase; segment under way, or next while paused; output tokens left in it; s, m and w.
    wake_s, key : float arrays
        When the call returns; place in the order.
    acted, refused : int arrays
        Batch in which it was last processed, evicted or swapped; value of ``counts[EVENTS]`` when
        it was last found not to fit.
    first_s, finish_s : float arrays
        End of the batch with the first and the last token; -1 before.
    active, paused : int arrays
        Requests of that phase, the first ``counts[ACTIVES]`` and ``counts[PAUSES]`` entries.
    overdue : int array
        Whether it cannot meet its objectives any more.
    chosen, chunk, ends, sizes : int arrays
        Requests of the batch, see :func:`~.calls_serve.choose`, and tokens of each request in it;
        working space of the profile.
    counts, clock : arrays
        Pages held and tokens in host memory, number of active and paused requests, batch, steps
        written, arrivals, events (anything that may let a refused request in), unfinished; time,
        length of the last batch, next arrival or return.
    """

    phase: IntArray
    segment: IntArray
    left: IntArray
    known: IntArray
    cached: IntArray
    host: IntArray
    wake_s: FloatArray
    key: FloatArray
    acted: IntArray
    refused: IntArray
    overdue: IntArray
    first_s: FloatArray
    finish_s: FloatArray
    active: IntArray
    paused: IntArray
    chosen: IntArray
    chunk: IntArray
    ends: IntArray
    sizes: IntArray
    counts: IntArray
    clock: FloatArray


def fresh(shape: Shape, shortest_s: float) -> State:
    """Nobody has arrived."""
    n = shape.prompt.size
    state = State(
        np.zeros(n, np.int64), shape.begin[:n].copy(), shape.made[shape.begin[:n]],
        shape.prompt.copy(), np.zeros(n, np.int64), np.zeros(n, np.int64),
        np.zeros(n), np.zeros(n), np.zeros(n, np.int64), np.zeros(n, np.int64),
        np.zeros(n, np.int64), np.full(n, -1.0), np.full(n, -1.0),
        np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64),
        np.zeros(n, np.int64), np.zeros(n + 1, np.int64), np.zeros(n + 1, np.int64),
        np.zeros(COUNTS, np.int64), np.zeros(CLOCKS),
    )  # fmt: skip
    state.counts[LEFT] = n
    state.counts[EVENTS] = 1
    state.clock[LAST] = shortest_s
    return state


def in_pages(room: Room, tokens: int) -> int:
    """KV tokens that whole pages for ``tokens`` take."""
    return room.block * -(-tokens // room.block)


def rank(state: State, rule: Rule, i: int) -> None:
    """Set the key of an active request."""
    s = state.segment[i]
    key = rule.base[s] + rule.per_token[s] * state.left[i]
    key += rule.per_fill[s] * (state.known[i] - state.cached[i] - state.host[i])
    if state.first_s[i] < 0:
        key += rule.first[i]
    if state.overdue[i]:
        key += OVERDUE
    state.key[i] = key


def put_off(state: State, rule: Rule) -> None:
    """Rank last who cannot meet its objectives any more."""
    now = state.clock[NOW]
    for q in range(state.counts[ACTIVES]):
        i = state.active[q]
        if not state.overdue[i]:
            fresh_s = rule.first_latest_s[i] if state.first_s[i] < 0 else np.inf
            if now > min(fresh_s, rule.latest_s[state.segment[i]]):
                state.overdue[i] = 1
                state.key[i] += OVERDUE


def sort_active(state: State) -> None:
    """By key, then by request; insertion, since the order hardly changes between batches."""
    for a in range(1, state.counts[ACTIVES]):
        i = state.active[a]
        b = a - 1
        while b >= 0:
            j = state.active[b]
            if state.key[j] < state.key[i] or (state.key[j] == state.key[i] and j < i):
                break
            state.active[b + 1] = j
            b -= 1
        state.active[b + 1] = i


def wake(state: State, shape: Shape, rule: Rule) -> None:
    """Activate whoever has arrived or whose call has returned by now."""
    now = state.clock[NOW]
    if now < state.clock[NEXT]:
        return
    state.clock[NEXT] = np.inf
    kept = 0
    for q in range(state.counts[PAUSES]):
        i = state.paused[q]
        if state.wake_s[i] <= now:
            activate(state, rule, i)
        else:
            state.paused[kept] = i
            kept += 1
            state.clock[NEXT] = min(state.clock[NEXT], state.wake_s[i])
    state.counts[PAUSES] = kept
    while state.counts[ARRIVED] < shape.arrive_s.size:
        i = state.counts[ARRIVED]
        if shape.arrive_s[i] > now:
            state.clock[NEXT] = min(state.clock[NEXT], shape.arrive_s[i])
            return
        activate(state, rule, i)
        state.counts[ARRIVED] += 1


def activate(state: State, rule: Rule, i: int) -> None:
    """Let a request be served from now on."""
    state.phase[i] = ACTIVE
    state.active[state.counts[ACTIVES]] = i
    state.counts[ACTIVES] += 1
    state.counts[EVENTS] += 1
    rank(state, rule, i)


def write(log: IntArray, state: State, i: int, kind: int, tokens: int) -> None:
    """Note a step of the schedule, as far as ``log`` has rows."""
    row = state.counts[STEPS]
    if row < log.shape[0]:
        log[row, 0] = i
        log[row, 1] = kind
        log[row, 2] = state.counts[BATCH]
        log[row, 3] = tokens
    state.counts[STEPS] += 1
