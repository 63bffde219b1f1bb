"""The online schedulers of requests with calls: valid on anything, and what their rules say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from optsched.check import handlings, require_valid
from optsched.instance import Call, Instance, Limits, Request
from optsched.io import preset
from optsched.objective import Objective
from optsched.simulate import measure, objective_value, simulate
from optsched.warmstart import scheduler
from optsched.warmstart.augmented import AUGMENTED
from tests.oracle import optimum
from tests.tiny import LINEAR, random_instance


def calling(duration_s: float, host: int) -> Instance:
    """A request that calls, and one that arrives meanwhile and has room beside it."""
    return Instance(
        name="calling", cost=preset("llama2-7b-a100").cost,
        limits=Limits(kv_tokens=4000, batch_tokens=4096, host_kv_tokens=host),
        requests=(
            Request(
                id="caller", prompt_tokens=1000, output_tokens=4,
                calls=(Call(after_tokens=2, duration_s=duration_s, response_tokens=8),),
            ),
            Request(id="other", prompt_tokens=1000, output_tokens=60, arrival_s=0.01),
        ),
    )  # fmt: skip


@pytest.mark.parametrize("name", AUGMENTED)
@pytest.mark.parametrize("seed", range(40))
def test_valid_on_random_instances(name: str, seed: int) -> None:
    instance = random_instance(
        60_000 + seed, calls=seed % 5 > 0, host_room=seed % 2 == 0, arrivals=seed % 3 > 0,
        pages=seed % 4 == 0, tight=seed % 3 == 0, most_requests=5,
    )  # fmt: skip
    schedule = scheduler(name)(instance)
    require_valid(instance, schedule)
    require_valid(instance, schedule, simulate(instance, schedule))


@pytest.mark.parametrize("name", AUGMENTED)
@pytest.mark.parametrize("seed", range(4))
def test_never_better_than_the_optimum(name: str, seed: int) -> None:
    instance = random_instance(70_000 + seed, calls=True, host_room=True, cost=LINEAR)
    for objective in (Objective.MAKESPAN, Objective.MEAN_LATENCY):
        best, _ = optimum(instance, objective=objective)
        trace = simulate(instance, scheduler(name)(instance))
        assert objective_value(instance, trace, objective) >= best * (1 - 1e-9)


@pytest.mark.parametrize(
    ("name", "handling"),
    [("vllm-discard", "discard"), ("fcfs-preserve", "preserve"), ("fcfs-swap", "swap")],
)
def test_a_handling_for_all(name: str, handling: str) -> None:
    instance = calling(0.3, 4000)
    (call,) = handlings(instance, scheduler(name)(instance))
    assert call.handling == handling


@pytest.mark.parametrize(
    ("duration_s", "host", "handling"),
    # t(1001) is 75 ms, so discarding wastes 0.075 (C + others); a copy and back 0.042 of it.
    [(1e-4, 4000, "preserve"), (1.0, 4000, "swap"), (1.0, 0, "discard"), (0.1, 0, "preserve")],
)
def test_infercept_takes_the_least_waste(duration_s: float, host: int, handling: str) -> None:
    instance = calling(duration_s, host)
    (call,) = handlings(instance, scheduler("infercept-known")(instance))
    assert call.handling == handling


def test_without_a_budget_nothing_is_swapped() -> None:
    instance = calling(1.0, 4000)
    rule = replace(AUGMENTED["infercept-known"], swap_budget=0.0)
    schedule = rule(instance)
    trace = simulate(instance, schedule)
    assert measure(instance, schedule, trace).swapped_tokens == 0


def test_a_cap_on_tokens_and_requests_is_kept() -> None:
    instance = random_instance(60_001, calls=True, most_requests=5)
    rule = replace(AUGMENTED["infercept"], batch_tokens=2, most_requests=1)
    limits = Limits(
        kv_tokens=instance.limits.kv_tokens, batch_tokens=2, batch_requests=1,
        block_tokens=instance.limits.block_tokens,
        host_kv_tokens=instance.limits.host_kv_tokens,
    )  # fmt: skip
    capped = Instance(name="capped", cost=instance.cost, limits=limits, requests=instance.requests)
    require_valid(capped, rule(instance))


def test_a_starved_request_goes_first() -> None:
    """A long request among short ones waits for them all, unless it has been passed over."""
    short = tuple(
        Request(id=f"s{k}", prompt_tokens=30, output_tokens=4, arrival_s=0.02 * k)
        for k in range(40)
    )
    instance = Instance(
        name="long", cost=LINEAR, limits=Limits(kv_tokens=100, batch_tokens=100),
        requests=(Request(id="long", prompt_tokens=90, output_tokens=8), *short),
    )  # fmt: skip
    mars = AUGMENTED["mars-true"]
    ends = [
        float(simulate(instance, replace(mars, starvation=limit)(instance)).finish_s[0])
        for limit in (None, 10)
    ]
    assert ends[1] < ends[0]
