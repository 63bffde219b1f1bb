"""A per-batch interpreter of schedules: slow, and plain enough to be read against the problem.

It expands every run to single steps and moves the state (s, m, w, g) of section 2 batch by batch.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from optsched.instance import Instance, Request
from optsched.schedule import Kind, Schedule


class BrokenRuleError(Exception):
    """The schedule breaks progress, completion or residency."""


def obey(ok: bool, what: str) -> None:
    if not ok:
        raise BrokenRuleError(what)


@dataclass
class State:
    """One request: known, cached, swapped and generated tokens, and its history."""

    request: Request
    known: int
    cached: int = 0
    swapped: int = 0
    generated: int = 0
    processed_upto: int = 0
    refilled: int = 0
    first_batch: int = 0
    first_token_batch: int = 0
    last_token_batch: int = 0
    # Per call: the batch that makes it, the batch that resumes after it.
    made_in: list[int] = field(default_factory=list)
    resumed_in: list[int] = field(default_factory=list)

    @property
    def finished(self) -> bool:
        return self.generated == self.request.output_tokens


@dataclass
class BatchLoad:
    """What one batch processes."""

    tokens: int = 0
    decodes: int = 0
    prefills: int = 0
    decode_cached: int = 0
    prefill_square: int = 0
    prefill_cross: int = 0
    prefill_cached: int = 0
    swapped_tokens: int = 0
    kv_tokens: int = 0
    host_kv_tokens: int = 0
    processes: list[int] = field(default_factory=list)


@dataclass
class Replay:
    """Loads of every batch, the final state of every request, start and end of every batch."""

    batches: list[BatchLoad]
    states: list[State]
    start_s: list[float]
    end_s: list[float]


def process(state: State, c: int, batch: int, load: BatchLoad) -> None:
    """Process c tokens of one request."""
    obey(not state.finished, "processed after its end")
    obey(state.swapped == 0, "processed while swapped out")
    obey(1 <= c <= state.known - state.cached, "1 <= c <= s - m")
    if len(state.made_in) > len(state.resumed_in):
        state.resumed_in.append(batch)
    if not state.first_batch:
        state.first_batch = batch
    m = state.cached
    if c == 1 and m == state.known - 1 and m >= state.request.prompt_tokens:
        load.decodes += 1
        load.decode_cached += m
    else:
        load.prefills += 1
        load.prefill_square += c * c
        load.prefill_cross += m * c
        load.prefill_cached += m
    load.tokens += c
    state.refilled += max(0, min(state.processed_upto, m + c) - m)
    state.cached += c
    state.processed_upto = max(state.processed_upto, state.cached)
    if state.cached == state.known:
        state.known += 1
        state.generated += 1
        if state.generated == 1:
            state.first_token_batch = batch
        if state.finished:
            state.last_token_batch = batch
        for call in state.request.calls:
            if call.after_tokens == state.generated:
                state.known += call.response_tokens
                state.made_in.append(batch)


def act(state: State, actions: dict[Kind, int], batch: int, load: BatchLoad) -> None:
    """Apply what one request does in one batch."""
    obey(len(actions) == 1 or set(actions) == {Kind.SWAP_IN, Kind.PROCESS}, "one action at a time")
    if Kind.SWAP_IN in actions:
        obey(state.swapped > 0, "swap in of nothing")
        load.swapped_tokens += state.swapped
        state.cached, state.swapped = state.swapped, 0
    if Kind.PROCESS in actions:
        process(state, actions[Kind.PROCESS], batch, load)
    if Kind.EVICT in actions:
        obey(state.cached > 0 or state.swapped > 0, "evict of nothing")
        state.cached = state.swapped = 0
    if Kind.SWAP_OUT in actions:
        obey(state.cached > 0, "swap out of nothing")
        load.swapped_tokens += state.cached
        state.cached, state.swapped = 0, state.cached


def seconds(instance: Instance, load: BatchLoad) -> float:
    """The batch-time law of section 4."""
    cost = instance.cost
    time = max(alpha + beta * load.tokens for alpha, beta in cost.pieces)
    if load.decodes:
        time += cost.d0 + cost.d_kv * load.decode_cached + cost.d_req * load.decodes
    if load.prefills:
        time += cost.p0 + cost.p_sq * load.prefill_square + cost.p_req * load.prefills
        time += cost.mixed * load.prefill_cross + cost.p_kv * load.prefill_cached
    return time + cost.swap_tok * load.swapped_tokens


def replay(instance: Instance, schedule: Schedule) -> Replay:
    """Run a schedule batch by batch; raises BrokenRuleError."""
    steps: dict[int, dict[int, dict[Kind, int]]] = defaultdict(lambda: defaultdict(dict))
    columns = (
        schedule.request, schedule.kind, schedule.first_batch, schedule.batches, schedule.tokens
    )  # fmt: skip
    for request, kind, first, batches, tokens in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        obey(request < len(instance), "an unknown request")
        for batch in range(first, first + batches):
            obey(Kind(kind) not in steps[batch][request], "the same action twice")
            steps[batch][request][Kind(kind)] = tokens
    states = [State(request=r, known=r.prompt_tokens) for r in instance.requests]
    loads = []
    for batch in range(1, max(steps, default=0) + 1):
        load = BatchLoad()
        for request, actions in steps[batch].items():
            obey(not states[request].finished, "an action after its end")
            act(states[request], actions, batch, load)
            if Kind.PROCESS in actions:
                load.processes.append(request)
        obey(load.tokens > 0, "an empty batch")
        for state in states:
            # KV of a finished request counts in its last batch only.
            if not state.finished or state.last_token_batch == batch:
                block = instance.limits.block_tokens
                load.kv_tokens += block * ((state.cached + block - 1) // block)
            load.host_kv_tokens += state.swapped
        loads.append(load)
    obey(all(state.finished for state in states), "not completed")
    return Replay(loads, states, *clock(instance, schedule, loads, states))


def clock(
    instance: Instance, schedule: Schedule, loads: list[BatchLoad], states: list[State]
) -> tuple[list[float], list[float]]:
    """Start and end of every batch (section 5)."""
    earliest_arrival = min(r.arrival_s for r in instance.requests)
    starts: list[float] = []
    ends: list[float] = []
    for batch, load in enumerate(loads, start=1):
        start = ends[-1] if ends else 0.0
        for request in load.processes:
            state = states[request]
            start = max(start, state.request.arrival_s - earliest_arrival)
            for call, made, resumed in zip(
                state.request.calls, state.made_in, state.resumed_in, strict=True
            ):
                if resumed == batch:
                    start = max(start, ends[made - 1] + call.duration_s)
        for waiting, until in zip(
            schedule.wait_batch.tolist(), schedule.wait_until_s.tolist(), strict=True
        ):
            if waiting == batch:
                start = max(start, until)
        starts.append(start)
        ends.append(start + seconds(instance, load))
    return starts, ends
