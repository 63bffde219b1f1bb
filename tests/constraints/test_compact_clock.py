"""The compact formulation with a clock: its optimum equals the exhaustive search's."""

from __future__ import annotations

import random
from dataclasses import replace

import msgspec
import numpy as np
import pytest

from optsched.check import check
from optsched.constraints.compact import FAMILIES, build
from optsched.cost import CostModel
from optsched.errors import InfeasibleError
from optsched.handling import HANDLINGS
from optsched.instance import Instance, Limits, Request
from optsched.model.compact import POLICIES, CompactVariables
from optsched.model.horizon import batch_horizon
from optsched.model.milp import Milp
from optsched.objective import Objective
from optsched.schedule import Schedule
from optsched.simulate import objective_value, simulate
from optsched.solvers import solver
from optsched.solvers.outcome import Outcome, SolverOptions, Termination
from tests.oracle import optimum
from tests.tiny import LINEAR, random_instance

OBJECTIVES = list(Objective)
PER_OBJECTIVE = 16


def draw(seed: int, objective: Objective) -> tuple[Instance, tuple[str, ...], random.Random]:
    """An instance, mostly with arrivals, and policies."""
    rng = random.Random(f"{seed} {objective}")
    requests = rng.choice([2, 2, 3])
    most_prompt, most_output = (4, 3) if requests == 2 else (3, 2)
    offline, pages, tight = rng.random() < 0.25, rng.random() < 0.3, rng.random() < 0.5
    while True:
        instance = random_instance(
            rng.randrange(10**6), most_requests=requests, pages=pages, tight=tight,
            arrivals=not offline, slos=True, most_prompt=most_prompt, most_output=most_output,
        )  # fmt: skip
        if instance.offline == offline and len(instance) > 1:
            break
    if rng.random() < 0.2:
        coefficients = {"p_sq": rng.choice([0.0, 3e-4]), "p_mc": rng.choice([0.0, 1e-4, 1e-3])}
        cost = msgspec.structs.replace(instance.cost, **coefficients)
        instance = msgspec.structs.replace(instance, cost=cost)
    plain = [name for name in POLICIES if name not in HANDLINGS]
    policies = tuple(name for name in plain if rng.random() < 0.12)
    return instance, policies, rng


def minimum(milp: Milp) -> Outcome:
    return solver("highs")(milp, SolverOptions(relative_gap=1e-7))


def worth(instance: Instance, objective: Objective, value: float) -> float:
    """What a program minimises: seconds, or the weight that misses."""
    weight = instance.total_weight
    return weight - value if objective.maximised else value


def timed(instance: Instance, schedule: Schedule, objective: Objective) -> float:
    value = objective_value(instance, simulate(instance, schedule), objective)
    return worth(instance, objective, value)


def assert_optimal(
    instance: Instance, policies: tuple[str, ...], variables: CompactVariables, best: float
) -> None:
    """The program's optimum, its bound, and its schedule timed again are ``best``."""
    milp = build(variables)
    outcome = minimum(milp)
    assert outcome.point is not None
    schedule = variables.decode(outcome.point)
    assert check(instance, schedule, policies=policies) == ()
    found = (
        milp.value(outcome.point), outcome.bound,
        timed(instance, schedule, variables.goal.objective),
    )  # fmt: skip
    assert found == pytest.approx((best, best, best), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_optimum_equals_the_exhaustive_search(objective):
    solved = arrivals = 0
    for seed in range(PER_OBJECTIVE):
        instance, policies, rng = draw(seed, objective)
        try:
            value, best = optimum(instance, policies, objective=objective)
        except InfeasibleError:
            with pytest.raises(InfeasibleError):
                CompactVariables(instance, 50, policies, objective=objective)
            continue
        variables = CompactVariables(
            instance, best.batch_count + rng.choice([0, 1]), policies, objective=objective,
            cutoff=rng.choice([None, value]), strengthened=rng.random() < 0.7,
        )  # fmt: skip
        expected = worth(instance, objective, value)
        point = variables.encode(best)
        milp = build(variables)
        assert max(block.violation(point) for block in milp.blocks) <= 1e-6, seed
        assert milp.value(point) == pytest.approx(expected, rel=1e-9, abs=1e-12), seed
        assert_optimal(instance, policies, variables, expected)
        solved += 1
        arrivals += not instance.offline
    assert solved > PER_OBJECTIVE / 2
    assert arrivals > PER_OBJECTIVE / 3


@pytest.mark.parametrize("objective", OBJECTIVES[1:4])
def test_within_the_horizon_of_a_worse_schedule_the_optimum_is_the_same(objective):
    policies = ("no-chunk",)
    for seed in range(3):
        instance = random_instance(
            seed + 40, most_requests=2, most_prompt=3, most_output=2, arrivals=True
        )
        value, _ = optimum(instance, policies, objective=objective)
        horizon = batch_horizon(instance, objective, 1.1 * value, unchunked=True)
        assert horizon.rigorous
        variables = CompactVariables(
            instance, horizon.batches, policies, objective=objective, cutoff=1.1 * value
        )
        assert_optimal(instance, policies, variables, value)


@pytest.mark.parametrize("factor", [1e-4, 1e5])
def test_the_unit_of_time_does_not_matter(factor):
    for seed, objective in enumerate(OBJECTIVES):
        instance = in_units(random_instance(
            seed + 10, most_requests=2, most_prompt=3, most_output=2, arrivals=True, slos=True
        ), factor)  # fmt: skip
        value, best = optimum(instance, objective=objective)
        variables = CompactVariables(instance, best.batch_count, objective=objective)
        milp = build(variables)
        outcome = minimum(milp)
        expected = worth(instance, objective, value)
        assert outcome.bound == pytest.approx(expected, rel=1e-6, abs=1e-9 * factor), objective


def in_units(instance: Instance, factor: float) -> Instance:
    """The same instance with all times multiplied."""
    cost = instance.cost
    names = ("d0", "d_kv", "d_req", "p0", "p_sq", "p_mc", "p_kv", "p_req")
    changes = {name: factor * getattr(cost, name) for name in names}
    pieces = tuple((factor * alpha, factor * beta) for alpha, beta in cost.pieces)
    times = ("arrival_s", "ttft_slo_s", "tpot_slo_s", "latency_slo_s")
    requests = tuple(
        msgspec.structs.replace(request, **{
            name: factor * getattr(request, name)
            for name in times if getattr(request, name) is not None
        })
        for request in instance.requests
    )  # fmt: skip
    cost = msgspec.structs.replace(cost, pieces=pieces, **changes)
    return msgspec.structs.replace(instance, cost=cost, requests=requests)


def test_requests_an_hour_apart_are_as_exact_as_others():
    for seed, objective in enumerate((*OBJECTIVES[1:], *OBJECTIVES[1:])):
        rng = random.Random(seed)
        instance = random_instance(seed + 20, most_requests=3, most_prompt=3, slos=True)
        instance = msgspec.structs.replace(instance, requests=tuple(
            msgspec.structs.replace(request, arrival_s=rng.choice([0.0, 0.01, 3600.0]))
            for request in instance.requests
        ))  # fmt: skip
        value, best = optimum(instance, objective=objective)
        variables = CompactVariables(instance, best.batch_count, objective=objective, cutoff=value)
        assert_optimal(instance, (), variables, worth(instance, objective, value))


def test_a_second_objective_within_the_optimum_of_the_first():
    better = 0
    for seed in range(6):
        rng = random.Random(seed)
        first, second = rng.sample(OBJECTIVES, 2)
        instance = random_instance(
            seed + 30, most_requests=3, most_prompt=3, most_output=2, arrivals=seed % 2 == 0,
            slos=True,
        )  # fmt: skip
        value, best = optimum(instance, objective=first)
        variables = CompactVariables(
            instance, best.batch_count, objective=second, at_most={first: value}
        )
        milp = build(variables)
        outcome = minimum(milp)
        assert outcome.point is not None
        schedule = variables.decode(outcome.point)
        expected = worth(instance, first, value)
        assert timed(instance, schedule, first) == pytest.approx(expected, rel=1e-6), seed
        alone = worth(instance, second, optimum(instance, objective=second)[0])
        achieved, before = (timed(instance, s, second) for s in (schedule, best))
        assert alone * (1 - 1e-6) <= achieved <= before * (1 + 1e-6), seed
        better += achieved < before * (1 - 1e-6)

        beyond = value + 0.2 if first.maximised else value * (1 - 1e-4)
        if first.maximised and expected < 0.2:
            continue  # everything is met
        variables = CompactVariables(
            instance, best.batch_count, objective=second, at_most={first: beyond}
        )
        assert minimum(build(variables)).termination is Termination.INFEASIBLE, seed
    assert better > 0


def test_nobody_waits_to_shorten_the_time_after_a_first_token():
    """r1 must be filled at once when it arrives. r0 decodes before, and r1 is late, or after, and
    r0 has too long between its tokens, unless its fill is put off, which is not allowed."""
    requests = (
        Request(id="r0", prompt_tokens=1, output_tokens=2, tpot_slo_s=2.2, ttft_slo_s=1.7),
        Request(id="r1", prompt_tokens=1, output_tokens=1, arrival_s=1.5, ttft_slo_s=1.2),
    )
    limits = Limits(kv_tokens=8, batch_tokens=8, batch_requests=1)
    cost = CostModel(pieces=((1.0, 0.0),))
    instance = Instance(name="waiting", limits=limits, cost=cost, requests=requests)
    variables = CompactVariables(instance, 4, objective=Objective.GOODPUT)
    assert variables.clock is not None
    assert variables.clock.exact
    assert optimum(instance, objective=Objective.GOODPUT)[0] == 1.0
    assert_optimal(instance, (), variables, 1.0)
    # The clock's upper sides are what forbids it.
    variables.clock = replace(variables.clock, exact=False)
    assert minimum(build(variables)).bound == pytest.approx(0.0, abs=1e-9)


def test_nor_does_a_batch_take_longer_than_it_must():
    """As above, but a decode has a set-up, which a batch of prefills must not pay; a refill has
    none, so evictions are ruled out."""
    requests = (
        Request(id="r0", prompt_tokens=1, output_tokens=2, tpot_slo_s=2.4, ttft_slo_s=1.7),
        Request(id="r1", prompt_tokens=1, output_tokens=1, arrival_s=1.3, ttft_slo_s=1.1),
    )
    limits = Limits(kv_tokens=8, batch_tokens=8, batch_requests=1)
    cost = CostModel(pieces=((1.0, 0.0),), d0=0.2, p0=0.0)
    instance = Instance(name="longer", limits=limits, cost=cost, requests=requests)
    variables = CompactVariables(instance, 4, ("no-evict",), objective=Objective.GOODPUT)
    assert_optimal(instance, ("no-evict",), variables, 1.0)
    families = {name: family for name, family in FAMILIES.items() if name != "exact_time"}
    assert minimum(build(variables, families)).bound == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("left_out", ["clock", "arrival", "phases", "limits"])
def test_without_what_defines_times_the_optimum_is_too_good(left_out):
    families = {name: family for name, family in FAMILIES.items() if name != left_out}
    objective = Objective.MAX_LATENCY if left_out == "limits" else Objective.MEAN_LATENCY
    requests = tuple(
        Request(id=f"r{i}", prompt_tokens=2, output_tokens=2, arrival_s=0.05 * i) for i in range(2)
    )
    limits = Limits(kv_tokens=3, batch_tokens=8)
    instance = Instance(name="late", limits=limits, cost=LINEAR, requests=requests)
    value, best = optimum(instance, objective=objective)
    variables = CompactVariables(
        instance, best.batch_count, objective=objective, strengthened=False
    )
    assert minimum(build(variables)).bound == pytest.approx(value, rel=1e-6)
    outcome = minimum(build(variables, families))
    assert outcome.bound is not None
    assert outcome.bound < 0.9 * value


def relaxed(variables: CompactVariables) -> float:
    """Value of the linear relaxation."""
    milp = build(variables)
    bound = minimum(replace(milp, integer=np.zeros_like(milp.integer))).bound
    assert bound is not None
    return bound


@pytest.mark.parametrize(
    ("objective", "strong"),
    [(Objective.MAKESPAN, 0.95), (Objective.MEAN_LATENCY, 0.95), (Objective.MEAN_TTFT, 0.9)],
)
def test_strengthening_nearly_closes_the_gap_of_the_relaxation(objective, strong):
    requests = tuple(
        Request(id=f"r{i}", prompt_tokens=4, output_tokens=3, arrival_s=0.012 * i) for i in range(3)
    )
    limits = Limits(kv_tokens=8, batch_tokens=4096)
    instance = Instance(name="three", limits=limits, cost=LINEAR, requests=requests)
    value, best = optimum(instance, objective=objective)
    bounds = [
        relaxed(CompactVariables(
            instance, best.batch_count, objective=objective, strengthened=strengthened
        ))
        for strengthened in (False, True)
    ]  # fmt: skip
    assert bounds[0] < 0.7 * value
    assert strong * value < bounds[1] <= value * (1 + 1e-9)
