"""Decisions equal those of the plain batch-by-batch loop, and keep every rule."""

from __future__ import annotations

import pytest

from optsched.check import check
from optsched.simulate import simulate
from optsched.warmstart import scheduler
from optsched.warmstart.table import RULES
from tests.tiny import random_instance
from tests.warmstart.reference import Reference
from tests.warmstart.workloads import workload


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("tight", [False, True])
def test_same_decisions_on_tiny_instances(name: str, tight: bool) -> None:
    for seed in range(50):
        instance = random_instance(
            seed, most_requests=6, most_prompt=9, most_output=8,
            arrivals=seed % 2 == 0, pages=True, tight=tight,
        )  # fmt: skip
        schedule = scheduler(name)(instance)
        assert schedule.same_as(Reference(name, instance).schedule()), f"seed {seed}"
        assert check(instance, schedule, simulate(instance, schedule)) == (), f"seed {seed}"


@pytest.mark.parametrize("name", RULES)
def test_same_decisions_on_workloads(name: str) -> None:
    for seed in range(40):
        instance = workload(seed)
        schedule = scheduler(name)(instance)
        assert schedule.same_as(Reference(name, instance).schedule()), f"seed {seed}"
        assert check(instance, schedule, simulate(instance, schedule)) == (), f"seed {seed}"


def test_workloads_reach_evictions() -> None:
    """Otherwise equality would prove little."""
    for name in RULES:
        evictions = sum(scheduler(name)(workload(seed)).evictions for seed in range(1, 40, 3))
        never = name.endswith("-ef") or name.startswith("mc-")
        assert evictions == 0 if never else evictions > 3, f"{name}: {evictions}"
