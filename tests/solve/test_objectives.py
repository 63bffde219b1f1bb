"""``solve`` by every objective, under every policy, against the exhaustive search."""

from __future__ import annotations

import pytest

from optsched.check import POLICIES, check
from optsched.errors import InfeasibleError
from optsched.handling import HANDLINGS
from optsched.instance import Instance
from optsched.objective import Objective
from optsched.result import Result
from optsched.simulate import objective_value, simulate
from optsched.solve import SolveOptions, solve
from optsched.solve.plan import in_force
from tests.bounds.clock.search import frontier
from tests.oracle import optimum
from tests.tiny import random_instance

CLOCK = tuple(objective for objective in Objective if objective is not Objective.MAKESPAN)


def verify(instance: Instance, options: SolveOptions, result: Result) -> None:
    """The schedule is valid and its value true, the bound holds, and it is proven optimal."""
    objective = options.objective
    best, _ = optimum(instance, options.policies, objective=objective)
    rounding = 1e-9 * max(abs(best), instance.total_weight if objective.maximised else 0.0)
    assert result.schedule is not None
    assert result.value is not None
    assert result.bound is not None
    policies = sorted(in_force(instance, options.policies))
    assert check(instance, result.schedule, policies=policies) == ()
    trace = simulate(instance, result.schedule)
    assert objective_value(instance, trace, objective) == result.value
    sign = -1.0 if objective.maximised else 1.0
    assert sign * result.bound <= sign * best + rounding
    assert sign * result.value >= sign * best - rounding
    for step in result.steps:
        if step.scope == result.scope and step.bound is not None:
            assert sign * step.bound <= sign * best + rounding, step
    assert result.optimal, result.steps
    assert result.value == pytest.approx(best, rel=2e-6)


@pytest.mark.parametrize("objective", CLOCK)
@pytest.mark.parametrize("seed", range(12))
def test_offline(objective: Objective, seed: int) -> None:
    instance = random_instance(6000 + seed, most_prompt=5, most_output=3, slos=True)
    options = SolveOptions(objective=objective)
    verify(instance, options, solve(instance, options))


@pytest.mark.parametrize("objective", list(Objective))
@pytest.mark.parametrize("seed", range(12))
def test_arrivals_and_tight_limits(objective: Objective, seed: int) -> None:
    instance = random_instance(
        7000 + seed, arrivals=True, tight=seed % 2 == 0, pages=seed % 3 == 0, most_prompt=4,
        most_output=3, slos=True,
    )  # fmt: skip
    options = SolveOptions(objective=objective)
    verify(instance, options, solve(instance, options))


@pytest.mark.parametrize("policy", [p for p in POLICIES if p not in HANDLINGS])
@pytest.mark.parametrize("seed", range(10))
def test_policies(policy: str, seed: int) -> None:
    objective = list(Objective)[seed % 5]
    instance = random_instance(
        8100 + seed, arrivals=seed % 2 == 0, most_prompt=3, most_output=3, slos=True
    )
    options = SolveOptions(objective=objective, policies=(policy,))
    try:
        best = optimum(instance, options.policies, objective=objective)
    except InfeasibleError:
        best = None
    if best is None:
        with pytest.raises(InfeasibleError):
            solve(instance, options)
    else:
        verify(instance, options, solve(instance, options))


@pytest.mark.parametrize("seed", range(6))
def test_a_second_objective_breaks_ties(seed: int) -> None:
    instance = random_instance(9000 + seed, most_prompt=4, most_output=3)
    first, then = Objective.MAKESPAN, Objective.MEAN_LATENCY
    alone = solve(instance, SolveOptions(objective=first))
    both = solve(instance, SolveOptions(objective=first, then=then))
    assert both.tie is not None
    assert both.schedule is not None
    assert alone.value is not None
    assert alone.schedule is not None
    trace = simulate(instance, both.schedule)
    assert objective_value(instance, trace, first) == pytest.approx(alone.value, rel=3e-7)
    assert objective_value(instance, trace, then) == both.tie.value
    assert both.tie.gap == pytest.approx(0, abs=1e-6)
    before = objective_value(instance, simulate(instance, alone.schedule), then)
    assert both.tie.value <= before * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_a_limit_on_another_objective_is_kept(seed: int) -> None:
    """At its own optimum the limit is as tight as can be; the first objective pays for it."""
    instance = random_instance(9100 + seed, arrivals=True, most_prompt=4, most_output=3)
    limit, _ = optimum(instance, objective=Objective.MEAN_LATENCY)
    options = SolveOptions(
        objective=Objective.MEAN_TTFT, subject_to={Objective.MEAN_LATENCY: limit * (1 + 1e-6)}
    )
    result = solve(instance, options)
    assert result.schedule is not None
    trace = simulate(instance, result.schedule)
    assert objective_value(instance, trace, Objective.MEAN_LATENCY) <= limit * (1 + 2e-6)
    best, _ = optimum(instance, objective=Objective.MEAN_TTFT)
    assert result.value is not None
    assert result.value >= best * (1 - 1e-9)
    assert result.optimal


@pytest.mark.parametrize("seed", range(3))
def test_the_best_schedule_within_a_limit(seed: int) -> None:
    instance = random_instance(
        9200 + seed, arrivals=seed % 2 == 0, most_requests=2, most_prompt=4, most_output=3
    )
    means = [Objective.MEAN_TTFT, Objective.MEAN_LATENCY]
    for ttft, latency in frontier(instance):
        for objective, best, limit in zip(means, (ttft, latency), (latency, ttft), strict=True):
            (other,) = set(means) - {objective}
            options = SolveOptions(objective=objective, subject_to={other: limit * (1 + 1e-9)})
            result = solve(instance, options)
            assert result.optimal
            assert result.value == pytest.approx(best, rel=2e-6)


@pytest.mark.parametrize("limited", list(Objective))
def test_a_limit_beyond_its_bound_leaves_no_schedule(limited: Objective) -> None:
    instance = random_instance(9300, most_prompt=4, most_output=3, slos=True)
    best, _ = optimum(instance, objective=limited)
    limit = best + 1 if limited.maximised else best / 10
    objective = Objective.MEAN_TTFT if limited is not Objective.MEAN_TTFT else Objective.MAKESPAN
    result = solve(instance, SolveOptions(objective=objective, subject_to={limited: limit}))
    assert result.termination == "infeasible"
    assert result.schedule is None
    assert repr(limit) in result.scope
    assert limited.value in result.scope
