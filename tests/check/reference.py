"""A slow second checker: one batch after the other, one request after the other.

It reads sections 2, 3 and 6 of the problem's definition literally, keeps every request's state in
plain Python numbers and shares no code with ``optsched.check``. How breaches are reported, and how
things go on after one, follows the conventions in the docstring of ``optsched.check``.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from optsched.instance import Instance, Request
from optsched.schedule import Kind, Schedule
from optsched.trace import Trace

Found = tuple[str, int | None, str | None, float]
Plan = dict[int, list[tuple[int, int, int]]]


@dataclass
class Life:
    """One request: s, m, w, g, and what the rules need to remember of its past."""

    request: Request
    s: int
    m: int = 0
    w: int = 0
    g: int = 0
    call_batch: int | None = None  # of the call that it has not resumed from
    call_s: float = 0.0
    handling: str = "preserve"  # since that call
    filling: bool = False
    begun: bool = False
    first_token: int | None = None  # the batch

    @property
    def finished(self) -> bool:
        return self.g == self.request.output_tokens


@dataclass
class Batch:
    """What one batch processed."""

    number: int
    tokens: int = 0
    prefill_tokens: int = 0
    prefills: int = 0
    decodes: int = 0


def violations(
    instance: Instance,
    schedule: Schedule,
    trace: Trace | None = None,
    policies: Collection[str] = (),
) -> list[Found]:
    """Every violation as (rule, batch, request, excess)."""
    return Reading(instance, schedule, trace, policies).found


class Reading:
    """One pass over a schedule."""

    def __init__(
        self,
        instance: Instance,
        schedule: Schedule,
        trace: Trace | None,
        policies: Collection[str],
    ) -> None:
        self.instance, self.trace, self.policies = instance, trace, policies
        self.found: list[Found] = []
        self.blamed: set[int] = set()  # runs that have broken `progress`
        self.overruns: dict[int, list[tuple[int, str]]] = {}
        self.slack = 0.0
        self.lives = [Life(request=r, s=r.prompt_tokens) for r in instance.requests]
        self.earliest = min(r.arrival_s for r in instance.requests)
        if trace is not None:
            times = [*trace.start_s.tolist(), *trace.end_s.tolist()]
            self.slack = 1e-9 * max([1.0, *(abs(time) for time in times)])
            self.check_clock(schedule, trace)
        self.play(self.plans(schedule), schedule.batch_count)

    def play(self, plans: list[Plan], last: int) -> None:
        idle: list[int] = []
        held: list[list[int]] = [[] for _ in self.lives]
        left: list[list[int]] = [[] for _ in self.lives]
        for j in range(1, last + 1):
            batch, acted = Batch(j), False
            for i, life in enumerate(self.lives):
                actions = plans[i].get(j, [])
                acted |= any(kind != Kind.PROCESS for kind, _, _ in actions)
                if not actions and life.m > 0 and not self.paused(life, j):
                    held[i].append(j)
                waits = life.begun and not life.finished and not self.paused(life, j)
                if waits and all(kind != Kind.PROCESS for kind, _, _ in actions):
                    left[i].append(j)
                for kind, tokens, run in actions:
                    self.act(life, kind, tokens, run, batch)
            if batch.tokens == 0:
                idle.append(j)
            if batch.tokens or acted:
                self.check_limits(batch)
            for life in self.lives:
                if life.finished:  # its KV counted in this batch and is released after it
                    life.m = life.w = 0
        for first, length in stretches(idle):
            self.say("progress", first, None, length)
        for overrun in self.overruns.values():
            self.say("completion", *overrun[0], len(overrun))
        for life, holds, gaps in zip(self.lives, held, left, strict=True):
            for first, length in stretches(holds):
                self.forbid("no-hold", first, life.request.id, length)
            for first, length in stretches(gaps):
                self.forbid("nonpreemptive", first, life.request.id, length)
            if not life.finished:
                missing = life.request.output_tokens - life.g
                self.say("completion", None, life.request.id, missing)
        self.check_order(last)

    def say(self, rule: str, batch: int | None, request: str | None, excess: float) -> None:
        self.found.append((rule, batch, request, excess))

    def forbid(self, policy: str, batch: int, request: str | None, excess: float) -> None:
        if policy in self.policies:
            self.say(policy, batch, request, excess)

    def plans(self, schedule: Schedule) -> list[Plan]:
        """For every request and batch, the actions (kind, tokens, run) that it takes there."""
        plans: list[Plan] = [{} for _ in self.lives]
        rows = zip(
            schedule.request.tolist(), schedule.kind.tolist(), schedule.first_batch.tolist(),
            schedule.batches.tolist(), schedule.tokens.tolist(), strict=True,
        )  # fmt: skip
        for run, (i, kind, first, batches, tokens) in enumerate(rows):
            if i >= len(self.lives):
                rule = "progress" if kind == Kind.PROCESS else "residency"
                self.say(rule, first, None, max(tokens, 1))
                continue
            if kind == Kind.PROCESS and tokens == 0:
                self.say("progress", first, self.lives[i].request.id, 1)
                continue
            shared = []
            for j in range(first, first + batches):
                taken = [other for other, _, _ in plans[i].get(j, [])]
                if not taken or (kind == Kind.PROCESS and taken == [Kind.SWAP_IN]):
                    plans[i].setdefault(j, []).append((kind, tokens, run))
                else:
                    shared.append(j)
            if shared:
                self.say("residency", shared[0], self.lives[i].request.id, len(shared))
        return plans

    def act(self, life: Life, kind: int, tokens: int, run: int, batch: Batch) -> None:
        name = life.request.id
        if kind == Kind.PROCESS:
            self.process(life, tokens, run, batch)
        elif kind == Kind.EVICT and life.m + life.w > 0:
            self.forbid("no-evict", batch.number, name, life.m + life.w)
            life.m = life.w = 0
            life.handling = "discard"
            life.filling = False
        elif kind == Kind.SWAP_OUT and life.m > 0:
            self.forbid("no-swap", batch.number, name, life.m)
            life.w, life.m = life.m, 0
            life.handling = "swap"
        elif kind == Kind.SWAP_IN and life.w > 0:
            self.forbid("no-swap", batch.number, name, life.w)
            life.m, life.w = life.w, 0
        else:
            self.say("residency", batch.number, name, 1)

    def process(self, life: Life, tokens: int, run: int, batch: Batch) -> None:
        name, j = life.request.id, batch.number
        if life.finished:
            self.overruns.setdefault(run, []).append((j, name))
            return
        if life.w > 0:
            self.say("residency", j, name, life.w)
            self.forbid("no-swap", j, name, life.w)
            life.m, life.w = life.w, 0
        self.check_start(life, j)
        left = life.s - life.m
        if tokens > left and run not in self.blamed:
            self.blamed.add(run)
            self.say("progress", j, name, tokens - left)
        c = min(tokens, left)
        batch.tokens += c
        if c == 1 and life.m == life.s - 1 and life.m >= life.request.prompt_tokens:
            batch.decodes += 1
        else:
            batch.prefills += 1
            batch.prefill_tokens += c
        life.m += c
        if c < left:
            if not life.filling:
                self.forbid("no-chunk", j, name, left - c)
                self.forbid("nonpreemptive", j, name, left - c)
            life.filling = True
            return
        life.filling = False
        life.first_token = life.first_token or j
        life.g += 1
        life.s += 1
        for call in life.request.calls:
            if call.after_tokens == life.g:
                life.s += call.response_tokens
                life.call_batch, life.call_s = j, call.duration_s
                life.handling = "preserve"

    def check_order(self, last: int) -> None:
        """``fcfs``: how far each first token is ahead of those of requests that arrived before."""
        for later in self.lives:
            if later.first_token is None:
                continue
            ahead = [
                (earlier.first_token or last + 1) - later.first_token
                for earlier in self.lives
                if earlier.request.arrival_s < later.request.arrival_s
            ]
            if max(ahead, default=0) > 0:
                self.forbid("fcfs", later.first_token, later.request.id, max(ahead))

    def check_start(self, life: Life, j: int) -> None:
        """``arrival`` and ``pause``, where the request begins and where it resumes."""
        trace, name = self.trace, life.request.id
        if life.call_batch is not None and j > life.call_batch + 1:
            own = [p for p in self.policies if p.endswith(f":{name}")]
            for policy in own or [p for p in self.policies if ":" not in p]:
                handling = policy.split(":")[0]
                if handling in ("preserve", "discard", "swap") and handling != life.handling:
                    self.say(handling, j, name, 1)
        if trace is not None and j <= trace.start_s.size:
            start = float(trace.start_s[j - 1])
            early = life.request.arrival_s - self.earliest - start
            if not life.begun and early > self.slack:
                self.say("arrival", j, name, early)
            if life.call_batch is not None:
                early = float(trace.end_s[life.call_batch - 1]) + life.call_s - start
                if early > self.slack:
                    self.say("pause", j, name, early)
        life.begun = True
        life.call_batch = None

    def paused(self, life: Life, j: int) -> bool:
        if life.call_batch is None or life.call_s == 0:
            return False
        if self.trace is None or life.call_batch > self.trace.start_s.size:
            return True
        back = float(self.trace.end_s[life.call_batch - 1]) + life.call_s
        latest_start = float(self.trace.start_s[:j].max())
        return latest_start < back

    def check_limits(self, batch: Batch) -> None:
        limits, j = self.instance.limits, batch.number
        b = limits.block_tokens
        kv = sum(b * -(-life.m // b) for life in self.lives)
        host = sum(life.w for life in self.lives)
        for rule, used, limit in (
            ("kv_capacity", kv, limits.kv_tokens),
            ("batch_tokens", batch.tokens, limits.batch_tokens),
            ("prefill_tokens", batch.prefill_tokens, limits.prefill_tokens),
            ("batch_requests", batch.prefills + batch.decodes, limits.batch_requests),
            ("host_capacity", host, limits.host_kv_tokens),
        ):
            if limit is not None and used > limit:
                self.say(rule, j, None, used - limit)
        if batch.prefills and batch.decodes:
            self.forbid("no-hybrid", j, None, min(batch.prefills, batch.decodes))

    def check_clock(self, schedule: Schedule, trace: Trace) -> None:
        start, end = trace.start_s.tolist(), trace.end_s.tolist()
        if len(start) != schedule.batch_count:
            self.say("clock", None, None, abs(len(start) - schedule.batch_count))
        for j in range(1, len(start) + 1):
            early = [start[j - 1] - end[j - 1]]
            if j > 1:
                early.append(end[j - 2] - start[j - 1])
            waits = zip(schedule.wait_batch.tolist(), schedule.wait_until_s.tolist(), strict=True)
            early += [until - start[j - 1] for batch, until in waits if batch == j]
            for excess in early:
                if excess > self.slack:
                    self.say("clock", j, None, excess)


def stretches(batches: list[int]) -> list[tuple[int, int]]:
    """First and length of each stretch of consecutive numbers in a rising list."""
    found: list[tuple[int, int]] = []
    for j in batches:
        if found and j == sum(found[-1]):
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((j, 1))
    return found
