"""Who may take KV memory, and who gives it up (compiled where that pays).

A request is let in if the KV of everything under way stays within M to the end of its run, as in
the look-ahead without calls, but that those at least ``margin_s`` behind it in the order do not
count: it takes their memory. A *run* is what follows on without a pause longer than ``keep_s``: up
to there memory is kept. The KV of longer pauses is kept, too, but only as long as nobody needs
the room; then the one that returns last gives way, to host memory or for good, whichever costs
those who are active less time. So memory that nobody wants preserves everything, and the price of
memory enters by ``keep_s`` alone: preserving costs kappa m D / M machine-seconds and swapping
2 swap_tok m, so that a pause is worth its memory up to D = 2 swap_tok M / kappa, whatever m is.
"""

from __future__ import annotations

from optsched.warmstart.calls_chunks import fill_tokens
from optsched.warmstart.calls_shape import IntArray, Law, Room
from optsched.warmstart.calls_state import (
    ACTIVES,
    BATCH,
    EVICT,
    HELD,
    NOW,
    PAUSED,
    PAUSES,
    SWAP_OUT,
    SWAPPED,
    Rule,
    State,
    in_pages,
    write,
)


def stays_within(state: State, rule: Rule, room: Room, newcomer: int) -> bool:
    """Whether the KV of a newcomer's run and of those under way stays within a share of M.

    Those under way that are far enough behind the newcomer are left out.
    """
    cap = rule.share * room.kv
    behind = state.key[newcomer] + rule.margin_s
    count, total = 0, 0
    actives = state.counts[ACTIVES]
    for q in range(actives + state.counts[PAUSES]):
        i = state.active[q] if q < actives else state.paused[q - actives]
        if i != newcomer and (state.cached[i] == 0 or gives_way(state, rule, i)):
            continue
        if i != newcomer and q < actives and state.key[i] > behind:
            continue
        s = state.segment[i]
        state.ends[count] = state.left[i] + rule.run_steps[s]
        final = state.known[i] + state.left[i] - 1 + rule.run_tokens[s]
        state.sizes[count] = in_pages(room, final)
        total += state.sizes[count]
        count += 1
    if total <= cap:
        return True
    # KV grows but for the ends of runs, so it is largest at one of them.
    for a in range(count):
        at = state.ends[a]
        load = 0
        for b in range(count):
            if state.ends[b] >= at:
                load += state.sizes[b] - (state.ends[b] - at)
        if load > cap:
            return False
    return True


def gives_way(state: State, rule: Rule, i: int) -> bool:
    """Whether a request waits for so long that others may have its memory."""
    return bool(state.phase[i] == PAUSED and state.wake_s[i] - state.clock[NOW] > rule.keep_s)


def make_room(
    state: State, rule: Rule, room: Room, law: Law, log: IntArray, need: int, place: int,
    decodes: int, attention_s: float,
) -> int:  # fmt: skip
    """Free memory until ``need`` KV tokens fit; the tokens swapped, or -1 if that cannot be.

    Parameters
    ----------
    place : int
        Active requests after this place in the order may lose their KV, and paused ones that
        return soon; -1 if only those that return late may.
    """
    free = room.kv - state.counts[HELD]
    if need <= free:
        return 0
    actives, pauses = state.counts[ACTIVES], state.counts[PAUSES]
    for q in range(pauses):
        i = state.paused[q]
        if may_leave(state, i) and (place >= 0 or gives_way(state, rule, i)):
            free += in_pages(room, state.cached[i])
    if place >= 0:
        for q in range(place + 1, actives):
            if may_leave(state, state.active[q]):
                free += in_pages(room, state.cached[state.active[q]])
    if need > free:
        return -1
    moved = 0
    while need > room.kv - state.counts[HELD]:
        victim, latest = -1, -1.0
        for q in range(pauses):
            i = state.paused[q]
            if may_leave(state, i) and state.wake_s[i] > latest:
                victim, latest = i, state.wake_s[i]
        if victim < 0 or (place >= 0 and not gives_way(state, rule, victim)):
            for q in range(actives - 1, place, -1):
                if may_leave(state, state.active[q]):
                    victim = state.active[q]
                    break
        moved += take_away(state, rule, room, law, log, victim, decodes, attention_s)
    return moved


def may_leave(state: State, i: int) -> bool:
    """Whether this batch may evict or swap out a request: it has KV and is not acted on yet."""
    return bool(state.cached[i] > 0 and state.acted[i] != state.counts[BATCH])


def take_away(
    state: State, rule: Rule, room: Room, law: Law, log: IntArray, i: int, decodes: int,
    attention_s: float,
) -> int:  # fmt: skip
    """Swap out or evict, whichever costs those who are active less; the tokens swapped."""
    cached = state.cached[i]
    active = float(max(state.counts[ACTIVES], 1))
    swaps = state.counts[SWAPPED] + cached <= room.host
    if swaps:
        _, refill = fill_tokens(law, decodes, attention_s, active, 1.0, cached, 0)
        swaps = rule.swap_bias * 2.0 * law.swap_tok * cached * active <= refill
    state.counts[HELD] -= in_pages(room, cached)
    state.cached[i] = 0
    state.acted[i] = state.counts[BATCH]
    if not swaps:
        write(log, state, i, EVICT, 0)
        return 0
    state.host[i] = cached
    state.counts[SWAPPED] += cached
    write(log, state, i, SWAP_OUT, 0)
    return int(cached)
