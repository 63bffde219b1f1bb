"""Every scheduler once more, batch by batch and request by request: slow, and nothing shared with
``optsched.warmstart`` but the names.

Written from the rules as they are stated: one list of running and one of waiting requests, every
request visited in every batch, memory added up anew for every question.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil

from optsched.instance import Instance
from optsched.schedule import Kind, Schedule, from_steps


@dataclass
class R:
    """A request's state."""

    at: int  # its position in the instance
    arrival: tuple[float, int]
    I: int  # noqa: E741
    O: int  # noqa: E741
    g: int = 0
    m: int = 0
    reserved: int = 0  # tokens reserved at admission
    admitted: int = 0

    @property
    def s(self) -> int:
        return self.I + self.g

    @property
    def decodes(self) -> bool:
        return self.g > 0 and self.m == self.s - 1


@dataclass
class Now:
    """The batch being formed."""

    steps: list[tuple[R, int]] = field(default_factory=list)
    evicted: list[R] = field(default_factory=list)

    @property
    def tokens(self) -> int:
        return sum(c for _, c in self.steps)

    @property
    def prefill(self) -> int:
        return sum(c for r, c in self.steps if not r.decodes)

    @property
    def has_decode(self) -> bool:
        return any(r.decodes for r, _ in self.steps)

    def has(self, r: R) -> bool:
        return any(r is x for x, _ in self.steps)


class Reference:
    """One run of one scheduler."""

    def __init__(self, name: str, instance: Instance) -> None:
        self.ef = name.endswith("-ef")
        self.name = name.removesuffix("-ef")
        limits = instance.limits
        self.cost = instance.cost
        self.b = limits.block_tokens
        self.C = limits.batch_tokens
        self.P = min(self.C, limits.prefill_tokens or self.C)
        if self.name == "sarathi":
            self.P = min(self.P, 512)
        self.most = limits.batch_requests or len(instance)
        self.M = limits.kv_tokens // self.b * self.b
        largest = max(self.pages(r.final_tokens) for r in instance.requests)
        if self.name == "vllm-v1" and self.b > 1 and largest <= self.M - self.b:
            self.M -= self.b
        first = min(r.arrival_s for r in instance.requests)
        self.coming = [
            R(at=i, arrival=(r.arrival_s - first, i), I=r.prompt_tokens, O=r.output_tokens)
            for i, r in enumerate(instance.requests)
        ]
        self.coming.sort(key=lambda r: r.arrival)
        self.waiting: list[R] = []
        self.running: list[R] = []
        self.finished: list[R] = []
        self.clock = 0.0
        self.admissions = 0
        self.hybrid = self.name not in ("vllm", "sarathi-nohy")
        whole = ("vllm", "vllm-hy", "sarathi-nocp", "sarathi-nohy", "mc-sf", "mc-fcfs")
        self.chunked = self.name not in whole
        self.steps: list[tuple[int, int, int, int]] = []

    def schedule(self) -> Schedule:
        """Run to the end."""
        batch = 0
        while self.coming or self.waiting or self.running:
            if not self.waiting and not self.running:
                self.clock = max(self.clock, self.coming[0].arrival[0])
            while self.coming and self.coming[0].arrival[0] <= self.clock:
                self.waiting.append(self.coming.pop(0))
            batch += 1
            now = Now()
            self.form(now)
            assert now.steps, f"{self.name}: batch {batch} is empty"
            self.clock += self.time(now)
            for r in now.evicted:
                self.steps.append((r.at, Kind.EVICT, batch, 0))
            for r, c in now.steps:
                self.steps.append((r.at, Kind.PROCESS, batch, c))
                r.m += c
                if r.m == r.s:
                    r.g += 1
                if r.decodes and not self.ef:
                    r.reserved = 0
            for r in [r for r in self.running if r.g == r.O]:
                self.running.remove(r)
                self.finished.append(r)
        return from_steps(self.steps)

    def time(self, now: Now) -> float:
        """Batch time, step by step."""
        cost = self.cost
        decode = [r.m for r, c in now.steps if c == 1 and r.m == r.s - 1 and r.m >= r.I]
        rest = [(c, r.m) for r, c in now.steps if not (c == 1 and r.m == r.s - 1 and r.m >= r.I)]
        t = max(a + b * now.tokens for a, b in cost.pieces)
        if decode:
            t += cost.d0 + sum(cost.d_kv * m + cost.d_req for m in decode)
        if rest:
            t += cost.p0 + sum(
                cost.p_sq * c * c + cost.mixed * m * c + cost.p_kv * m + cost.p_req for c, m in rest
            )
        return t

    # Memory, in tokens of whole pages.
    def pages(self, tokens: int) -> int:
        return ceil(tokens / self.b) * self.b

    def holds(self, r: R, now: Now) -> int:
        """KV of a running request after this batch."""
        after = r.m + sum(c for x, c in now.steps if x is r)
        return self.pages(max(after, r.reserved))

    def free(self, now: Now) -> int:
        return self.M - sum(self.holds(r, now) for r in self.running)

    def order(self, r: R) -> tuple[float, ...]:
        """Place of a running request."""
        if self.name == "vllm-v1":
            return (r.admitted,)
        if self.name in ("infermax", "pair"):
            return (-r.m, *r.arrival)
        return self.rank(r)

    def rank(self, r: R) -> tuple[float, ...]:
        """Place of a waiting request in a ranked queue."""
        key = {"rank-i": r.I, "rank-o": r.O, "mc-sf": r.O}.get(self.name, 0)
        return (key, *r.arrival)

    def evict(self, r: R, now: Now) -> None:
        self.running.remove(r)
        now.evicted.append(r)
        r.m = r.reserved = 0
        self.waiting.insert(0, r)

    def chunk(self, r: R, now: Now) -> int:
        if not self.hybrid and now.has_decode:
            return 0
        counted = now.prefill if self.name == "vllm-v1" else now.tokens
        left = min(self.C - now.tokens, self.P - counted)
        if self.chunked:
            return max(0, min(r.s - r.m, left))
        c = min(r.s - r.m, self.P)
        return c if c <= left else 0

    def form(self, now: Now) -> None:
        if self.name.startswith("rank"):
            self.ranked(now)
        elif self.name in ("vllm", "vllm-hy"):
            if self.go_on(now):
                self.admit(now)
            if self.hybrid or not now.prefill:
                self.decode(now)
        else:
            self.decode(now)
            if self.go_on(now) and not (self.name == "vllm-v1" and now.evicted):
                self.admit(now)

    def decode(self, now: Now) -> None:
        for r in sorted((r for r in self.running if r.decodes), key=self.order):
            if r in self.running and now.tokens < self.C:
                self.decode_one(r, now)

    def decode_one(self, r: R, now: Now) -> None:
        grows = 0 if self.ef else self.pages(r.m + 1) - self.pages(r.m)
        while grows > self.free(now):
            victim = max((x for x in self.running if not now.has(x)), key=self.order)
            if self.order(victim) < self.order(r):
                victim = r
            self.evict(victim, now)
            if victim is r:
                return
        now.steps.append((r, 1))

    def go_on(self, now: Now) -> bool:
        """Unfinished fills; True if waiting requests may follow."""
        for r in sorted((r for r in self.running if not r.decodes), key=self.order):
            c = self.chunk(r, now)
            if c == 0:
                return False
            if self.name == "vllm-v1" and self.pages(r.m + c) - self.pages(r.m) > self.free(now):
                self.evict(max(self.running, key=self.order), now)
                return False
            now.steps.append((r, c))
        return True

    def admit(self, now: Now) -> None:
        while self.waiting and len(self.running) < self.most:
            r = min(self.waiting, key=self.rank) if self.name == "mc-sf" else self.waiting[0]
            if r in now.evicted or not (c := self.chunk(r, now)):
                return
            if self.asks(r, c) > self.free(now) or not self.sustainable(r, c, now):
                return
            self.start(r, c, now)

    def asks(self, r: R, c: int) -> int:
        """KV that must be free."""
        if self.ef:
            return self.pages(r.I + r.O - 1)
        if self.name == "vllm-v1":
            return self.pages(c)
        if self.name == "infermax":
            like = [x for x in self.finished if len(bin(x.I)) == len(bin(r.I))]
            mean = ceil(sum(x.I + x.O - 1 for x in like) / len(like)) if like else 0
            return min(self.pages(max(r.s, mean)), self.M)
        return self.pages(r.s)

    def start(self, r: R, c: int, now: Now) -> None:
        self.waiting.remove(r)
        self.admissions += 1
        r.admitted = self.admissions
        r.reserved = r.I + r.O - 1 if self.ef else 0 if self.name == "vllm-v1" else r.s
        self.running.append(r)
        now.steps.append((r, c))

    def sustainable(self, r: R, c: int, now: Now) -> bool:
        """mc-*: let everything run on in imagination, one token per batch."""
        if not self.name.startswith("mc") or c < r.s:
            return True
        others = [(x.m + c, x.O - x.g) for x, c in now.steps]  # KV after this batch, batches left
        alive = [*others, (r.s, r.O)]
        while alive:
            if sum(self.pages(kv) for kv, _ in alive) > self.M:
                return False
            alive = [(kv + 1, left - 1) for kv, left in alive if left > 1]
        return True

    def ranked(self, now: Now) -> None:
        admitting = True
        # Evictions and admissions move requests between the two lists, but visit nobody twice.
        for r in sorted(self.running + self.waiting, key=self.rank):
            if any(r is x for x in self.running):
                if r.decodes:
                    if now.tokens < self.C:
                        self.decode_one(r, now)
                        admitting = admitting and r in self.running
                elif c := self.chunk(r, now):
                    now.steps.append((r, c))
            elif admitting:
                admitting = r not in now.evicted and self.admit_ranked(r, now)

    def admit_ranked(self, r: R, now: Now) -> bool:
        c = self.chunk(r, now)
        behind = [x for x in self.running if self.rank(x) > self.rank(r)]
        obtainable = self.free(now) + sum(self.holds(x, now) for x in behind)
        if not c or len(self.running) >= self.most or obtainable < self.pages(r.s):
            return False
        while self.pages(r.s) > self.free(now):
            self.evict(max(self.running, key=self.rank), now)
        self.start(r, c, now)
        return True
