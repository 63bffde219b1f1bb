"""Seeded random instances with everything in them, valid schedules and traces of them, and
mutants of these: one change each, which may or may not break a rule."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from optsched.instance import Call, Instance, Limits, Request
from optsched.schedule import Kind, Schedule, from_steps
from optsched.trace import Trace
from tests.check.runs import rows_of, schedule_of
from tests.tiny import LINEAR

CHAOS = 25  # batches after which a random schedule only works towards its end


def random_instance(rng: random.Random) -> Instance:
    """One to five requests with calls, arrivals, pages, host memory and tight limits."""
    requests = []
    for i in range(rng.randint(1, 5)):
        output = rng.randint(1, 7)
        turns = sorted(rng.sample(range(1, output), rng.randint(0, min(2, output - 1))))
        calls = [
            Call(
                after_tokens=k,
                duration_s=rng.choice([0.0, 0.5, 2.0]),
                response_tokens=rng.choice([0, 1, 3]),
            )
            for k in turns
        ]
        requests.append(
            Request(
                id=f"r{i}", prompt_tokens=rng.randint(1, 8), output_tokens=output,
                arrival_s=rng.choice([0.0, 0.0, 1.5, 4.0]), calls=tuple(calls),
            )
        )  # fmt: skip
    block = rng.choice([1, 1, 2, 3, 4])
    needs = [block * -(-r.final_tokens // block) for r in requests]
    kv_tokens = rng.randint(max(needs), max(sum(needs), max(needs) + 1))
    return Instance(
        name="random", cost=LINEAR, requests=tuple(requests),
        limits=Limits(
            kv_tokens=kv_tokens, batch_tokens=rng.randint(1, 12), block_tokens=block,
            prefill_tokens=rng.choice([None, rng.randint(1, 8)]),
            batch_requests=rng.choice([None, None, rng.randint(1, 3)]),
            host_kv_tokens=rng.choice([0, 5, 9, 30]),
        ),
    )  # fmt: skip


@dataclass
class Progress:
    """State of one request while a schedule is drawn."""

    request: Request
    s: int
    m: int = 0
    w: int = 0
    g: int = 0

    @property
    def finished(self) -> bool:
        return self.g == self.request.output_tokens

    def process(self, c: int) -> None:
        self.m += c
        if self.m < self.s:
            return
        self.s += 1
        self.g += 1
        self.s += sum(k.response_tokens for k in self.request.calls if k.after_tokens == self.g)


class Draw:
    """Draws legal actions batch by batch until every request is finished."""

    def __init__(self, instance: Instance, rng: random.Random) -> None:
        self.rng, self.limits = rng, instance.limits
        self.all = [Progress(request=r, s=r.prompt_tokens) for r in instance.requests]
        self.steps: list[tuple[int, int, int, int]] = []
        self.batch = 0
        # Some schedules decode whole stretches, others stop and move all the time.
        self.restless = rng.choice([0.0, 0.1, 0.5])

    def schedule(self) -> Schedule:
        while not all(p.finished for p in self.all):
            self.batch += 1
            self.draw_batch()
            for p in self.all:
                if p.finished:
                    p.m = p.w = 0
        return from_steps(self.steps)

    def kv(self) -> int:
        return sum(self.limits.pages(p.m) for p in self.all)

    def host(self) -> int:
        return sum(p.w for p in self.all)

    def note(self, i: int, kind: Kind, tokens: int = 0) -> None:
        self.steps.append((i, kind, self.batch, tokens))

    def draw_batch(self) -> None:
        rng, limits = self.rng, self.limits
        order = [i for i, p in enumerate(self.all) if not p.finished]
        rng.shuffle(order)
        calm = self.batch > CHAOS
        if calm:  # the most advanced first, so that it ends
            order.sort(key=lambda i: self.all[i].request.output_tokens - self.all[i].g)
        chosen = order[0]  # always processed, whatever must go for it
        moved = {i for i in order[1:] if not calm and self.move(i)}
        tokens, prefill, count = limits.batch_tokens, limits.fill_tokens, limits.batch_requests
        for i in order:
            p = self.all[i]
            idle = i != chosen and rng.random() < self.restless
            if i in moved or idle or count == 0:
                continue
            if i == chosen:
                self.make_room(i, order, moved)
            cached = p.m + p.w  # one of them is 0
            others = self.kv() - limits.pages(p.m)
            fits = (limits.kv_tokens - others) // limits.block_tokens * limits.block_tokens
            most = min(p.s - cached, fits - cached, tokens)
            decode = cached == p.s - 1 and cached >= p.request.prompt_tokens
            if not decode:
                most = min(most, prefill)
            if most < 1:
                continue
            c = rng.choice([most, most, rng.randint(1, most)])
            if p.w:
                self.note(i, Kind.SWAP_IN)
                p.m, p.w = p.w, 0
            self.note(i, Kind.PROCESS, c)
            p.process(c)
            tokens -= c
            prefill -= 0 if decode else c
            count = None if count is None else count - 1

    def move(self, i: int) -> bool:
        """Perhaps evict or swap the request; whether it did."""
        p, rng = self.all[i], self.rng
        if rng.random() > self.restless / 2:
            return False
        action = rng.choice([Kind.EVICT, Kind.SWAP_OUT, Kind.SWAP_IN])
        room = self.limits.host_kv_tokens - self.host()
        if action == Kind.EVICT and p.m + p.w > 0:
            p.m = p.w = 0
        elif action == Kind.SWAP_OUT and 0 < p.m <= room:
            p.w, p.m = p.m, 0
        elif action == Kind.SWAP_IN and 0 < p.w <= self.limits.kv_tokens - self.kv() - 4:
            p.m, p.w = p.w, 0
        else:
            return False
        self.note(i, action)
        return True

    def make_room(self, chosen: int, order: list[int], moved: set[int]) -> None:
        """Take KV from others until ``chosen`` can process all that a batch allows."""
        p, limits = self.all[chosen], self.limits
        want = limits.pages(min(p.s, p.m + p.w + limits.fill_tokens))
        arrived = {i for i in moved if self.all[i].m > 0}  # swapped in just now: taken back first
        for i in [*arrived, *order]:
            q = self.all[i]
            if want + self.kv() - limits.pages(p.m) <= limits.kv_tokens:
                return
            if i == chosen or q.m == 0:
                continue
            if i in arrived:
                self.steps.remove((i, Kind.SWAP_IN, self.batch, 0))
                q.w, q.m = q.m, 0
            elif self.rng.random() < 0.5 and q.m <= limits.host_kv_tokens - self.host():
                q.w, q.m = q.m, 0
                self.note(i, Kind.SWAP_OUT)
            else:
                q.m = 0
                self.note(i, Kind.EVICT)
            moved.add(i)


def random_valid(instance: Instance, rng: random.Random) -> Schedule:
    """A schedule that breaks no rule: chunks, holds, evicts and swaps at random."""
    return Draw(instance, rng).schedule()


def random_trace(instance: Instance, schedule: Schedule, rng: random.Random) -> Trace:
    """A valid trace of a valid schedule, with batch times and waits at random."""
    arrivals = [
        r.arrival_s - min(r.arrival_s for r in instance.requests) for r in instance.requests
    ]
    state = [Progress(request=r, s=r.prompt_tokens) for r in instance.requests]
    ready = list(arrivals)
    actions: dict[int, list[tuple[int, int, int]]] = {}
    for i, kind, first, batches, tokens in rows_of(schedule):
        for j in range(first, first + batches):
            actions.setdefault(j, []).append((i, kind, tokens))
    start, end, now = [], [], 0.0
    for j in range(1, schedule.batch_count + 1):
        batch = actions[j]
        now = max([now, *(ready[i] for i, kind, _ in batch if kind == Kind.PROCESS)])
        now += rng.choice([0.0, 0.0, 0.0, 0.25])
        start.append(now)
        now += rng.choice([0.125, 0.5, 1.0])
        end.append(now)
        for i, kind, tokens in sorted(batch, key=lambda action: action[1]):
            p = state[i]
            if kind == Kind.EVICT:
                p.m = p.w = 0
            elif kind in (Kind.SWAP_OUT, Kind.SWAP_IN):
                p.m, p.w = p.w, p.m
            else:
                before = p.g
                p.process(tokens)
                for call in p.request.calls:
                    if before < call.after_tokens == p.g:
                        ready[i] = now + call.duration_s
    nothing = np.full(len(instance), np.nan)
    return Trace(
        source="simulated", start_s=np.array(start), end_s=np.array(end), first_token_s=nothing,
        finish_s=nothing, pause_s=nothing,
    )  # fmt: skip


def mutant(schedule: Schedule, rng: random.Random) -> Schedule:
    """The schedule with one run changed, dropped or doubled, or the rest of it moved."""
    rows = rows_of(schedule)
    if not rows:
        return schedule
    at = rng.randrange(len(rows))
    request, kind, first, batches, tokens = rows[at]
    what = rng.choice(["request", "kind", "first", "batches", "tokens", "drop", "double", "later"])
    if what == "request":
        rows[at] = (rng.randint(0, int(schedule.request.max()) + 1), *rows[at][1:])
    elif what == "kind":
        changed = rng.choice(list(Kind))
        process = changed == Kind.PROCESS
        rows[at] = (
            request, changed, first, batches if process else 1, rng.randint(1, 4) * process
        )  # fmt: skip
    elif what == "first":
        rows[at] = (request, kind, max(1, first + rng.randint(-3, 3)), batches, tokens)
    elif what == "batches" and kind == Kind.PROCESS:
        rows[at] = (request, kind, first, max(1, batches + rng.randint(-3, 3)), tokens)
    elif what == "tokens" and kind == Kind.PROCESS:
        rows[at] = (request, kind, first, batches, max(0, tokens + rng.randint(-3, 3)))
    elif what == "drop":
        del rows[at]
    elif what == "double":
        rows.append(rows[at])
    elif what == "later":
        by = rng.randint(1, 2)
        rows = [(i, k, f + by if f >= first else f, n, c) for i, k, f, n, c in rows]
    return schedule_of(rows)


def tighter(instance: Instance, rng: random.Random) -> Instance:
    """The instance with one limit lowered."""
    limits = instance.limits
    name = rng.choice([*limits.__struct_fields__, "host_kv_tokens"])
    value = getattr(limits, name)
    lower = max(0 if name == "host_kv_tokens" else 1, (value or 4) - rng.randint(1, 5))
    return msgspec.structs.replace(
        instance, limits=msgspec.structs.replace(limits, **{name: lower})
    )


def moved_trace(trace: Trace, rng: random.Random) -> Trace:
    """The trace with one time moved, or its last batches missing."""
    start, end = trace.start_s.copy(), trace.end_s.copy()
    if not start.size or rng.random() < 0.1:
        keep = rng.randint(0, start.size)
        return replace(trace, start_s=start[:keep], end_s=end[:keep])
    at, by = rng.randrange(start.size), rng.choice([-2.0, -0.25, -1e-4, 1e-13, 0.25, 2.0])
    what = rng.choice(["start", "end", "both", "rest"])
    if what in ("start", "both"):
        start[at] += by
    if what in ("end", "both"):
        end[at] += by
    if what == "rest":
        start[at:] += by
        end[at:] += by
    return replace(trace, start_s=start, end_s=end)


def garbage(requests: int, rng: random.Random) -> Schedule:
    """Runs without sense, within what the record allows."""
    rows = []
    for _ in range(rng.randint(0, 14)):
        kind = rng.choice([Kind.PROCESS, Kind.PROCESS, *Kind])
        process = kind == Kind.PROCESS
        request = rng.randint(0, requests - (rng.random() < 0.9))
        batches, tokens = (rng.randint(1, 6), rng.randint(0, 5)) if process else (1, 0)
        rows.append((request, int(kind), rng.randint(1, 12), batches, tokens))
    return schedule_of(rows, waits=[(3, rng.choice([0.0, 9.0]))])
