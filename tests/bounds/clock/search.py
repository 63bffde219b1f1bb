"""Exhaustive search for objectives of the clock on tiny instances with calls and swapping.

As ``tests.bounds.search``, but of several times and costs at which the same states are reached all
are kept that no other one beats in both.
"""

from __future__ import annotations

import heapq

from optsched.instance import Instance
from optsched.objective import Objective
from tests.bounds.search import State, following

States = tuple[State, ...]


def least(instance: Instance, objective: Objective) -> float:
    """The least mean latency, mean TTFT or largest latency over every schedule."""
    requests = instance.requests
    start = tuple(State(wake_s=float(r)) for r in instance.release_s)
    queue: list[tuple[float, float, States]] = [(0.0, 0.0, start)]
    kept: dict[States, list[tuple[float, float]]] = {}
    while queue:
        cost, now, states = heapq.heappop(queue)
        if all(s.made == r.output_tokens for s, r in zip(states, requests, strict=True)):
            return cost
        front = kept.setdefault(states, [])
        if any(earlier <= now for _, earlier in front):  # and no dearer, as costs ascend
            continue
        front.append((cost, now))
        for end, after in following(instance, now, states):
            heapq.heappush(
                queue, (_cost(instance, objective, cost, states, after, end), end, after)
            )
    raise AssertionError("no schedule")


def _cost(
    instance: Instance, objective: Objective, cost: float, before: States, after: States, end: float
) -> float:
    """The cost with the first tokens, or ends, that lie at ``end``."""
    rows = zip(instance.requests, instance.release_s, before, after, strict=True)
    if objective is Objective.MEAN_TTFT:
        reached = [end - t for _, t, b, a in rows if b.made == 0 < a.made]
    else:
        reached = [end - t for r, t, b, a in rows if b.made < a.made == r.output_tokens]
    if objective is Objective.MAX_LATENCY:
        return max([cost, *map(float, reached)])
    return cost + float(sum(reached)) / len(instance)


def frontier(instance: Instance) -> list[tuple[float, float]]:
    """Mean TTFT and mean latency of every schedule that no other one beats in both."""
    requests, count = instance.requests, len(instance)
    start = tuple(State(wake_s=float(r)) for r in instance.release_s)
    queue: list[tuple[float, float, float, States]] = [(0.0, 0.0, 0.0, start)]
    kept: dict[States, list[tuple[float, float]]] = {}
    ended: list[tuple[float, float]] = []
    while queue:
        now, ttft, latency, states = heapq.heappop(queue)
        front = kept.setdefault(states, [])  # as times ascend these are reached no later
        if any(first <= ttft and whole <= latency for first, whole in front):
            continue
        front.append((ttft, latency))
        if all(s.made == r.output_tokens for s, r in zip(states, requests, strict=True)):
            ended.append((ttft / count, latency / count))
            continue
        for end, after in following(instance, now, states):
            first = whole = 0.0
            rows = zip(requests, instance.release_s, states, after, strict=True)
            for r, release, b, a in rows:
                first += float(end - release) * (b.made == 0 < a.made)
                whole += float(end - release) * (b.made < a.made == r.output_tokens)
            heapq.heappush(queue, (end, ttft + first, latency + whole, after))
    return [p for p in ended if not any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in ended)]
