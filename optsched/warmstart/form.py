"""Forming a batch: the groups of a rule in turn (InferMax, Algorithm 1)."""

from __future__ import annotations

from optsched.warmstart.batch import Batch
from optsched.warmstart.profile import fits_profile
from optsched.warmstart.rule import Group, Reserve
from optsched.warmstart.state import State


def form_batch(state: State) -> Batch:
    """The next batch of a rule that visits its groups one after the other."""
    batch = Batch()
    fills_done = True
    for group in state.rule.groups:
        if group is Group.DECODES:
            if state.decodes.keys and (state.rule.hybrid or not batch.prefill):
                add_decodes(state, batch)
        elif group is Group.FILLS:
            fills_done = add_fills(state, batch)
        elif fills_done:
            admit(state, batch)
    return batch


def chunk(state: State, batch: Batch, remaining: int) -> int:
    """Tokens of a fill that the batch takes, 0 if it does not fit.

    A chunk may be cut to what C and P leave. An unchunked rule cuts only a fill that exceeds
    min(C, P) alone, into pieces of that size.
    """
    rule = state.rule
    if not rule.hybrid and batch.decodes:
        return 0
    counted = batch.prefill if rule.prefill_apart else batch.tokens
    left = min(state.batch_tokens - batch.tokens, state.prefill_tokens - counted)
    if rule.chunked:
        return max(0, min(remaining, left))
    whole = min(remaining, state.prefill_tokens)
    return whole if whole <= left else 0


def add_fill(state: State, batch: Batch, request: int, tokens: int) -> None:
    """Let the batch process ``tokens`` of a running fill."""
    state.filled_in[request] = state.batch
    batch.fills.append((request, tokens))
    batch.tokens += tokens
    batch.prefill += tokens


def add_fills(state: State, batch: Batch) -> bool:
    """Go on with the fills under way; False if one of them is not served to its end.

    Then nobody is admitted either: waiting requests come after it.
    """
    for request in tuple(state.fills):
        tokens = chunk(state, batch, state.known[request] - state.cached[request])
        if not tokens:
            return False
        if state.rule.fills_evict and not _grow_fill(state, batch, request, tokens):
            return False
        add_fill(state, batch, request, tokens)
    return True


def _grow_fill(state: State, batch: Batch, request: int, tokens: int) -> bool:
    """Find pages for a chunk that has none reserved; False if the fill was evicted instead.

    Nobody is admitted while a fill is under way, so it is the last admitted and its own victim.
    """
    need = state.pages_of(state.cached[request] + tokens) - state.held[request]
    if need > state.free:
        batch.evicted = True
        state.evict(request)
        return False
    state.held[request] += need
    state.used += need
    return True


def admit(state: State, batch: Batch) -> None:
    """Admit waiting requests from the head of the queue until one does not fit.

    Nobody behind a request that does not fit is considered, as in vLLM, Sarathi-Serve and
    InferMax. A request evicted in this batch stays out of it.
    """
    if batch.evicted and not state.rule.admits_after_eviction:
        return
    while len(state.waiting) and state.running < state.most_running:
        request = state.waiting.head()
        if state.evicted_now(request):
            return
        tokens = chunk(state, batch, state.known[request])
        if not tokens or not _has_memory(state, batch, request, tokens):
            return
        state.admit(pages_held(state, request, tokens))
        add_fill(state, batch, request, tokens)


def pages_held(state: State, request: int, tokens: int) -> int:
    """Pages that a waiting request holds from its admission with a chunk of ``tokens``."""
    if state.rule.reserve is Reserve.CHUNK:
        return state.pages_of(tokens)
    if state.rule.reserve is Reserve.FINAL:
        return state.pages_of(state.final[request])
    return state.pages_of(state.known[request])


def _has_memory(state: State, batch: Batch, request: int, tokens: int) -> bool:
    """Whether what admission asks for is free.

    The expected length is capped at M: it may come from longer requests, and nobody would ever
    be admitted against it.
    """
    if state.forecast is not None:
        expected = state.forecast.expected(state.prompt[request], state.known[request])
        return min(state.pages_of(expected), state.pages) <= state.free
    if pages_held(state, request, tokens) > state.free:
        return False
    return state.rule.reserve is not Reserve.PROFILE or fits_profile(state, batch, request, tokens)


def add_decodes(state: State, batch: Batch) -> None:
    """Let every running decode make a token; evict where pages run out, hold where C does."""
    decodes = state.decodes
    running = len(decodes)
    growth = 0 if state.rule.reserve is Reserve.FINAL else decodes.growth()
    if running <= state.batch_tokens - batch.tokens and growth <= state.free:
        state.used += growth
        batch.tokens += running
        batch.decodes = running
        batch.decode_kv = decodes.cached_sum()
        return
    for place, key in enumerate(tuple(decodes.keys)):
        if place >= len(decodes):  # the rest was evicted
            return
        if batch.tokens == state.batch_tokens:
            batch.held = [k % state.count for k in decodes.keys[place:]] if batch.decodes else []
            return
        add_decode(state, batch, key)


def add_decode(state: State, batch: Batch, key: int) -> None:
    """Let one decode make a token, evicting requests from the end of the order on.

    With no request left behind it, it evicts itself.
    """
    request = key % state.count
    cached = state.decodes.cached(request)
    need = 0
    if state.rule.reserve is not Reserve.FINAL:
        need = state.pages_of(cached + 1) - state.pages_of(cached)
    while need > state.free:
        victim = state.last_running()
        batch.evicted = True
        state.evict(victim % state.count)
        if victim == key:
            return
    state.used += need
    batch.tokens += 1
    batch.decodes += 1
    batch.decode_kv += cached
