"""The rules read one by one, batch by batch: slow searches that the oracle is held against."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Collection, Iterator
from typing import NamedTuple

from optsched.handling import required_handling
from optsched.instance import Instance, Request
from optsched.schedule import Kind, Schedule, from_steps

Action = int  # tokens processed, after a swap in if they are on the host; 0 is none; or one of:
EVICT, SWAP_OUT, SWAP_IN = -1, -2, -3
KIND_OF = {EVICT: Kind.EVICT, SWAP_OUT: Kind.SWAP_OUT, SWAP_IN: Kind.SWAP_IN}


class State(NamedTuple):
    """Of one request: m, w and g, when it may be processed (0 if it may now), and, if a policy
    asks, what its KV has met with since its last call ("" once it was processed), and whether a
    batch has passed since then."""

    m: int = 0
    w: int = 0
    g: int = 0
    release_s: float = 0.0
    handling: str = ""
    waited: bool = False


States = tuple[State, ...]


def known(request: Request, made: int) -> int:
    """s: prompt, generated tokens and the responses of calls that were made."""
    answered = sum(c.response_tokens for c in request.calls if c.after_tokens <= made)
    return request.prompt_tokens + made + answered


def initial(instance: Instance) -> States:
    """All requests before the first batch."""
    first = min(request.arrival_s for request in instance.requests)
    return tuple(State(release_s=r.arrival_s - first) for r in instance.requests)


def finished(instance: Instance, states: States) -> bool:
    """Whether nothing is left to do."""
    return all(s.g == r.output_tokens for s, r in zip(states, instance.requests, strict=True))


def start_of_batch(states: States, actions: tuple[Action, ...], now: float) -> float:
    pairs = zip(states, actions, strict=True)
    return max(now, *(s.release_s if action > 0 else now for s, action in pairs))


def after_batch(
    instance: Instance,
    now: float,
    states: States,
    actions: tuple[Action, ...],
    policies: Collection[str] = (),
) -> tuple[float, States] | None:
    """End of a batch and the states after it; None if a rule forbids it."""
    limits, cost = instance.limits, instance.cost
    assert cost.p_mc is not None
    start = start_of_batch(states, actions, now)
    required = required_handling(instance, policies)
    tokens = prefill = processed = decodes = used = away = 0
    seconds = 0.0
    following = []
    for request, state, action, must in zip(
        instance.requests, states, actions, required, strict=True
    ):
        m, w, g = state[:3]
        handling, waited = state.handling, state.waited
        s = known(request, g)
        paused = state.release_s > start
        open_, split = g < request.output_tokens, 0 < action < s - m - w
        if not open_ and action != 0:
            return None
        gap = open_ and g > 0 and action < 1 and not paused
        if "nonpreemptive" in policies and (gap or split):
            return None
        if "no-hold" in policies and m > 0 and action == 0 and not paused:
            return None
        if "no-chunk" in policies and split:
            return None
        if action == EVICT:
            if m + w == 0 or "no-evict" in policies:
                return None
            m = w = 0
            handling = handling and "discard"
        elif action == SWAP_OUT:
            if m == 0 or "no-swap" in policies:
                return None
            m, w = 0, m
            seconds += cost.swap_tok * w
            handling = handling and "swap"
        elif action == SWAP_IN or (action > 0 and w > 0):
            if w == 0 or "no-swap" in policies:
                return None
            m, w = w, 0
            seconds += cost.swap_tok * m
        if action > 0:
            if action > s - m:
                return None
            if handling and waited and must != handling:
                return None
            handling = ""
            tokens += action
            processed += 1
            if action == 1 and m == s - 1 and m >= request.prompt_tokens:
                decodes += 1
                seconds += cost.d_kv * m + cost.d_req
            else:
                prefill += action
                seconds += cost.p_sq * action**2 + cost.p_mc * m * action + cost.p_kv * m
                seconds += cost.p_req
            m += action
            g += m == s
        used += limits.block_tokens * math.ceil(m / limits.block_tokens)
        away += w
        m = 0 if g == request.output_tokens else m
        following.append(State(m, w, g, state.release_s, handling, handling != ""))
    within = (
        tokens >= 1
        and used <= limits.kv_tokens
        and away <= limits.host_kv_tokens
        and tokens <= limits.batch_tokens
        and prefill <= limits.fill_tokens
        and processed <= (limits.batch_requests or processed)
    )
    if not within or ("no-hybrid" in policies and decodes and prefill):
        return None
    if "fcfs" in policies:
        has = [state.g > 0 for state in following]
        arrival = [r.arrival_s for r in instance.requests]
        pairs = itertools.product(range(len(has)), repeat=2)
        if any(arrival[i] < arrival[k] and has[k] and not has[i] for i, k in pairs):
            return None
    seconds += max(alpha + beta * tokens for alpha, beta in cost.pieces)
    seconds += cost.d0 * (decodes > 0) + cost.p0 * (prefill > 0)
    end = start + seconds
    return end, tuple(
        _later(request, before, after, end, "preserve" if must else "")
        for request, before, after, must in zip(
            instance.requests, states, following, required, strict=True
        )
    )


def _later(request: Request, before: State, after: State, end: float, handling: str) -> State:
    """``after`` with the call that the batch makes; times that have passed become 0."""
    if after.g > before.g:
        for call in request.calls:
            if call.after_tokens == after.g:
                back = end + call.duration_s
                release = back if back > end else 0.0
                return after._replace(release_s=release, handling=handling, waited=False)
    return after._replace(release_s=after.release_s if after.release_s > end else 0.0)


def every_action(instance: Instance, states: States) -> Iterator[tuple[Action, ...]]:
    """Combinations of actions, of which the rules forbid some."""
    ranges = []
    for request, state in zip(instance.requests, states, strict=True):
        left = known(request, state.g) - state.m - state.w
        lowest = SWAP_IN if instance.limits.host_kv_tokens else EVICT
        ranges.append(range(lowest, left + 1) if state.g < request.output_tokens else range(1))
    return itertools.product(*ranges)


def by_the_rules(instance: Instance, policies: Collection[str] = ()) -> float:
    """Least makespan by Dijkstra's algorithm over every combination of actions; inf if none."""
    # With these, what a request may do depends on whether its call has returned, so on the time.
    clocked = instance.has_calls and not {"no-hold", "nonpreemptive"}.isdisjoint(policies)
    heap, settled = [(0.0, initial(instance))], set()
    while heap:
        now, states = heapq.heappop(heap)
        if finished(instance, states):
            return now
        key = (now if clocked else 0.0, states)
        if key in settled:
            continue
        settled.add(key)
        for actions in every_action(instance, states):
            result = after_batch(instance, now, states, actions, policies)
            if result is not None:
                heapq.heappush(heap, result)
    return math.inf


def replayed(instance: Instance, schedule: Schedule, policies: Collection[str] = ()) -> float:
    """Makespan of a schedule, executed batch by batch; fails if a rule forbids one."""
    actions: dict[int, list[Action]] = {}
    action_of = {kind: action for action, kind in KIND_OF.items()}
    for request, kind, first, count, tokens in zip(
        schedule.request.tolist(), schedule.kind.tolist(), schedule.first_batch.tolist(),
        schedule.batches.tolist(), schedule.tokens.tolist(), strict=True,
    ):  # fmt: skip
        for batch in range(first, first + count):
            row = actions.setdefault(batch, [0] * len(instance))
            both = row[request] == SWAP_IN and kind == Kind.PROCESS
            assert row[request] == 0 or both, "two actions of one request in a batch"
            row[request] = tokens if kind == Kind.PROCESS else action_of[Kind(kind)]
    assert sorted(actions) == list(range(1, schedule.batch_count + 1))
    now, states = 0.0, initial(instance)
    for _, row in sorted(actions.items()):
        result = after_batch(instance, now, states, tuple(row), policies)
        assert result is not None, f"forbidden: {row} in {states}"
        now, states = result
    assert finished(instance, states)
    return now


def every_schedule(
    instance: Instance, policies: Collection[str], most_batches: int
) -> Iterator[Schedule]:
    """All schedules of at most so many batches, depth first."""

    def extended(
        now: float, states: States, rows: list[list[tuple[int, int, int, int]]]
    ) -> Iterator[Schedule]:
        if finished(instance, states):
            yield from_steps(list(itertools.chain(*rows)))
            return
        pairs = zip(instance.requests, states, strict=True)
        if len(rows) + max(r.output_tokens - s.g for r, s in pairs) > most_batches:
            return
        for actions in every_action(instance, states):
            result = after_batch(instance, now, states, actions, policies)
            if result is not None:
                row = list(steps_of(states, actions, len(rows) + 1))
                yield from extended(*result, [*rows, row])

    yield from extended(0.0, initial(instance), [])


def steps_of(
    states: States, actions: tuple[Action, ...], batch: int
) -> Iterator[tuple[int, int, int, int]]:
    """The steps of a batch: request, kind, batch, tokens."""
    for i, (state, action) in enumerate(zip(states, actions, strict=True)):
        if action > 0 and state.w > 0:
            yield i, Kind.SWAP_IN, batch, 0
        if action != 0:
            yield i, KIND_OF.get(action, Kind.PROCESS), batch, max(action, 0)
