"""The compact formulation with calls and swapping: its optimum equals the exhaustive search's."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import msgspec
import numpy as np
import pytest

from optsched.check import check, handlings
from optsched.constraints.compact import FAMILIES, build
from optsched.errors import InfeasibleError
from optsched.instance import Call, Instance, Limits, Request
from optsched.model.compact import CompactVariables
from optsched.model.horizon import batch_horizon
from optsched.model.milp import IntArray
from optsched.objective import Objective
from optsched.schedule import Schedule
from optsched.simulate import objective_value, simulate
from optsched.solvers import solver
from optsched.solvers.outcome import Outcome, SolverOptions
from tests.oracle import optimum
from tests.tiny import LINEAR, random_instance

OBJECTIVES = (
    Objective.MAKESPAN, Objective.MEAN_LATENCY, Objective.MEAN_TTFT, Objective.MAX_LATENCY,
    Objective.GOODPUT,
)  # fmt: skip
HANDLINGS = ("preserve", "discard", "swap")
PER_OBJECTIVE = 14


def draw(seed: int, objective: Objective) -> tuple[Instance, tuple[str, ...], random.Random]:
    """An instance with calls, and policies; every other one may have room on the host."""
    rng = random.Random(f"{seed} {objective}")
    small = rng.random() < 0.25
    instance = random_instance(
        rng.randrange(10**6), most_requests=3 if small else 2, most_prompt=2 if small else 3,
        most_output=2, arrivals=rng.random() < 0.5, pages=rng.random() < 0.2,
        tight=rng.random() < 0.4, calls=True, host_room=seed % 2 == 0, slos=True,
    )  # fmt: skip
    requests = tuple(msgspec.structs.replace(r, tpot_slo_s=None) for r in instance.requests)
    limits = instance.limits
    if rng.random() < 0.5:  # no more memory than the largest request needs
        largest = max(limits.pages(r.final_tokens) for r in requests)
        limits = msgspec.structs.replace(limits, kv_tokens=largest)
    instance = msgspec.structs.replace(instance, requests=requests, limits=limits)
    plain = ("no-evict", "no-chunk", "no-hybrid", "fcfs", "no-swap")
    policies = [name for name in plain if rng.random() < 0.1]
    if rng.random() < 0.4:
        policies.append(rng.choice(HANDLINGS))
    if rng.random() < 0.2:
        policies.append(f"{rng.choice(HANDLINGS)}:{rng.choice(requests).id}")
    return instance, tuple(policies), rng


def minimum(variables: CompactVariables, left_out: str | None = None) -> Outcome:
    families = {name: family for name, family in FAMILIES.items() if name != left_out}
    return solver("highs")(build(variables, families), SolverOptions(relative_gap=1e-7))


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_optimum_equals_the_exhaustive_search(objective):
    handled: Counter[str] = Counter()
    solved = 0
    for seed in range(PER_OBJECTIVE):
        instance, policies, rng = draw(seed, objective)
        try:
            value, best = optimum(instance, policies, objective=objective)
        except InfeasibleError:
            continue
        variables = CompactVariables(
            instance, best.batch_count + rng.choice([0, 1]), policies, objective=objective,
            cutoff=rng.choice([None, value]), strengthened=seed % 8 > 0 or best.batch_count > 5,
        )  # fmt: skip
        expected = instance.total_weight - value if objective.maximised else value
        milp, point = build(variables), variables.encode(best)
        assert max(block.violation(point) for block in milp.blocks) <= 1e-6, seed
        assert milp.value(point) == pytest.approx(expected, rel=1e-9, abs=1e-12), seed

        outcome = minimum(variables)
        assert outcome.point is not None, seed
        schedule = variables.decode(outcome.point)
        trace = simulate(instance, schedule)
        assert check(instance, schedule, trace, policies) == (), seed
        found = objective_value(instance, trace, objective)
        found = instance.total_weight - found if objective.maximised else found
        # A solver's tolerance on a binary that a call's time is multiplied with.
        longest = max(call.duration_s for r in instance.requests for call in r.calls)
        assert (found, outcome.bound) == pytest.approx(
            (expected, expected), rel=1e-6, abs=1e-6 * longest + 1e-9
        ), seed
        calls = [call.handling for call in handlings(instance, schedule)]
        assert list(variables.handlings(outcome.point)) == calls, seed
        handled.update(calls)
        solved += 1
    assert solved > PER_OBJECTIVE / 2
    assert handled["preserve"]
    assert handled["discard"] + handled["swap"]


def tight() -> Instance:
    """One request calls for long, and another one needs its memory meanwhile."""
    calling = Request(
        id="agent", prompt_tokens=4, output_tokens=2,
        calls=(Call(after_tokens=1, duration_s=0.05, response_tokens=2),),
    )  # fmt: skip
    other = Request(id="other", prompt_tokens=3, output_tokens=3)
    limits = Limits(kv_tokens=7, batch_tokens=8, host_kv_tokens=4)
    return Instance(name="tight", limits=limits, cost=LINEAR, requests=(calling, other))


@pytest.mark.parametrize("objective", [Objective.MAKESPAN, Objective.MEAN_LATENCY])
def test_every_handling_has_its_price(objective):
    instance, values = tight(), set()
    for handling in HANDLINGS:
        value, best = optimum(instance, (handling,), objective=objective)
        variables = CompactVariables(
            instance, best.batch_count + 1, (f"{handling}:agent",), objective=objective,
            cutoff=value,
        )  # fmt: skip
        outcome = minimum(variables)
        assert outcome.point is not None
        assert outcome.bound == pytest.approx(value, rel=1e-6)
        assert variables.handlings(outcome.point) == (handling,)
        trace = simulate(instance, variables.decode(outcome.point))
        assert objective_value(instance, trace, objective) == pytest.approx(value, rel=1e-6)
        values.add(round(value, 9))
    assert len(values) == 3


@pytest.mark.parametrize("left_out", ["calls", "pause", "host"])
def test_without_what_defines_calls_and_swaps_the_optimum_is_too_good(left_out):
    instance = tight()
    policies = ("swap",) if left_out == "host" else ("preserve",)
    value, best = optimum(instance, policies, objective=Objective.MEAN_LATENCY)
    variables = CompactVariables(
        instance, best.batch_count, policies, objective=Objective.MEAN_LATENCY,
        strengthened=False, cutoff=value,
    )  # fmt: skip
    outcome = minimum(variables, left_out)
    assert outcome.bound is not None
    assert outcome.bound < value * (1 - 1e-4)


def any_schedule(variables: CompactVariables, left_out: str, gains: IntArray) -> Schedule:
    """One with as much as possible of ``gains`` that all families but one allow."""
    families = {name: family for name, family in FAMILIES.items() if name != left_out}
    milp = build(variables, families)
    cost = np.zeros(milp.columns)
    cost[gains[gains >= 0]] = -1.0
    outcome = solver("highs")(replace(milp, cost=cost), SolverOptions(relative_gap=1e-6))
    assert outcome.point is not None
    return variables.decode(outcome.point)


@pytest.mark.parametrize("handling", HANDLINGS)
def test_without_its_family_a_handling_is_free(handling):
    instance = tight()
    variables = CompactVariables(instance, 5, (handling,), strengthened=False)
    others = [k for k, name in enumerate(HANDLINGS) if name != handling]
    # Between a call and the batch that resumes from it, so that it counts.
    gains = np.concatenate([variables["handlings"][0, others], variables["made"][0]])
    gains = np.concatenate([gains, variables["resumed"][0, -1:]])
    schedule = any_schedule(variables, handling, gains)
    assert {v.rule for v in check(instance, schedule, policies=(handling,))} == {handling}
    schedule = any_schedule(variables, "", gains)
    assert check(instance, schedule, policies=(handling,)) == ()


def test_without_its_family_the_host_has_no_end():
    requests = tuple(Request(id=f"r{i}", prompt_tokens=2, output_tokens=2) for i in range(3))
    limits = Limits(kv_tokens=9, batch_tokens=9, host_kv_tokens=3)
    instance = Instance(name="host", limits=limits, cost=LINEAR, requests=requests)
    variables = CompactVariables(instance, 4, strengthened=False)
    away = variables["away"]
    schedule = any_schedule(variables, "host_capacity", away)
    assert {v.rule for v in check(instance, schedule)} == {"host_capacity"}
    assert check(instance, any_schedule(variables, "", away)) == ()


def test_within_the_horizon_of_the_optimum_the_optimum_is_the_same():
    fewer = 0
    for seed in range(8):
        instance = random_instance(
            seed, most_requests=2, most_prompt=2, most_output=2, calls=True, arrivals=seed % 2 == 0,
            host_room=seed % 3 == 0,
        )  # fmt: skip
        objective = OBJECTIVES[seed % 4]
        value, best = optimum(instance, objective=objective)
        horizon = batch_horizon(instance, objective, 1.01 * value, unchunked=False)
        assert horizon.rigorous, seed
        fewer += horizon.batches < 2 * best.batch_count + 2
        variables = CompactVariables(
            instance, min(horizon.batches, best.batch_count + 2), objective=objective,
            cutoff=1.01 * value,
        )  # fmt: skip
        assert minimum(variables).bound == pytest.approx(value, rel=1e-5), seed
    assert fewer > 2
