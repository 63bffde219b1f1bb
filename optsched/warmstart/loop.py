"""The loop of every rule: take arrivals, form a batch, process it, put back what is unfinished.

Where a batch is nothing but every running request decoding, the batches after it are the same
until something happens: a request finishes, memory runs out, or a request arrives that could be
admitted. A waiting request that does not fit stays that way in between, since running requests
only take more memory and the batch holds as many tokens as before. Such batches are counted, not
formed. Only a rule that looks ahead in time (mc-*) may admit a request in the midst of them.
"""

from __future__ import annotations

from optsched.instance import Instance
from optsched.schedule import Schedule
from optsched.warmstart.batch import Batch, batch_time, decode_time, token_time
from optsched.warmstart.form import form_batch
from optsched.warmstart.ranked import form_ranked_batch
from optsched.warmstart.rule import Reserve, Rule
from optsched.warmstart.state import State


def run(instance: Instance, rule: Rule) -> Schedule:
    """The schedule of ``rule``, with batch times by the instance's cost model.

    Parameters
    ----------
    instance : Instance
        Feasible and without calls.
    rule : Rule

    Returns
    -------
    Schedule
        Complete: every request generates all its tokens.
    """
    state = State(instance, rule)
    form = form_ranked_batch if rule.ranked else form_batch
    while state.unfinished:
        state.take_arrivals()
        batch = form(state)
        assert batch.tokens, f"{rule.name} formed an empty batch"
        if batch.repeats:
            _process_decodes(state, batch)
        else:
            _process(state, batch)
    return state.record.schedule(state.position)


def _process(state: State, batch: Batch) -> None:
    """Process one batch and move requests to their next phase."""
    if not state.offline:
        state.now += batch_time(state, batch)
    if batch.decodes:
        for request in batch.held:
            state.decodes.hold(request, state.key(request, state.decodes.offset[request] - 1))
        _advance_decodes(state, 1)
    for request, tokens in batch.fills:
        state.record.filled(request, state.batch, tokens)
        state.cached[request] += tokens
        if state.cached[request] >= max(state.known[request] - 1, state.prompt[request]):
            _end_fill(state, request)
    state.batch += 1


def _end_fill(state: State, request: int) -> None:
    """Let a request decode, or end it.

    A fill that reaches its end has generated a token. A refill that lacks one token is a decode
    already, by ``docs/problem.md``, and gives back what it had reserved for that token.
    """
    state.fills.remove(request)
    cached = state.cached[request]
    state.cached[request] = 0
    remaining = state.final[request] - cached
    if not remaining:
        state.finish(request, state.held[request])
        return
    if state.rule.reserve is not Reserve.FINAL:
        state.used -= state.held[request] - state.pages_of(cached)
    state.decodes.join(request, cached, remaining, state.key(request, cached - state.decodes.steps))


def _process_decodes(state: State, batch: Batch) -> None:
    """Process a batch of all decodes and as many equal ones as follow it."""
    growing = state.rule.reserve is not Reserve.FINAL
    batches = _batches_alike(state, growing)
    if not state.offline:
        batches = _pass_time(state, batch, batches)
    if growing:
        state.used += state.decodes.growth_over(batches) - state.decodes.growth()
    _advance_decodes(state, batches)
    state.batch += batches


def _batches_alike(state: State, growing: bool) -> int:
    """Batches until a request finishes or memory runs out, the one just formed included."""
    batches = state.decodes.batches_to_finish()
    if state.rule.reserve is Reserve.PROFILE and len(state.waiting):
        blocked = state.blocked_until[state.waiting.head()] - state.batch
        batches = max(1, min(batches, blocked))
    if growing:
        free = state.free + state.decodes.growth()  # the batch just formed has taken its pages
        batches = min(batches, state.decodes.batches_within(free))
    return batches


def _pass_time(state: State, batch: Batch, batches: int) -> int:
    """Move the clock over at most ``batches``; fewer if an arrival could change what follows."""
    waits_for = float("inf")
    if state.arrived < state.count and (state.sorted_queue or not len(state.waiting)):
        waits_for = state.release[state.arrived]
    weights = token_time(state, batch.tokens)
    cached = batch.decode_kv
    for passed in range(1, batches + 1):
        state.now += weights + decode_time(state, batch.decodes, cached)
        if state.now >= waits_for:
            return passed
        cached += batch.decodes
    return batches


def _advance_decodes(state: State, batches: int) -> None:
    for request in state.decodes.advance(state.batch, batches):
        reserved = state.rule.reserve is Reserve.FINAL
        pages = state.held[request] if reserved else state.pages_of(state.final[request])
        state.finish(request, pages)
