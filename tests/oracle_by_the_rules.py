"""The rules read one by one, batch by batch: slow searches that the oracle is held against."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Collection, Iterator

from optsched.instance import Instance
from optsched.schedule import Kind, Schedule, from_steps

Action = int  # tokens processed; 0 is none and -1 an eviction
EVICT = -1
State = tuple[tuple[int, int], ...]  # (m, g) per request


def after_batch(
    instance: Instance, state: State, actions: tuple[Action, ...], policies: Collection[str]
) -> tuple[State, float] | None:
    """State after a batch and how long the batch takes; None if a rule forbids it."""
    limits, cost = instance.limits, instance.cost
    assert cost.p_mc is not None
    tokens = prefill = processed = decodes = used = 0
    seconds = 0.0
    following = []
    for request, (m, g), action in zip(instance.requests, state, actions, strict=True):
        s = request.prompt_tokens + g
        if "nonpreemptive" in policies:
            begun = (m, g) != (0, 0) and g < request.output_tokens
            if (begun and action < 1) or 0 < action < s - m:
                return None
        if g == request.output_tokens:
            if action != 0:
                return None
        elif action == EVICT:
            if m == 0 or "no-evict" in policies:
                return None
            m = 0
        elif action == 0:
            if m > 0 and "no-hold" in policies:
                return None
        else:
            if action > s - m or ("no-chunk" in policies and action < s - m):
                return None
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
        following.append((0 if g == request.output_tokens else m, g))
    within = (
        tokens >= 1
        and used <= limits.kv_tokens
        and tokens <= limits.batch_tokens
        and prefill <= (limits.prefill_tokens or math.inf)
        and processed <= (limits.batch_requests or math.inf)
    )
    if not within or ("no-hybrid" in policies and decodes and prefill):
        return None
    if "fcfs" in policies:
        has = [g > 0 for _, g in following]
        arrival = [r.arrival_s for r in instance.requests]
        pairs = itertools.product(range(len(has)), repeat=2)
        if any(arrival[i] < arrival[k] and has[k] and not has[i] for i, k in pairs):
            return None
    seconds += max(alpha + beta * tokens for alpha, beta in cost.pieces)
    seconds += cost.d0 * (decodes > 0) + cost.p0 * (prefill > 0)
    return tuple(following), seconds


def start_of_batch(instance: Instance, actions: tuple[Action, ...], now: float) -> float:
    first = min(request.arrival_s for request in instance.requests)
    pairs = zip(instance.requests, actions, strict=True)
    return max(now, *(r.arrival_s - first if action > 0 else now for r, action in pairs))


def by_the_rules(instance: Instance, policies: Collection[str] = ()) -> float:
    """Least makespan by Dijkstra's algorithm over every combination of actions; inf if none."""
    start: State = tuple((0, 0) for _ in instance.requests)
    goal: State = tuple((0, r.output_tokens) for r in instance.requests)
    heap, settled = [(0.0, start)], set()
    while heap:
        now, state = heapq.heappop(heap)
        if state == goal:
            return now
        if state in settled:
            continue
        settled.add(state)
        most = [r.prompt_tokens + g - m for r, (m, g) in zip(instance.requests, state, strict=True)]
        for actions in itertools.product(*(range(EVICT, limit + 1) for limit in most)):
            result = after_batch(instance, state, actions, policies)
            if result is not None and result[0] not in settled:
                end = start_of_batch(instance, actions, now) + result[1]
                heapq.heappush(heap, (end, result[0]))
    return math.inf


def replayed(instance: Instance, schedule: Schedule, policies: Collection[str] = ()) -> float:
    """Makespan of a schedule, executed batch by batch; fails if a rule forbids one."""
    actions: dict[int, list[Action]] = {}
    for request, kind, first, count, tokens in zip(
        schedule.request.tolist(), schedule.kind.tolist(), schedule.first_batch.tolist(),
        schedule.batches.tolist(), schedule.tokens.tolist(), strict=True,
    ):  # fmt: skip
        for batch in range(first, first + count):
            row = actions.setdefault(batch, [0] * len(instance))
            assert row[request] == 0, "two actions of one request in a batch"
            row[request] = tokens if kind == Kind.PROCESS else EVICT
    assert sorted(actions) == list(range(1, schedule.batch_count + 1))
    now, state = 0.0, tuple((0, 0) for _ in instance.requests)
    for _, row in sorted(actions.items()):
        result = after_batch(instance, state, tuple(row), policies)
        assert result is not None, f"forbidden: {row} in {state}"
        now = start_of_batch(instance, tuple(row), now) + result[1]
        state = result[0]
    assert state == tuple((0, r.output_tokens) for r in instance.requests)
    return now


def every_schedule(
    instance: Instance, policies: Collection[str], most_batches: int
) -> Iterator[Schedule]:
    """All schedules of at most so many batches, depth first."""
    goal: State = tuple((0, r.output_tokens) for r in instance.requests)

    def extended(state: State, rows: list[tuple[Action, ...]]) -> Iterator[Schedule]:
        if state == goal:
            yield from_steps([
                (i, Kind.PROCESS if action > 0 else Kind.EVICT, batch, max(action, 0))
                for batch, row in enumerate(rows, start=1)
                for i, action in enumerate(row)
                if action != 0
            ])  # fmt: skip
            return
        pairs = list(zip(instance.requests, state, strict=True))
        if len(rows) + max(r.output_tokens - g for r, (_, g) in pairs) > most_batches:
            return
        most = [r.prompt_tokens + g - m if g < r.output_tokens else 0 for r, (m, g) in pairs]
        for actions in itertools.product(*(range(EVICT, limit + 1) for limit in most)):
            result = after_batch(instance, state, actions, policies)
            if result is not None:
                yield from extended(result[0], [*rows, actions])

    yield from extended(tuple((0, 0) for _ in instance.requests), [])
