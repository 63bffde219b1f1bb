"""Exhaustive search for tiny instances with calls and swapping, straight from the problem's rules.

``tests.oracle`` covers neither. States are per-request tuples; no symmetry and no bounds are
used, so one or two requests of a few tokens are its reach.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

from optsched.instance import Instance, Request


@dataclass(frozen=True, order=True)
class State:
    """Of one request: tokens cached and swapped, output tokens made, and when its call returns."""

    cached: int = 0
    swapped: int = 0
    made: int = 0
    wake_s: float = 0.0


@dataclass(frozen=True)
class Step:
    """What one action of a request does to it and to its batch."""

    after: State
    held: int
    tokens: int = 0
    prefill: int = 0
    decodes: int = 0
    attention_s: float = 0.0
    moved: int = 0


def known(request: Request, made: int) -> int:
    """Prompt, generated tokens and the responses of calls that were made."""
    answered = sum(c.response_tokens for c in request.calls if c.after_tokens <= made)
    return request.prompt_tokens + made + answered


def steps(instance: Instance, request: Request, state: State) -> Iterator[Step]:
    """All actions of one request in one batch, doing nothing included."""
    yield Step(state, state.cached)
    if state.made == request.output_tokens:
        return
    if state.cached or state.swapped:
        yield Step(replace(state, cached=0, swapped=0), 0)
    if state.cached and instance.limits.host_kv_tokens:
        yield Step(
            replace(state, cached=0, swapped=state.cached), 0, moved=state.cached
        )  # fmt: skip
    cached, moved = state.cached, 0
    if state.swapped:
        cached, moved = state.swapped, state.swapped
        yield Step(replace(state, cached=cached, swapped=0), cached, moved=moved)
    cost, total = instance.cost, known(request, state.made)
    for c in range(1, total - cached + 1):
        decode = c == 1 and cached == total - 1 and cached >= request.prompt_tokens
        attention = (
            cost.d_kv * cached + cost.d_req
            if decode
            else cost.p_sq * c * c + cost.mixed * cached * c + cost.p_kv * cached + cost.p_req
        )
        full = cached + c == total
        after = State(cached + c, 0, state.made + full, state.wake_s)
        if after.made == request.output_tokens:
            after = replace(after, cached=0)
        yield Step(after, cached + c, c, 0 if decode else c, int(decode), attention, moved)


def least_makespan(instance: Instance) -> float:
    """The least makespan over every schedule, by Dijkstra's algorithm on (states, time)."""
    requests = instance.requests
    start = tuple(State(wake_s=float(r)) for r in instance.release_s)
    queue: list[tuple[float, tuple[State, ...]]] = [(0.0, start)]
    done: set[tuple[State, ...]] = set()
    while queue:
        now, states = heapq.heappop(queue)
        if states in done:
            continue
        done.add(states)
        if all(s.made == r.output_tokens for s, r in zip(states, requests, strict=True)):
            return now
        for end, after in following(instance, now, states):
            if after not in done:
                heapq.heappush(queue, (end, after))
    raise AssertionError("no schedule")


def following(
    instance: Instance, now: float, states: tuple[State, ...]
) -> Iterator[tuple[float, tuple[State, ...]]]:
    """End of every batch that can follow at ``now``, and the states after it."""
    requests = instance.requests
    actions = [steps(instance, r, s) for r, s in zip(requests, states, strict=True)]
    for batch in itertools.product(*actions):
        if not fits(instance, batch):
            continue
        working = [s.wake_s for s, step in zip(states, batch, strict=True) if step.tokens]
        end = max(now, *working) + length_s(instance, batch)
        yield (
            end,
            tuple(
                woken(r, s, step.after, end)
                for r, s, step in zip(requests, states, batch, strict=True)
            ),
        )


def fits(instance: Instance, batch: tuple[Step, ...]) -> bool:
    """Whether a batch keeps to the limits."""
    limits = instance.limits
    most = limits.batch_requests or len(batch)
    return (
        1 <= sum(s.tokens for s in batch) <= limits.batch_tokens
        and sum(s.prefill for s in batch) <= limits.fill_tokens
        and sum(s.tokens > 0 for s in batch) <= most
        and sum(limits.pages(s.held) for s in batch) <= limits.kv_tokens
        and sum(s.after.swapped for s in batch) <= limits.host_kv_tokens
    )


def length_s(instance: Instance, batch: tuple[Step, ...]) -> float:
    """The time of a batch."""
    cost, n = instance.cost, sum(s.tokens for s in batch)
    return (
        max(alpha + beta * n for alpha, beta in cost.pieces)
        + cost.d0 * any(s.decodes for s in batch)
        + cost.p0 * any(s.prefill for s in batch)
        + sum(s.attention_s for s in batch)
        + cost.swap_tok * sum(s.moved for s in batch)
    )


def woken(request: Request, before: State, after: State, end: float) -> State:
    """``after`` with the return of the call that its new token makes; past times become 0."""
    wake = after.wake_s if after.wake_s > end else 0.0
    if after.made > before.made:
        wake = sum(end + c.duration_s for c in request.calls if c.after_tokens == after.made)
    return replace(after, wake_s=wake)
