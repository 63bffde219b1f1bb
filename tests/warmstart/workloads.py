"""Seeded random workloads that reach every branch of the rules."""

from __future__ import annotations

import random

from optsched.cost import CostModel
from optsched.instance import Instance, Limits, Request
from tests.tiny import random_cost

UNIT = CostModel(pieces=((1.0, 0.0),))


def workload(seed: int) -> Instance:
    """Up to 30 requests with arrivals, pages and tight limits, each of them or none.

    With unit batch times arrivals are whole seconds, so that requests also arrive at the very
    start of a batch; otherwise arrivals are random reals, which never tie with a batch's start.
    """
    rng = random.Random(seed)
    count = rng.randint(2, 30)
    unit = rng.random() < 0.3
    longest = rng.choice([5, 20, 60])
    prompt = 700 if seed % 8 == 0 else longest
    span = rng.choice([0, 1, 10])

    def arrival() -> float:
        return float(rng.randint(0, span * 5)) if unit else rng.random() * span

    requests = tuple(
        Request(
            id=f"r{i}", prompt_tokens=rng.randint(1, prompt), output_tokens=rng.randint(1, longest),
            arrival_s=arrival(),
        )
        for i in range(count)
    )  # fmt: skip
    block = rng.choice([1, 1, 2, 3, 16])
    largest = max(block * -(-r.final_tokens // block) for r in requests)
    tight = rng.random() < 0.5
    batch_tokens = rng.randint(1, 2 * longest) if tight else 4096
    return Instance(
        name=f"workload-{seed}",
        limits=Limits(
            kv_tokens=rng.randint(largest, largest * rng.choice([1, 2, 4]) + rng.choice([0, 3])),
            batch_tokens=batch_tokens,
            prefill_tokens=rng.randint(1, batch_tokens) if rng.random() < 0.3 else None,
            batch_requests=rng.choice([None, None, 1, 3, 7]),
            block_tokens=block,
        ),
        cost=UNIT if unit else random_cost(rng),
        requests=requests,
    )
