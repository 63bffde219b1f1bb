"""Instances and policies on which the tests of the oracle run it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator

import msgspec

from optsched.cost import CostModel
from optsched.errors import InfeasibleError
from optsched.instance import Instance, Limits, Request
from optsched.objective import Objective
from tests.oracle import optimum
from tests.tiny import random_instance

SECOND_PER_BATCH = CostModel(pieces=((1.0, 0.0),))
POLICIES = ("no-chunk", "no-evict", "no-hold", "no-hybrid")
POLICY_SETS = [policies for size in range(5) for policies in itertools.combinations(POLICIES, size)]
ORDERED_SETS = [
    ("fcfs",),
    ("nonpreemptive",),
    ("fcfs", "no-evict"),
    ("fcfs", "no-hybrid", "no-chunk"),
    ("fcfs", "no-hold"),
    ("nonpreemptive", "fcfs"),
    ("nonpreemptive", "no-hybrid"),
    ("no-swap",),
]


def instance_of(
    *requests: tuple[int, int] | tuple[int, int, float],
    cost: CostModel = SECOND_PER_BATCH,
    M: int = 100,
    C: int = 100,
    **limits: int,
) -> Instance:
    return Instance(
        name="by-hand",
        limits=Limits(kv_tokens=M, batch_tokens=C, **limits),
        cost=cost,
        requests=tuple(
            Request(id=f"r{k}", prompt_tokens=r[0], output_tokens=r[1], arrival_s=sum(r[2:]))
            for k, r in enumerate(requests)
        ),
    )


def with_slos(instance: Instance, **slos: tuple[float | None, ...]) -> Instance:
    """The instance with one value for each request of the fields named."""
    rows = [dict(zip(slos, values, strict=True)) for values in zip(*slos.values(), strict=True)]
    pairs = zip(instance.requests, rows, strict=True)
    requests = tuple(msgspec.structs.replace(request, **row) for request, row in pairs)
    return msgspec.structs.replace(instance, requests=requests)


def cases(
    count: int, *, most_requests: int = 3, most_prompt: int = 6, most_output: int = 4
) -> Iterator[tuple[Instance, tuple[str, ...]]]:
    """Random instances, with and without arrivals, pages and binding limits, and policies."""
    for seed in range(count):
        instance = random_instance(
            seed, most_requests=most_requests, most_prompt=most_prompt, most_output=most_output,
            arrivals=seed % 2 == 1, pages=seed // 2 % 2 == 1, tight=seed // 4 % 2 == 1,
        )  # fmt: skip
        yield instance, POLICY_SETS[seed * 7 % 16] if seed % 3 else ()


def served_cases(
    count: int, *, most_prompt: int, most_output: int
) -> Iterator[tuple[Instance, tuple[str, ...]]]:
    """Random instances with SLOs, most of them with arrivals, and policies of every kind."""
    sets = [*[()] * 8, *ORDERED_SETS, *POLICY_SETS]
    for seed in range(count):
        instance = random_instance(
            seed, most_requests=3, most_prompt=most_prompt, most_output=most_output,
            arrivals=seed % 4 > 0, pages=seed // 2 % 2 == 1, tight=seed // 4 % 2 == 1, slos=True,
        )  # fmt: skip
        yield instance, sets[seed * 5 % len(sets)]


def value_or_inf(
    instance: Instance,
    policies: Collection[str],
    *,
    objective: Objective = Objective.MAKESPAN,
    prune: bool = True,
) -> float:
    try:
        return optimum(instance, tuple(policies), objective=objective, prune=prune)[0]
    except InfeasibleError:
        return math.inf
