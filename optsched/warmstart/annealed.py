"""Annealing over orders of requests, for non-preemptive schedules in rounds.

An order becomes a schedule by placing one request after the other at the earliest round from which
it fits beside those already placed, until it ends. A step moves a request to another place of the
order or swaps two; it is accepted if mean latency does not rise, or by chance.

What has been placed only grows, so a request that holds at least as much for at least as long as
one placed before it cannot start earlier than that. And if a request that starts after round k
would not fit in a round, it does not fit for any start until it is small enough in that round.
"""

from __future__ import annotations

import math
import random
import time
from bisect import bisect_right
from collections.abc import Sequence

import numpy as np

from optsched.errors import UnsupportedError
from optsched.instance import Instance, require_feasible
from optsched.model.hindsight import Rounds, rounds_of
from optsched.model.hindsight_program import schedule_of_starts
from optsched.schedule import Schedule

_STEPS_PER_REQUEST = 400
_FIRST_RISE = 0.003  # of the sum of latencies, that is accepted about every third time at first
_MOST_CELLS = 10**7  # requests times rounds, which are kept for every position
_CHECKED = 64  # steps between two looks at the clock


def annealed(
    instance: Instance, /, *, seed: int = 0, steps: int | None = None,
    deadline: float | None = None,
) -> Schedule:  # fmt: skip
    """A non-preemptive schedule of small mean latency.

    Parameters
    ----------
    instance : Instance
        One that :func:`optsched.model.hindsight.covers`.
    steps : int, optional
        By default 400 per request.
    deadline : float, optional
        On the monotonic clock; the schedule then depends on how fast the machine is.

    Raises
    ------
    UnsupportedError
        Batches do not all take equally long, or something but KV is limited.
    InfeasibleError
        A request cannot run even alone.
    """
    rounds = rounds_of(instance)
    limits = instance.limits
    require_feasible(instance, ("no-chunk",))
    if int(instance.prompt_tokens.sum()) > limits.fill_tokens or limits.batch_requests is not None:
        raise UnsupportedError("annealing in rounds knows no limit but kv_tokens")
    if len(instance) * rounds.horizon > _MOST_CELLS:
        raise UnsupportedError(f"{len(instance)} requests are too many to anneal in rounds")
    kinds = np.repeat(np.arange(len(rounds.types)), rounds.count)
    by_area = kinds[np.argsort(rounds.kv_rounds[kinds], kind="stable")].tolist()
    orders = [by_area, kinds[np.argsort(rounds.output[kinds], kind="stable")].tolist()]
    placing = _Placing(rounds, len(kinds))
    order = min(orders, key=lambda tried: placing.total(tried, 0))
    placing.total(order, 0)
    steps = _STEPS_PER_REQUEST * len(kinds) if steps is None else steps
    order, starts = _anneal(placing, order, random.Random(seed), steps, deadline)
    members = [list(kind.members) for kind in rounds.types]
    request = np.array([members[kind].pop() for kind in order])
    return schedule_of_starts(instance, request, np.array(starts))


def _anneal(
    placing: _Placing, order: list[int], rng: random.Random, steps: int, deadline: float | None
) -> tuple[list[int], list[int]]:
    """The best order found and its starts."""
    total = least = placing.total(order, 0)
    best, starts = order, placing.starts[:]
    scale = _FIRST_RISE * total
    begin, spent = time.monotonic(), 0.0
    for step in range(steps):
        if step % _CHECKED == 0 and deadline is not None:
            # Cool down in time if there is none for all steps.
            spent = (time.monotonic() - begin) / max(deadline - begin, 1e-9)
            if spent >= 1:
                break
        a, b = rng.randrange(len(order)), rng.randrange(len(order))
        tried = order[:]
        if rng.random() < 0.5:
            tried[a], tried[b] = order[b], order[a]
        else:
            tried.insert(b, tried.pop(a))
        if tried == order:
            continue
        changed = min(a, b)
        found = placing.total(tried, changed)
        heat = max(scale * (1 - max(step / steps, spent)) ** 2, 1e-9)
        if found <= total or rng.random() < math.exp((total - found) / heat):
            order, total = tried, found
        else:
            placing.restore()
        if found < least:
            best, least, starts = tried, found, placing.starts[:]
    return best, starts


class _Placing:
    """Places orders of types, each from the first position at which it differs from the last.

    Attributes
    ----------
    starts : list of int
        Round after which the request at each position starts.
    """

    def __init__(self, rounds: Rounds, requests: int) -> None:
        self.starts = [0] * requests
        self._capacity = rounds.instance.limits.kv_tokens
        self._kv: list[list[int]] = [rounds.kv_of(k).tolist() for k in range(len(rounds.types))]
        self._release: list[int] = rounds.release.tolist()
        shapes = list(zip(rounds.prompt, rounds.output, rounds.release, strict=True))
        self._smaller = [
            [
                k
                for k, other in enumerate(shapes)
                if all(x <= y for x, y in zip(other, mine, strict=True))
            ]
            for mine in shapes
        ]
        held = [0] * (rounds.horizon + 1)
        # What is held, and the latest start of each type, before each position.
        self._held = [held[:] for _ in range(requests + 1)]
        self._latest = [[0] * len(self._kv) for _ in range(requests + 1)]
        self._latency = [0] * (requests + 1)
        self._undo: tuple[int, list[int], list[list[int]], list[list[int]], list[int]] | None = None

    def total(self, order: Sequence[int], changed: int) -> int:
        """Sum of latencies of an order equal to the last one before position ``changed``."""
        self._undo = (
            changed, self.starts[changed:], self._held[changed + 1 :],
            self._latest[changed + 1 :], self._latency[changed + 1 :],
        )  # fmt: skip
        for position in range(changed, len(order)):
            kind = order[position]
            held, latest = self._held[position][:], self._latest[position][:]
            kv = self._kv[kind]
            first = max([self._release[kind], *[latest[k] for k in self._smaller[kind]]])
            start = self._first_fit(held, kv, first)
            for age, tokens in enumerate(kv):
                held[start + age] += tokens
            latest[kind] = max(latest[kind], start)
            self.starts[position] = start
            self._held[position + 1], self._latest[position + 1] = held, latest
            self._latency[position + 1] = (
                self._latency[position] + start + len(kv) - self._release[kind]
            )
        return self._latency[len(order)]

    def restore(self) -> None:
        """Undo the last call of :meth:`total`."""
        assert self._undo is not None
        changed, starts, held, latest, latency = self._undo
        self.starts[changed:] = starts
        self._held[changed + 1 :], self._latest[changed + 1 :] = held, latest
        self._latency[changed + 1 :] = latency

    def _first_fit(self, held: list[int], kv: list[int], start: int) -> int:
        """The first round, from ``start`` on, after which this KV fits."""
        last = len(kv) - 1
        while True:
            for age in range(last, -1, -1):
                free = self._capacity - held[start + age]
                if kv[age] > free:
                    # Small enough in that round only if it starts so much later.
                    start += age - bisect_right(kv, free) + 1
                    break
            else:
                return start
