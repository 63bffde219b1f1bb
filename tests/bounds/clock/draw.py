"""Random tiny instances with objectives, their optima, and random arguments about them."""

from __future__ import annotations

import random
from functools import cache

from optsched.clock_certificate import (
    AloneOrder,
    ClockArgument,
    GroupedMean,
    Order,
    OrderedMean,
    PricedWork,
    SharedOrder,
    Shares,
    SmallestOrder,
    UniformMean,
)
from optsched.instance import Instance
from optsched.objective import Objective
from optsched.time_pricing import Pace
from tests.bounds.arguments import random_line
from tests.bounds.draw import odd_cost
from tests.oracle import optimum
from tests.tiny import random_cost, random_instance

CLOCK = (
    Objective.MEAN_LATENCY, Objective.MEAN_TTFT, Objective.MAX_LATENCY, Objective.GOODPUT
)  # fmt: skip


def random_clock(seed: int) -> Instance:
    """A tiny instance over all features but calls, with service-level objectives and weights."""
    rng = random.Random(seed)
    cost = odd_cost(rng) if rng.random() < 0.5 else random_cost(rng)
    requests, prompt, output = rng.choice([(2, 6, 5), (2, 4, 4), (3, 4, 3), (3, 5, 2)])
    return random_instance(
        seed, arrivals=rng.random() < 0.6, pages=rng.random() < 0.4, cost=cost, slos=True,
        tight=rng.random() < 0.5, most_requests=requests, most_prompt=prompt, most_output=output,
    )  # fmt: skip


def random_equal(seed: int) -> Instance:
    """A few equal requests that are all there from the start."""
    rng = random.Random(seed)
    drawn = random_instance(
        seed, most_requests=4, most_prompt=rng.choice([1, 4]), most_output=rng.choice([2, 4]),
        pages=rng.random() < 0.3, tight=rng.random() < 0.3,
    )  # fmt: skip
    first = drawn.requests[0]
    equal = tuple(
        type(first)(
            id=r.id, prompt_tokens=first.prompt_tokens, output_tokens=first.output_tokens
        )
        for r in drawn.requests
    )  # fmt: skip
    return Instance(name=drawn.name, limits=drawn.limits, cost=drawn.cost, requests=equal)


@cache
def best(instance: Instance, objective: Objective) -> float:
    """The optimum, by exhaustive search."""
    return optimum(instance, objective=objective)[0]


def random_shares(rng: random.Random, instance: Instance) -> Shares:
    """Parts of the intercept; requests have one mostly where a batch has only so many."""
    limited = instance.limits.batch_requests is not None or rng.random() < 0.1
    few = [0, 0, 1, 3, 100]
    parts = [rng.choice(few) for _ in range(5)]
    return Shares(
        memory=parts[0], tokens=parts[1], prefill=parts[2], requests=parts[3] if limited else 0,
        setups=parts[4] + (not any(parts[:3]) and not parts[4]),
    )  # fmt: skip


def random_argument(rng: random.Random, instance: Instance, objective: Objective) -> ClockArgument:
    """An argument about ``objective``, sensible or not."""
    line, shares = random_line(rng, instance), random_shares(rng, instance)
    arrivals = sorted({r.arrival_s for r in instance.requests})
    if objective is Objective.GOODPUT:
        moments = sorted({rng.choice([*arrivals, rng.random()]) for _ in range(6)} | {2.0})
        prices = tuple(rng.choice([0, rng.randint(0, 2**50)]) for _ in moments[1:])
        return PricedWork(
            line=line, shares=shares, starts_s=tuple(moments[:-1]), end_s=moments[-1],
            prices=prices, unit_bits=rng.choice([42, 45, 48]),
        )  # fmt: skip
    kind = rng.choice(["ordered", "grouped", "uniform"])
    if kind == "ordered":
        orders = [random_order(rng, instance) for _ in range(rng.randint(1, 4))]
        return OrderedMean(orders=tuple(orders))
    if kind == "grouped":
        cuts = [a for a in arrivals[1:] if rng.random() < 0.5]
        first = arrivals[0] - rng.choice([0.0, 0.0, 1.0, -1e-3])
        return GroupedMean(line=line, shares=shares, starts_s=tuple(sorted({first, *cuts})))
    last = 1 + int(instance.output_tokens.sum() + instance.prompt_tokens.sum())
    ends = sorted(rng.sample(range(1, last + 1), rng.randint(1, min(last, 6))))
    buckets = rng.randint(1, last)

    def column() -> tuple[int, ...]:
        scale = rng.choice([0, 1, 2**8, 2**14])
        return tuple(rng.randint(0, scale) for _ in range(buckets))

    return UniformMean(
        line=line, ends=tuple(ends), count_bits=4, unit_bits=22,
        counts=tuple(rng.randint(0, 16 * len(instance) // len(ends)) for _ in ends),
        bucket_batches=rng.choice([1, 1, 2, 3]), memory=column(), tokens=column(),
        prefill=column(),
    )  # fmt: skip


def random_order(rng: random.Random, instance: Instance) -> Order:
    """A way to order requests."""
    line = random_line(rng, instance)
    return rng.choice(
        [
            AloneOrder(), SmallestOrder(line=line),
            SharedOrder(line=line, shares=random_shares(rng, instance)),
        ]
    )  # fmt: skip


def random_paces(rng: random.Random, instance: Instance) -> tuple[Pace, ...]:
    """Any paces that charge a batch no more than it takes."""
    cost, limits = instance.cost, instance.limits
    kv_tokens = limits.block_tokens * (limits.kv_tokens // limits.block_tokens)
    shortest = max(alpha + beta for alpha, beta in cost.pieces) * (1 - 1e-12)
    starts = sorted({shortest, *(shortest * rng.uniform(1, 8) for _ in range(rng.randint(0, 4)))})
    paces = []
    for k, start in enumerate(starts):
        rates = [rng.choice([0.0, rng.random()]) for _ in cost.pieces]
        memory = rng.choice([0.0, 1.0, rng.random()]) * shortest / kv_tokens
        last = k + 1 == len(starts)
        ends = [start] if last else starts[k : k + 2]

        def used(t: float, rates: list[float] = rates, memory: float = memory) -> float:
            pairs = zip(rates, cost.pieces, strict=True)
            return (sum(m * (t - alpha) for m, (alpha, _) in pairs) + memory * kv_tokens) / t

        most = max([used(t) for t in ends] + [sum(rates)] * last)
        scale = (1 - 1e-9) / most if most > 0 else 1.0
        paces.append(Pace(
            from_s=start, pieces=tuple(scale * m for m in rates), memory_s=scale * memory
        ))  # fmt: skip
    return tuple(paces)
