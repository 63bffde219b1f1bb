"""Random instances and random valid schedules of them, to be encoded as points."""

from __future__ import annotations

import random

import msgspec

from optsched.instance import Instance
from optsched.schedule import Kind, Schedule, from_steps
from tests.tiny import random_instance


def random_schedule(instance: Instance, rng: random.Random, chaos: int) -> Schedule:
    """A valid schedule: any action at random for ``chaos`` batches, then one request at a time."""
    limits = instance.limits
    cached, generated = [0] * len(instance), [0] * len(instance)
    steps: list[tuple[int, int, int, int]] = []
    batch = 0
    while unfinished := [
        i for i, r in enumerate(instance.requests) if generated[i] < r.output_tokens
    ]:
        batch += 1
        before = list(steps), list(cached), list(generated)
        serial = batch > chaos
        order = unfinished if serial else rng.sample(unfinished, len(unfinished))
        tokens, fill, count = limits.batch_tokens, limits.fill_tokens, limits.batch_requests or 99
        for i in order:
            known = instance.requests[i].prompt_tokens + generated[i]
            room = limits.kv_tokens - sum(limits.pages(m) for k, m in enumerate(cached) if k != i)
            focus = serial and i == unfinished[0]
            if cached[i] and not focus and (serial or rng.random() < 0.15):
                steps.append((i, Kind.EVICT, batch, 0))
                cached[i] = 0
            elif focus or (not serial and rng.random() < 0.7 and count):
                decode = cached[i] == known - 1 >= instance.requests[i].prompt_tokens
                most = min(known - cached[i], tokens, tokens if decode else fill)
                if not serial:
                    most = rng.randint(1, most) if most and rng.random() < 0.4 else most
                    if limits.pages(cached[i] + most) > room:
                        continue
                if not most:
                    continue
                steps.append((i, Kind.PROCESS, batch, most))
                tokens, fill, count = tokens - most, fill - most * (not decode), count - 1
                cached[i] += most
                generated[i] += cached[i] == known
        if serial:  # evictions free their KV in this batch, so that the focus fits
            assert any(kind == Kind.PROCESS and b == batch for _, kind, b, _ in steps)
        elif not any(kind == Kind.PROCESS and b == batch for _, kind, b, _ in steps):
            steps, cached, generated = before
            batch -= 1
            chaos -= 1
        for i in unfinished:
            if generated[i] == instance.requests[i].output_tokens:
                cached[i] = 0
    return from_steps(steps)


def varied_instance(seed: int, *, timed: bool = False) -> Instance:
    """Tight limits, pages, pieces, and attention that does not telescope; arrivals and
    service-level objectives if ``timed``."""
    rng = random.Random(seed)
    instance = random_instance(
        seed, most_prompt=8, pages=rng.random() < 0.4, tight=rng.random() < 0.6,
        arrivals=timed, slos=timed,
    )  # fmt: skip
    if rng.random() < 0.4:
        coefficients = {
            "p_sq": rng.choice([0.0, 2e-5, 3e-4]),
            "p_mc": rng.choice([0.0, 1e-5, 1e-3]),
        }
        cost = msgspec.structs.replace(instance.cost, **coefficients)
        instance = msgspec.structs.replace(instance, cost=cost)
    return instance
