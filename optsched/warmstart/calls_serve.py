"""The loop of the look-ahead with calls (compiled where that pays).

Every batch: wake whoever may be served, go through the active requests in order and take each
that fits (later ones past those that do not), decodes first; then share out the tokens of fills in
the same order, as many as :mod:`~optsched.warmstart.calls_chunks` finds worth the time. The first
in order always fits, if need be at the cost of everybody behind it, so every batch makes progress.
"""

from __future__ import annotations

import numpy as np

from optsched.warmstart.calls_chunks import fill_tokens, weights_time
from optsched.warmstart.calls_memory import make_room, stays_within
from optsched.warmstart.calls_shape import IntArray, Law, Room, Shape
from optsched.warmstart.calls_state import (
    ACTIVE,
    ACTIVES,
    BATCH,
    EVENTS,
    FINISHED,
    HELD,
    LAST,
    LEFT,
    NEXT,
    NOW,
    PAUSED,
    PAUSES,
    PROCESS,
    SWAP_IN,
    SWAPPED,
    Rule,
    State,
    fresh,
    in_pages,
    put_off,
    rank,
    sort_active,
    wake,
    write,
)

_MOST_REFUSED = 64  # requests found not to fit in one batch, after which no more are looked at


def serve(
    shape: Shape, law: Law, room: Room, rule: Rule, deadlines: bool, log: IntArray, most: int
) -> State:
    """Serve all requests, or as far as ``most`` batches go; the state at the end.

    Parameters
    ----------
    deadlines : bool
        Whether ``rule`` has any.
    log : int array, shape ``(rows, 4)``
        Receives the steps: request, kind, batch and tokens, as far as there are rows.
    """
    state = fresh(shape, weights_time(law, 1))
    while state.counts[LEFT] > 0 and state.counts[BATCH] < most:
        state.counts[BATCH] += 1
        move_on(state, rule)
        wake(state, shape, rule)
        if deadlines:
            put_off(state, rule)
        sort_active(state)
        length_s = process(state, shape, law, room, rule, log)
        state.clock[NOW] += length_s
        state.clock[LAST] = length_s
        advance(state, shape, room, rule)
    return state


def move_on(state: State, rule: Rule) -> None:
    """Wait for the next arrival or return if there is nothing else to do, or if it is so near that
    all others lose less by waiting than it would by missing the batch."""
    away, last = state.clock[NEXT] - state.clock[NOW], state.clock[LAST]
    active = state.counts[ACTIVES]
    idle = active == 0 and away > 0
    if idle or (0 < away < last and active * away * rule.wait < last - away):
        state.clock[NOW] = state.clock[NEXT]


def process(
    state: State, shape: Shape, law: Law, room: Room, rule: Rule, log: IntArray
) -> float:  # fmt: skip
    """Form a batch; its length in seconds."""
    decodes, filling, attention_s, moved = choose(state, shape, law, room, rule, log, False)
    if decodes + filling == 0:
        decodes, filling, attention_s, moved = choose(state, shape, law, room, rule, log, True)
    tokens = decodes
    length_s = attention_s + (law.d0 if decodes > 0 else 0.0)
    if filling > 0:
        tokens, fill_s, swapped = fill(
            state, law, room, rule, log, decodes, filling, attention_s
        )  # fmt: skip
        length_s += fill_s
        moved += swapped
    return length_s + weights_time(law, tokens) + law.swap_tok * moved


def choose(
    state: State, shape: Shape, law: Law, room: Room, rule: Rule, log: IntArray, forced: bool
) -> tuple[int, int, float, int]:
    """Take requests into the batch, in order.

    Decodes are processed; of fills, which stand at the end of ``chosen``, the first token only has
    its memory. ``forced`` lets the first one in at any cost.

    Returns
    -------
    decodes, filling, attention_s, moved
        Numbers of requests, time of the decodes' attention, tokens swapped.
    """
    batch = state.counts[BATCH]
    n = state.chosen.size
    decodes, filling, moved, refusals = 0, 0, 0, 0
    attention_s = 0.0
    takes = rule.margin_s < np.inf
    most = min(room.requests, max(float(rule.most), rule.most_share * state.counts[ACTIVES]))
    for q in range(state.counts[ACTIVES]):
        taken = decodes + filling
        if taken > 0 and (taken >= most or attention_s >= rule.most_attention_s):
            break
        if decodes == room.tokens:
            break
        i = state.active[q]
        if state.acted[i] == batch:
            continue
        cached = state.cached[i] + state.host[i]
        resident = state.cached[i] > 0
        decode = state.known[i] - cached == 1 and cached >= shape.prompt[i]
        if decode and filling > 0 and rule.fills_alone:
            continue
        must = forced and taken == 0
        if not (resident or must):
            if state.refused[i] == state.counts[EVENTS] or refusals == _MOST_REFUSED:
                continue
            if not stays_within(state, rule, room, i):
                state.refused[i] = state.counts[EVENTS]
                refusals += 1
                continue
        need = in_pages(room, cached + 1) - (in_pages(room, cached) if resident else 0)
        place = q if takes or resident or must else -1
        swapped = make_room(state, rule, room, law, log, need, place, decodes, attention_s)
        if swapped < 0:
            state.refused[i] = state.counts[EVENTS]
            continue
        moved += swapped
        if state.host[i] > 0:
            write(log, state, i, SWAP_IN, 0)
            moved += state.host[i]
            state.counts[SWAPPED] -= state.host[i]
            state.cached[i] = state.host[i]
            state.host[i] = 0
        state.counts[HELD] += need
        state.acted[i] = batch
        if decode:
            state.chosen[decodes] = i
            state.chunk[i] = 1
            write(log, state, i, PROCESS, 1)
            attention_s += law.d_kv * cached + law.d_req
            decodes += 1
        else:
            filling += 1
            state.chosen[n - filling] = i
    return decodes, filling, attention_s, moved


def fill(
    state: State, law: Law, room: Room, rule: Rule, log: IntArray, decodes: int, filling: int,
    attention_s: float,
) -> tuple[int, float, int]:  # fmt: skip
    """Share out the tokens of fills.

    Returns
    -------
    tokens, fill_s, moved
        Tokens of the batch, time of the fills' attention, tokens swapped.
    """
    n = state.chosen.size
    total = 0
    for k in range(filling):
        i = state.chosen[n - 1 - k]
        total += state.known[i] - state.cached[i]
    active = max(rule.chunk * state.counts[ACTIVES], float(filling))
    head = state.cached[state.chosen[n - 1]]
    left, _ = fill_tokens(law, decodes, attention_s, active, float(filling), total, head)
    left = min(max(left, 1), room.fill, room.tokens - decodes)
    tokens, moved = decodes, 0
    fill_s = law.p0
    for k in range(filling):
        i = state.chosen[n - 1 - k]
        cached = state.cached[i]
        held = in_pages(room, cached + 1)  # its first token has its memory already
        chunk = min(state.known[i] - cached, left)
        need = in_pages(room, cached + chunk) - held
        place = 0 if tokens == 0 else -1
        swapped = make_room(state, rule, room, law, log, need, place, decodes, attention_s)
        if swapped < 0:
            chunk = min(chunk, held + room.kv - state.counts[HELD] - cached)
            swapped = 0
        state.chunk[i] = chunk
        state.counts[HELD] += in_pages(room, cached + chunk) - held
        moved += swapped
        if chunk > 0:
            left -= chunk
            tokens += chunk
            fill_s += (law.p_sq * chunk + law.p_mc * cached) * chunk + law.p_kv * cached
            fill_s += law.p_req
            write(log, state, i, PROCESS, chunk)
    return tokens, fill_s, moved


def advance(state: State, shape: Shape, room: Room, rule: Rule) -> None:
    """Move everybody whom the batch processed on, and take out who pauses or has finished."""
    kept = 0
    for q in range(state.counts[ACTIVES]):
        i = state.active[q]
        if state.acted[i] == state.counts[BATCH]:
            state.cached[i] += state.chunk[i]
            if state.chunk[i] > 0 and state.cached[i] == state.known[i]:
                generate(state, shape, room, i)
            state.chunk[i] = 0
        if state.phase[i] == ACTIVE:
            if state.acted[i] == state.counts[BATCH]:
                rank(state, rule, i)
            state.active[kept] = i
            kept += 1
    state.counts[ACTIVES] = kept


def generate(state: State, shape: Shape, room: Room, i: int) -> None:
    """One more output token, and what follows from it."""
    now, s = state.clock[NOW], state.segment[i]
    state.left[i] -= 1
    state.known[i] += 1
    if state.first_s[i] < 0:
        state.first_s[i] = now
    if state.left[i] > 0:
        return
    state.counts[EVENTS] += 1
    if shape.pause_s[s] < 0:
        state.phase[i] = FINISHED
        state.finish_s[i] = now
        state.counts[HELD] -= in_pages(room, state.cached[i])
        state.cached[i] = 0
        state.counts[LEFT] -= 1
        return
    state.phase[i] = PAUSED
    state.wake_s[i] = now + shape.pause_s[s]
    state.clock[NEXT] = min(state.clock[NEXT], state.wake_s[i])
    state.known[i] += shape.response[s]
    state.segment[i] = s + 1
    state.left[i] = shape.made[s + 1]
    state.paused[state.counts[PAUSES]] = i
    state.counts[PAUSES] += 1
