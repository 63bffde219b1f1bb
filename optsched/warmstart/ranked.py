"""Forming a batch of a ranked rule: running and waiting requests as one group."""

from __future__ import annotations

from bisect import bisect_left

from optsched.warmstart.batch import Batch
from optsched.warmstart.form import add_decode, add_fill, chunk, form_batch, pages_held
from optsched.warmstart.state import State


def form_ranked_batch(state: State) -> Batch:
    """The next batch when requests are visited by rank, whatever their phase (InferMax).

    A waiting request that lacks memory evicts running ones behind it, from the last on, if those
    hold enough; otherwise nobody is evicted, and no request behind it is admitted, but running
    ones go on. (InferMax's simulator evicts even in vain and then admits requests behind it,
    which are evicted again a batch later.)
    """
    if _in_phases(state):
        return form_batch(state)
    batch = Batch()
    running = sorted([*state.decodes.keys, *map(state.fill_key, state.fills)])
    only_decodes = not state.fills
    place = 0
    admitting = len(state.waiting) > 0
    while place < len(running) or admitting:
        ahead = bisect_left(running, state.next_key(), place) if admitting else len(running)
        if place < ahead:
            served = only_decodes and _serve_decodes(state, batch, running[place:ahead])
            if not served:
                for key in running[place:ahead]:
                    _serve(state, batch, key)
            place = ahead
        else:
            admitting = _admit_before(state, batch, running[place:]) and len(state.waiting) > 0
    if not batch.decodes:
        batch.held = []
    return batch


def _in_phases(state: State) -> bool:
    """Whether ranks agree with phases: decodes, then at most one fill, then waiting requests."""
    keys = [*state.decodes.keys[-1:], *map(state.fill_key, state.fills)]
    if len(state.waiting):
        keys.append(state.next_key())
    return len(state.fills) <= 1 and keys == sorted(keys)


def _serve_decodes(state: State, batch: Batch, keys: list[int]) -> bool:
    """Let all of these decode; False, and nothing done, if one lacks memory or tokens."""
    requests = [key % state.count for key in keys if not state.evicted_now(key % state.count)]
    cached = list(map(state.decodes.cached, requests))
    growth = sum(m % state.block == 0 for m in cached)
    if growth > state.free or len(requests) > state.batch_tokens - batch.tokens:
        return False
    state.used += growth
    batch.tokens += len(requests)
    batch.decodes += len(requests)
    batch.decode_kv += sum(cached)
    return True


def _serve(state: State, batch: Batch, key: int) -> None:
    """Let a running request decode, or go on with its fill."""
    request = key % state.count
    if state.evicted_now(request):
        return
    if not state.cached[request]:
        if batch.tokens < state.batch_tokens:
            add_decode(state, batch, key)
        else:
            batch.held.append(request)
    elif tokens := chunk(state, batch, state.known[request] - state.cached[request]):
        add_fill(state, batch, request, tokens)


def _admit_before(state: State, batch: Batch, behind: list[int]) -> bool:
    """Admit the head of the queue; False if it does not fit, and so nobody else does.

    ``behind`` are the keys of running requests that it may evict.
    """
    request = state.waiting.head()
    if state.evicted_now(request) or state.running >= state.most_running:
        return False
    tokens = chunk(state, batch, state.known[request])
    if not tokens:
        return False
    need = pages_held(state, request, tokens)
    victims = []
    obtained = state.free
    for key in reversed(behind):
        if obtained >= need:
            break
        if not state.evicted_now(key % state.count):
            victims.append(key % state.count)
            obtained += state.pages_of_running(victims[-1])
    if obtained < need:
        return False
    for victim in victims:
        batch.evicted = True
        state.evict(victim)
    # Evicted requests have joined the queue, all behind this one.
    state.admit(need)
    add_fill(state, batch, request, tokens)
    return True
