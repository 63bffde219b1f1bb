"""Seeded random tiny instances, small enough for the exhaustive search of ``oracle.py``."""

from __future__ import annotations

import random

import msgspec

from optsched.cost import CostModel
from optsched.instance import Call, Instance, Limits, Request

LINEAR = CostModel(
    pieces=((9e-3, 7e-5),), d_kv=3e-7, p_sq=2e-8, p_kv=3e-8, p_req=5e-5, swap_tok=2e-5
)


def random_cost(rng: random.Random) -> CostModel:
    """A cost model of any shape: one to three pieces, with and without each coefficient."""
    alpha, beta = rng.choice([(9e-3, 7e-5), (1.0, 0.0), (5e-3, 4e-3), (1e-3, 1e-3)])
    pieces = [(alpha, beta)]
    for _ in range(rng.choice([0, 0, 0, 1, 2])):
        knot = rng.randint(1, 12)
        steeper = beta + rng.choice([5e-4, 2e-3, 5e-3])
        pieces.append((alpha + (beta - steeper) * knot, steeper))
        alpha, beta = pieces[-1]

    def maybe(value: float) -> float:
        return value if rng.random() < 0.5 else 0.0

    p_sq = maybe(rng.choice([2e-8, 2e-5, 3e-4]))
    return CostModel(
        pieces=tuple(pieces), d0=maybe(5e-4), d_kv=maybe(rng.choice([3e-7, 1e-4])),
        d_req=maybe(2e-4), p0=maybe(rng.choice([1e-3, 4e-3])), p_sq=p_sq,
        p_kv=maybe(rng.choice([3e-8, 1e-4])), p_req=maybe(rng.choice([5e-5, 1e-3])),
    )  # fmt: skip


def random_instance(
    seed: int,
    *,
    most_requests: int = 3,
    most_prompt: int = 6,
    most_output: int = 4,
    arrivals: bool = False,
    pages: bool = False,
    cost: CostModel | None = None,
    tight: bool = False,
    slos: bool = False,
    calls: bool = False,
    host_room: bool = False,
) -> Instance:
    """An instance that has a schedule.

    ``tight`` makes C, P and ``batch_requests`` bind, so that chunking is forced; ``pages`` allows
    KV pages of up to 3 tokens; without ``cost`` it is random too. ``calls`` gives every request
    one or two calls, but for a few, and at least one of them; ``host_room`` memory of the host to
    swap to; ``slos`` weights and SLOs. Each leaves as it is what would be drawn without it, other
    than M and that a request with a call makes two tokens or more.
    """
    rng = random.Random(seed)
    count = rng.randint(1, most_requests)
    shapes = [
        (rng.randint(1, most_prompt), rng.randint(1, most_output))
        for _ in range(rng.randint(1, count))
    ]
    block = rng.choice([1, 2, 3]) if pages else 1
    requests = []
    for i in range(count):
        prompt, output = rng.choice(shapes)
        arrival = rng.choice([0.0, 0.005, 0.02, 0.5]) if arrivals else 0.0
        requests.append(
            Request(id=f"r{i}", prompt_tokens=prompt, output_tokens=output, arrival_s=arrival)
        )
    largest = max(block * -(-r.final_tokens // block) for r in requests)
    total = sum(block * -(-r.final_tokens // block) for r in requests)
    kv_tokens = rng.randint(largest, max(largest, min(total, 2 * largest + 2)))
    instance = Instance(
        name=f"tiny-{seed}",
        limits=Limits(
            kv_tokens=kv_tokens,
            batch_tokens=rng.randint(1, max(2, kv_tokens)) if tight else 4096,
            prefill_tokens=rng.choice([None, rng.randint(1, kv_tokens)]) if tight else None,
            batch_requests=rng.choice([None, None, 1, 2]) if tight else None,
            block_tokens=block,
        ),
        cost=cost or random_cost(rng),
        requests=tuple(requests),
    )
    if calls:
        instance = with_calls(instance, random.Random(f"calls {seed}"))
    if host_room:
        instance = with_host_room(instance, random.Random(f"host {seed}"), cost is None)
    return with_slos(instance, random.Random(f"slos {seed}")) if slos else instance


def with_calls(instance: Instance, rng: random.Random) -> Instance:
    """The instance with random calls, some of no time and some longer than all work, and M for it.

    Requests that were equal mostly make the same calls.
    """
    known: dict[tuple[int, int], tuple[Call, ...]] = {}
    requests = []
    for place, request in enumerate(instance.requests):
        shape = request.prompt_tokens, request.output_tokens
        if shape not in known or rng.random() < 0.3:
            known[shape] = random_calls(rng, request.output_tokens)
        made = known[shape] if place == 0 or rng.random() < 0.8 else ()
        output = max(request.output_tokens, made[-1].after_tokens + 1 if made else 1)
        requests.append(msgspec.structs.replace(request, calls=made, output_tokens=output))
    pages = [instance.limits.pages(r.final_tokens) for r in requests]
    kv_tokens = rng.randint(max(pages), max(max(pages), min(sum(pages), 2 * max(pages) + 2)))
    limits = msgspec.structs.replace(instance.limits, kv_tokens=kv_tokens)
    return msgspec.structs.replace(instance, requests=tuple(requests), limits=limits)


def random_calls(rng: random.Random, output_tokens: int) -> tuple[Call, ...]:
    """One or two calls of a request of so many output tokens, or of two if it has only one."""
    last = max(2, output_tokens)
    after = sorted(rng.sample(range(1, last), rng.randint(1, min(2, last - 1))))
    return tuple(
        Call(
            after_tokens=k, duration_s=rng.choice([0.0, 1e-3, 0.01, 0.03, 0.1, 2.5]),
            response_tokens=rng.choice([0, 0, 1, 2, 3]),
        )
        for k in after
    )  # fmt: skip


def with_host_room(instance: Instance, rng: random.Random, price: bool) -> Instance:
    """The instance with memory of the host for some or all KV, and if asked a price to copy it."""
    most = sum(r.final_tokens for r in instance.requests)
    limits = msgspec.structs.replace(
        instance.limits, host_kv_tokens=rng.choice([most, rng.randint(1, most)])
    )
    cost = instance.cost
    if price:
        cost = msgspec.structs.replace(cost, swap_tok=rng.choice([0.0, 2e-5, 5e-4]))
    return msgspec.structs.replace(instance, limits=limits, cost=cost)


def with_slos(instance: Instance, rng: random.Random) -> Instance:
    """The instance with random weights and SLOs, some of which can be met and some not.

    An SLO is somewhat more than the request would need alone in whole fills, or less, up to about
    what all requests need one after another. It is no sum of batch times, so that no rounding
    decides whether it is met; weights are quarters, so that sums of them are exact.
    """
    cost = instance.cost

    def seconds(tokens: int) -> float:
        return max(alpha + beta * tokens for alpha, beta in cost.pieces)

    def fill_s(request: Request) -> float:
        prompt = request.prompt_tokens
        return seconds(prompt) + cost.p0 + cost.p_sq * prompt**2 + cost.p_req

    def decode_s(request: Request) -> float:
        return seconds(1) + cost.d0 + cost.d_kv * request.final_tokens + cost.d_req

    def pauses_s(request: Request) -> float:
        return sum(call.duration_s for call in request.calls)

    def alone_s(request: Request) -> float:
        decodes_s = (request.output_tokens - 1) * decode_s(request)
        return fill_s(request) + decodes_s + pauses_s(request)

    total = sum(alone_s(request) for request in instance.requests)

    def slo(alone: float, others: float, often: float) -> float | None:
        given = alone * rng.uniform(0.9, 1.4) + others * rng.uniform(0.0, 0.8) ** 2
        return given if rng.random() < often else None

    def served(request: Request) -> Request:
        others = total - alone_s(request)
        return msgspec.structs.replace(
            request,
            ttft_slo_s=slo(fill_s(request), others, 0.6),
            tpot_slo_s=slo(
                decode_s(request) + pauses_s(request) / request.output_tokens,
                others / request.output_tokens, 0.6,
            ),
            latency_slo_s=slo(alone_s(request), others, 0.5),
            weight=rng.choice([0.0, 0.25, 0.5, 1.0, 1.0, 1.0, 1.75, 3.0]),
        )  # fmt: skip

    return msgspec.structs.replace(
        instance, requests=tuple(served(request) for request in instance.requests)
    )
