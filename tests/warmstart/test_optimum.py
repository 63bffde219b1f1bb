"""No scheduler beats the exhaustive search, and each keeps the policies that it claims."""

from __future__ import annotations

import pytest

from optsched.check import check
from optsched.simulate import simulate
from optsched.warmstart import scheduler, schedulers
from tests.oracle import optimum
from tests.tiny import random_instance

POLICIES = {
    "vllm": ("no-hybrid",),
    "sarathi-nohy": ("no-hybrid",),
    "vllm-ef": ("no-hybrid", "no-evict"),
    "sarathi-nohy-ef": ("no-hybrid", "no-evict"),
    "sarathi-ef": ("no-evict",),
    "sarathi-pc-ef": ("no-evict", "no-hold"),
    "sarathi-nocp-ef": ("no-evict", "no-chunk", "no-hold"),
    "vllm-hy-ef": ("no-evict", "no-chunk", "no-hold"),
    "vllm-hy": ("no-chunk",),
    "sarathi-nocp": ("no-chunk",),
    "mc-sf": ("no-evict", "no-chunk", "no-hold"),
    "mc-fcfs": ("no-evict", "no-chunk", "no-hold"),
}


@pytest.mark.parametrize("seed", range(120))
def test_no_scheduler_beats_the_optimum(seed: int) -> None:
    instance = random_instance(
        seed, arrivals=seed % 3 == 0, pages=seed % 2 == 0, tight=seed % 4 == 1
    )
    best, _ = optimum(instance)
    for name, rule in schedulers().items():
        schedule = rule(instance)
        trace = simulate(instance, schedule)
        assert check(instance, schedule, trace) == (), name
        assert trace.makespan_s >= best * (1 - 1e-12), name


@pytest.mark.parametrize("name", POLICIES)
def test_policies_hold_where_nothing_forces_chunks(name: str) -> None:
    for seed in range(40):
        instance = random_instance(seed, most_requests=6, arrivals=True, pages=True)
        assert check(instance, scheduler(name)(instance), policies=POLICIES[name]) == ()


@pytest.mark.parametrize("name", [n for n, p in POLICIES.items() if "no-evict" in p])
def test_eviction_free_also_when_chunks_are_forced(name: str) -> None:
    for seed in range(40):
        instance = random_instance(seed, most_requests=6, arrivals=True, pages=True, tight=True)
        assert check(instance, scheduler(name)(instance), policies=("no-evict",)) == ()
