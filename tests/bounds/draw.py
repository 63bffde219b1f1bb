"""Seeded random tiny instances with what ``tests.tiny`` leaves out: any relation between the
attention coefficients, negative intercepts, calls and swapping."""

from __future__ import annotations

import random

from optsched.cost import CostModel
from optsched.instance import Call, Instance, Limits, Request
from tests.tiny import random_cost, random_instance, with_slos


def odd_cost(rng: random.Random) -> CostModel:
    """A cost model off the beaten track: p_mc unrelated to p_sq, dear set-ups or attention, and
    now and then only negative intercepts."""
    cost = random_cost(rng)
    pieces = rng.choice(
        [cost.pieces] * 8 + [((-5e-4, 1e-3),), ((-2e-3, 4e-3), (-5e-3, 6e-3))]
    )  # fmt: skip
    p_sq = cost.p_sq * rng.choice([0, 1, 1])
    return CostModel(
        pieces=pieces, d0=cost.d0 * rng.choice([1, 10]), d_kv=cost.d_kv * rng.choice([1, 5, 50]),
        d_req=cost.d_req, p0=cost.p0 * rng.choice([1, 3]), p_sq=p_sq,
        p_mc=p_sq * rng.choice([0, 0.5, 1, 2, 3, 5]) + rng.choice([0, 0, 1e-4]),
        p_kv=cost.p_kv * rng.choice([1, 20]), p_req=cost.p_req * rng.choice([1, 20]),
        swap_tok=rng.choice([0.0, 2e-5, 1e-3]),
    )  # fmt: skip


def random_plain(seed: int) -> Instance:
    """A tiny instance over all features but calls and swapping."""
    rng = random.Random(seed)
    cost = odd_cost(rng) if rng.random() < 0.5 else random_cost(rng)
    # Four requests only if they are small: some others take the search a minute.
    requests, prompt, output = rng.choice([(2, 6, 5), (3, 6, 4), (3, 6, 3), (4, 4, 2)])
    return random_instance(
        seed, arrivals=rng.random() < 0.35, pages=rng.random() < 0.4, cost=cost,
        tight=rng.random() < 0.5, most_requests=requests, most_prompt=prompt, most_output=output,
    )  # fmt: skip


def random_augmented(seed: int) -> Instance:
    """One or two tiny requests with calls, and host memory in most cases."""
    rng = random.Random(seed)
    requests, count = [], rng.choice([1, 2, 2])
    for i in range(count):
        output = rng.randint(2, 3) if count == 1 else 2
        after = sorted(rng.sample(range(1, output), rng.randint(0, output - 1)))
        calls = tuple(
            Call(
                after_tokens=k, duration_s=rng.choice([0.0, 1e-3, 0.03]),
                response_tokens=rng.choice([0, 1, 2, 3]),
            )
            for k in after
        )  # fmt: skip
        requests.append(
            Request(
                id=f"r{i}", prompt_tokens=rng.randint(1, 3), output_tokens=output, calls=calls,
                arrival_s=rng.choice([0.0, 0.0, 0.01]),
            )
        )  # fmt: skip
    block = rng.choice([1, 1, 2])
    needs = [block * -(-r.final_tokens // block) for r in requests]
    kv_tokens = rng.randint(max(needs), sum(needs))
    return Instance(
        name=f"augmented-{seed}",
        limits=Limits(
            kv_tokens=kv_tokens, batch_tokens=rng.choice([2, 4, 4096]),
            prefill_tokens=rng.choice([None, None, 3]), batch_requests=rng.choice([None, None, 1]),
            block_tokens=block, host_kv_tokens=rng.choice([0, kv_tokens, 4]),
        ),
        cost=odd_cost(rng),
        requests=tuple(requests),
    )  # fmt: skip


def random_calling(seed: int, *, most_requests: int = 3) -> Instance:
    """A few tiny requests with calls, weights and SLOs; memory on the host for two of three."""
    if seed % 4 == 0:  # calls that are short
        return with_slos(random_augmented(seed), random.Random(seed))
    cost = odd_cost(random.Random(seed)) if seed % 3 == 0 else None
    return random_instance(
        seed, most_prompt=3 + seed % 3, most_output=3 + seed % 2, arrivals=seed % 2 == 1,
        pages=seed // 2 % 2 == 1, tight=seed // 4 % 2 == 1, calls=True, cost=cost, slos=True,
        host_room=seed // 8 % 3 > 0, most_requests=most_requests,
    )  # fmt: skip
