"""Seeded tiny instances whose batches all take one second, with arrivals at whole seconds."""

from __future__ import annotations

import random

from optsched.instance import Instance, Limits, Request
from optsched.io.presets import preset


def unit_instance(seed: int, *, requests: int | None = None, output: int | None = None) -> Instance:
    """Up to four requests; every other seed has arrivals, every fifth KV pages of two tokens."""
    rng = random.Random(seed)
    count = requests or rng.randint(1, 4)
    block = 2 if seed % 5 == 4 else 1
    made = tuple(
        Request(
            id=f"r{i}", prompt_tokens=rng.randint(1, 4), output_tokens=output or rng.randint(1, 5),
            arrival_s=rng.choice([0.0, 0.0, 1.0, 3.0, 9.0]) if seed % 2 else 0.0,
        )
        for i in range(count)
    )  # fmt: skip
    largest = max(block * -(-r.final_tokens // block) for r in made)
    return Instance(
        name=f"unit-{seed}", cost=preset("unit").cost, requests=made,
        limits=Limits(
            kv_tokens=largest + rng.randint(0, 5), batch_tokens=10**9, block_tokens=block
        ),
    )  # fmt: skip
