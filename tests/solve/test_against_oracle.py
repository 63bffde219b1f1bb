"""``solve`` against the exhaustive search: an optimum is one, and so is a bound."""

from __future__ import annotations

import pytest

from optsched.check import POLICIES, check
from optsched.instance import Instance
from optsched.result import Result
from optsched.simulate import simulate
from optsched.solve import SolveOptions, solve
from tests.oracle import optimum
from tests.tiny import LINEAR, random_instance


def verify(instance: Instance, result: Result, policies: tuple[str, ...] = ()) -> None:
    """The result's schedule is valid and its times true, its bound holds, its claim is right."""
    best, _ = optimum(instance, policies)
    assert result.schedule is not None
    assert result.value is not None
    assert result.bound is not None
    assert check(instance, result.schedule, policies=policies) == ()
    assert simulate(instance, result.schedule).makespan_s == result.value
    assert result.bound <= best * (1 + 1e-9)
    assert result.value >= best * (1 - 1e-9)
    for step in result.steps:
        if step.scope == result.scope and step.bound is not None:
            assert step.bound <= best * (1 + 1e-9), step
    if result.optimal:
        assert result.value == pytest.approx(best, rel=2e-6)


@pytest.mark.parametrize("seed", range(60))
def test_study_coefficients_are_proven(seed: int) -> None:
    instance = random_instance(seed, cost=LINEAR, most_prompt=10, most_output=5)
    result = solve(instance)
    verify(instance, result)
    assert result.optimal


@pytest.mark.parametrize("seed", range(60))
def test_any_law_and_tight_limits_are_proven(seed: int) -> None:
    instance = random_instance(
        1000 + seed, tight=True, pages=seed % 2 == 0, most_prompt=5, most_output=3
    )
    result = solve(instance)
    verify(instance, result)
    assert result.optimal


@pytest.mark.parametrize("seed", range(30))
def test_policies_are_proven(seed: int) -> None:
    instance = random_instance(2000 + seed, most_prompt=5, most_output=3)
    policies = (POLICIES[seed % 4],)
    result = solve(instance, SolveOptions(policies=policies))
    verify(instance, result, policies)
    assert result.optimal


@pytest.mark.parametrize("seed", range(40))
def test_arrivals_are_bounded(seed: int) -> None:
    instance = random_instance(3000 + seed, arrivals=True, most_prompt=5, most_output=3)
    verify(instance, solve(instance))


@pytest.mark.parametrize("formulation", ["network", "compact", "none"])
@pytest.mark.parametrize("seed", range(10))
def test_every_formulation(formulation: str, seed: int) -> None:
    instance = random_instance(4000 + seed, most_prompt=5, most_output=3)
    verify(instance, solve(instance, SolveOptions(formulation=formulation)))


@pytest.mark.parametrize("warm_start", ["none", "best", "vllm", "mc-sf"])
@pytest.mark.parametrize("seed", range(5))
def test_every_warm_start(warm_start: str, seed: int) -> None:
    instance = random_instance(5000 + seed, cost=LINEAR, most_prompt=8, most_output=4)
    result = solve(instance, SolveOptions(warm_start=warm_start))
    verify(instance, result)
    assert result.optimal
