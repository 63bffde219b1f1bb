"""Schedules of a tiny instance that no other one beats in two objectives at once."""

from __future__ import annotations

import heapq

from optsched.instance import Instance
from tests.oracle_by_the_rules import States, after_batch, every_action, finished, initial


def frontier(instance: Instance) -> list[tuple[float, float]]:
    """Mean TTFT and mean latency of every schedule that no other one beats in both."""
    requests, count = instance.requests, len(instance)
    queue: list[tuple[float, float, float, States]] = [(0.0, 0.0, 0.0, initial(instance))]
    kept: dict[States, list[tuple[float, float]]] = {}
    ended: list[tuple[float, float]] = []
    while queue:
        now, ttft, latency, states = heapq.heappop(queue)
        front = kept.setdefault(states, [])  # as times ascend these are reached no later
        if any(first <= ttft and whole <= latency for first, whole in front):
            continue
        front.append((ttft, latency))
        if finished(instance, states):
            ended.append((ttft / count, latency / count))
            continue
        for actions in every_action(instance, states):
            result = after_batch(instance, now, states, actions)
            if result is None:
                continue
            end, after = result
            first = whole = 0.0
            rows = zip(requests, instance.release_s, states, after, strict=True)
            for r, release, b, a in rows:
                first += float(end - release) * (b.g == 0 < a.g)
                whole += float(end - release) * (b.g < a.g == r.output_tokens)
            heapq.heappush(queue, (end, ttft + first, latency + whole, after))
    return [p for p in ended if not any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in ended)]
