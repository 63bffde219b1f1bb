"""Seeded random instances with calls, swapping and pages, and random valid schedules of them."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from optsched.instance import Call, Instance, Limits, Request
from optsched.schedule import Kind, Schedule, from_steps
from tests.tiny import random_cost


def random_request(rng: random.Random, name: str) -> Request:
    """A request with up to three calls, with and without responses."""
    output = rng.choice([1, 2, rng.randint(1, 12), rng.randint(1, 12)])
    points = sorted(rng.sample(range(1, output), min(output - 1, rng.choice([0, 0, 1, 2, 3]))))
    return Request(
        id=name,
        prompt_tokens=rng.choice([1, 2, rng.randint(1, 15)]),
        output_tokens=output,
        arrival_s=rng.choice([0.0, 0.0, 0.25, 1.0, rng.random()]),
        calls=tuple(
            Call(
                after_tokens=k,
                duration_s=rng.choice([0.0, 0.01, rng.random()]),
                response_tokens=rng.choice([0, 0, 1, 2, rng.randint(0, 9)]),
            )
            for k in points
        ),
    )


def random_call_instance(rng: random.Random) -> Instance:
    """An instance in which every request can run alone."""
    requests = tuple(random_request(rng, f"r{i}") for i in range(rng.randint(1, 5)))
    block = rng.choice([1, 1, 2, 3, 5])
    needs = [block * -(-r.final_tokens // block) for r in requests]
    cost = random_cost(rng)
    return Instance(
        name="random",
        limits=Limits(
            kv_tokens=rng.randint(max(needs), sum(needs)),
            batch_tokens=rng.choice([1, rng.randint(1, 20), 4096]),
            block_tokens=block,
            host_kv_tokens=rng.choice([0, rng.randint(1, 40), 1000]),
        ),
        cost=msgspec.structs.replace(
            cost, swap_tok=rng.choice([0.0, 2e-5, 1e-2]), p_mc=rng.choice([None, 0.0, 1e-4])
        ),
        requests=requests,
    )


@dataclass(frozen=True)
class Body:
    """One request as the generator sees it: known, cached, swapped, generated tokens."""

    request: Request
    known: int
    cached: int = 0
    swapped: int = 0
    generated: int = 0

    @property
    def finished(self) -> bool:
        return self.generated == self.request.output_tokens

    def fed(self, tokens: int) -> Body:
        """After processing ``tokens``."""
        cached = self.cached + tokens
        if cached < self.known:
            return replace(self, cached=cached)
        generated = self.generated + 1
        response = sum(c.response_tokens for c in self.request.calls if c.after_tokens == generated)
        return replace(self, cached=cached, known=self.known + 1 + response, generated=generated)


class Walk:
    """A schedule in the making: the requests before the current batch, what those that have acted
    in it are after it (``acted``), and all steps (request, kind, batch, tokens) so far."""

    def __init__(self, rng: random.Random, instance: Instance) -> None:
        self.rng = rng
        self.limits = instance.limits
        self.bodies = [Body(r, r.prompt_tokens) for r in instance.requests]
        self.acted: dict[int, Body] = {}
        self.steps: list[tuple[int, int, int, int]] = []
        self.batch = 0
        self.budget = 0
        # Habits of this schedule, so that not all of them look alike.
        self.whole, self.hold, self.swap = rng.random(), 0.6 * rng.random(), rng.random()
        self.leave = rng.choice([0.0, 0.05, 0.2])

    def unfinished(self) -> list[int]:
        return [i for i, body in enumerate(self.bodies) if not body.finished]

    def overfull(self) -> bool:
        """Whether the KV cache overflows if nothing else happens in this batch."""
        bodies = [self.acted.get(i, self.bodies[i]) for i in self.unfinished()]
        return sum(self.limits.pages(body.cached) for body in bodies) > self.limits.kv_tokens

    def step(self, i: int, kind: Kind, tokens: int, after: Body) -> None:
        self.steps.append((i, kind, self.batch, tokens))
        self.acted[i] = after

    def feed(self, i: int, may_only_swap_in: bool) -> None:
        """Process some tokens of a request, after swapping it in if need be."""
        body = self.bodies[i]
        if body.swapped:
            body = replace(body, cached=body.swapped, swapped=0)
            self.step(i, Kind.SWAP_IN, 0, body)
            if may_only_swap_in and self.rng.random() < 0.3:
                return
        most = min(self.budget, body.known - body.cached)
        tokens = most if self.rng.random() < self.whole else self.rng.randint(1, most)
        self.step(i, Kind.PROCESS, tokens, body.fed(tokens))
        self.budget -= tokens

    def put_away(self, i: int) -> None:
        """Swap a request out if there is room for it, or evict it."""
        body = self.bodies[i]
        host = sum(self.acted.get(k, b).swapped for k, b in enumerate(self.bodies))
        fits = not body.swapped and host + body.cached <= self.limits.host_kv_tokens
        if fits and self.rng.random() < self.swap:
            self.step(i, Kind.SWAP_OUT, 0, replace(body, cached=0, swapped=body.cached))
        else:
            self.step(i, Kind.EVICT, 0, replace(body, cached=0, swapped=0))

    def next_batch(self) -> None:
        """One batch: a request that surely proceeds, and the others as they like and fit."""
        self.batch += 1
        self.budget = self.limits.batch_tokens
        # After a while the requests finish one after the other, so that the walk ends.
        orderly = self.batch > 60
        others = self.unfinished()
        first = others.pop(0 if orderly else self.rng.randrange(len(others)))
        self.rng.shuffle(others)
        self.feed(first, may_only_swap_in=False)
        for i in others:
            has_kv = self.bodies[i].cached or self.bodies[i].swapped
            if has_kv and not orderly and self.rng.random() < self.leave:
                self.put_away(i)
            elif self.budget and self.rng.random() > self.hold:
                undo = len(self.steps), self.budget
                self.feed(i, may_only_swap_in=True)
                if self.overfull():
                    del self.steps[undo[0] :], self.acted[i]
                    self.budget = undo[1]
        for i in others:
            if self.overfull() and i not in self.acted and self.bodies[i].cached:
                self.put_away(i)
        for i, body in self.acted.items():
            self.bodies[i] = body
        self.acted = {}


def random_schedule(rng: random.Random, instance: Instance) -> Schedule:
    """A valid schedule: chunks of any size, hybrid batches, holds, evictions and swaps of
    whatever is cached, whether there is need or not; runs cut anyhow; deliberate waits."""
    walk = Walk(rng, instance)
    while walk.unfinished():
        walk.next_batch()
    return with_waits(rng, recut(rng, from_steps(walk.steps)))


def waiting(schedule: Schedule, *waits: tuple[int, float]) -> Schedule:
    """The same schedule with waits (batch, not before)."""
    return replace(
        schedule,
        wait_batch=np.array([batch for batch, _ in waits], dtype=np.int64),
        wait_until_s=np.array([until for _, until in waits], dtype=np.float64),
    )


def with_waits(rng: random.Random, schedule: Schedule) -> Schedule:
    """The same schedule with up to two deliberate waits."""
    count = rng.choice([0, 0, 1, 2])
    return waiting(
        schedule,
        *((rng.randint(1, schedule.batch_count), rng.random() * 2) for _ in range(count)),
    )


def recut(rng: random.Random, schedule: Schedule) -> Schedule:
    """The same schedule with some runs cut in two, in another order."""
    rows = []
    for row in zip(
        schedule.request.tolist(), schedule.kind.tolist(), schedule.first_batch.tolist(),
        schedule.batches.tolist(), schedule.tokens.tolist(), strict=True,
    ):  # fmt: skip
        request, kind, first, batches, tokens = row
        if batches > 1 and rng.random() < 0.2:
            left = rng.randint(1, batches - 1)
            rows.append((request, kind, first, left, tokens))
            rows.append((request, kind, first + left, batches - left, tokens))
        else:
            rows.append(row)
    rng.shuffle(rows)
    return from_rows(rows)


def from_rows(rows: list[tuple[int, int, int, int, int]]) -> Schedule:
    """Schedule from rows (request, kind, first batch, batches, tokens)."""
    table = np.array(rows, dtype=np.int64).reshape(-1, 5)
    request, kind, first_batch, batches, tokens = table.T
    return Schedule(
        request=request, kind=kind, first_batch=first_batch, batches=batches, tokens=tokens
    )


def mutated(rng: random.Random, schedule: Schedule) -> Schedule:
    """The same schedule with one or two runs dropped, doubled or changed in one column."""
    rows = list(
        zip(
            schedule.request.tolist(), schedule.kind.tolist(), schedule.first_batch.tolist(),
            schedule.batches.tolist(), schedule.tokens.tolist(), strict=True,
        )
    )  # fmt: skip
    for _ in range(rng.choice([1, 1, 2])):
        at = rng.randrange(len(rows))
        request, kind, first, batches, tokens = rows[at]
        how = rng.randrange(6)
        if how == 0 and len(rows) > 1:
            del rows[at]
        elif how == 1:
            rows.append((request, kind, first + rng.choice([0, 1, batches]), batches, tokens))
        elif how == 2:
            rows[at] = (request, kind, max(1, first + rng.choice([-1, 1])), batches, tokens)
        elif how == 3 and kind == Kind.PROCESS:
            rows[at] = (request, kind, first, max(1, batches + rng.choice([-1, 1])), tokens)
        elif how == 4 and kind == Kind.PROCESS:
            rows[at] = (request, kind, first, batches, max(0, tokens + rng.choice([-1, 1, 3])))
        else:
            other = rng.choice([Kind.EVICT, Kind.SWAP_IN, Kind.SWAP_OUT])
            rows[at] = (rng.choice([request, 0]), other, first, 1, 0)
    return from_rows(rows)
