"""Each rule is stated by the family of its name: without it, solutions break just that rule."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from optsched.check import RULES as CHECKED
from optsched.check import check
from optsched.constraints.compact import DEFINITIONS, FAMILIES, RULES, STRENGTHENING, build
from optsched.errors import InfeasibleError
from optsched.handling import HANDLINGS
from optsched.instance import Instance, Limits, Request
from optsched.model.compact import POLICIES, CompactVariables
from optsched.model.horizon import most_batches
from optsched.model.milp import FloatArray, Milp
from optsched.simulate import simulate
from optsched.solvers import solver
from optsched.solvers.outcome import SolverOptions
from optsched.warmstart.serial import serial
from tests.oracle import optimum
from tests.tiny import LINEAR, random_instance

OPTIONS = SolverOptions(relative_gap=1e-6)


def cases(policies: tuple[str, ...], seeds: range) -> Iterator[tuple[int, Instance, int]]:
    """Seeds, instances that have a schedule, and one batch more than an optimal schedule needs.
    Policy ``fcfs`` is about requests that do not arrive at once."""
    for seed in seeds:
        instance = random_instance(
            seed, most_requests=2, most_prompt=4, most_output=3, tight=True,
            arrivals="fcfs" in policies,
        )  # fmt: skip
        try:
            best = optimum(instance, policies)[1]
        except InfeasibleError:
            continue
        yield seed, instance, best.batch_count + 1


def any_point(milp: Milp, seed: int) -> FloatArray:
    """For even seeds an optimum, for odd ones a point that is best for random costs."""
    random_costs = np.random.default_rng(seed).normal(size=milp.columns)
    costs = random_costs / np.maximum(1.0, milp.upper) if seed % 2 else milp.cost
    outcome = solver("highs")(replace(milp, cost=costs), OPTIONS)
    assert outcome.point is not None, seed
    return outcome.point


def test_families_are_named_after_the_rules():
    timeless = set(CHECKED) - {"arrival", "pause", "clock"}
    # Nonpreemptive is no-evict, no-chunk and no-hold together.
    assert set(RULES) == timeless | (set(POLICIES) - {"no-swap", "nonpreemptive"})
    assert {"arrival", "pause", "clock"} <= set(DEFINITIONS)
    assert set(FAMILIES) == {*RULES, *DEFINITIONS, *STRENGTHENING}


@pytest.mark.parametrize("strengthened", [False, True])
def test_with_all_families_every_point_is_a_valid_schedule(strengthened):
    for seed, instance, batches in cases((), range(16)):
        variables = CompactVariables(instance, batches + 1, strengthened=strengthened)
        schedule = variables.decode(any_point(build(variables), seed))
        assert check(instance, schedule) == (), seed


@pytest.mark.parametrize("rule", sorted(set(RULES) - {"host_capacity", *HANDLINGS}))
def test_without_its_family_only_that_rule_is_broken(rule):
    """Those of swapping and of calls are in ``test_compact_calls``."""
    policies = (rule,) if rule in POLICIES else ()
    families = {name: family for name, family in FAMILIES.items() if name != rule}
    found = []
    for seed, instance, batches in cases(policies, range(40)):
        variables = CompactVariables(instance, batches, policies, strengthened=False)
        schedule = variables.decode(any_point(build(variables, families), seed))
        found.append({violation.rule for violation in check(instance, schedule, policies=policies)})
        if found[-1] == {rule}:
            return
    pytest.fail(f"{rule}: {found}")


def test_without_the_batch_time_the_optimum_is_too_cheap():
    families = {name: family for name, family in FAMILIES.items() if name != "batch_time"}
    cheaper = 0
    for _, instance, batches in cases((), range(20)):
        variables = CompactVariables(instance, batches, strengthened=False)
        milp = build(variables, families)
        outcome = solver("highs")(milp, OPTIONS)
        assert outcome.point is not None
        schedule = variables.decode(outcome.point)
        assert check(instance, schedule) == ()
        makespan_s = simulate(instance, schedule).makespan_s
        claimed_s = milp.value(outcome.point)
        assert claimed_s <= makespan_s * (1 + 1e-6)
        cheaper += claimed_s < makespan_s * (1 - 1e-6)
    assert cheaper > 5


@pytest.mark.parametrize("left_out", [None, *STRENGTHENING])
def test_strengthening_changes_no_optimum(left_out):
    solve = solver("highs")
    families = {name: family for name, family in FAMILIES.items() if name != left_out}
    for seed in range(15):
        instance = random_instance(seed, most_requests=3, most_prompt=3, most_output=2)
        makespan_s, _ = optimum(instance)
        variables = CompactVariables(instance, most_batches(instance, makespan_s))
        outcome = solve(build(variables, families), OPTIONS)
        assert outcome.bound == pytest.approx(makespan_s, rel=1e-5), seed


def relaxed(instance: Instance, batches: int, *, strengthened: bool) -> float:
    """Value of the linear relaxation: the bound of a run that stops at its root."""
    milp = build(CompactVariables(instance, batches, strengthened=strengthened))
    outcome = solver("highs")(replace(milp, integer=np.zeros_like(milp.integer)), OPTIONS)
    assert outcome.bound is not None
    return outcome.bound


def test_strengthening_nearly_closes_the_gap_of_the_relaxation():
    """Three requests, two fit: 0.3 % below the optimum instead of 50 %."""
    requests = tuple(Request(id=f"r{i}", prompt_tokens=4, output_tokens=3) for i in range(3))
    limits = Limits(kv_tokens=8, batch_tokens=4096)
    instance = Instance(name="three", limits=limits, cost=LINEAR, requests=requests)
    best = optimum(instance)[0]
    batches = most_batches(instance, best)
    weak = relaxed(instance, batches, strengthened=False)
    strong = relaxed(instance, batches, strengthened=True)
    assert weak < 0.6 * best
    assert 0.98 * best < strong <= best * (1 + 1e-9)


def test_rules_without_a_limit_have_no_rows():
    instance = random_instance(0, most_requests=2)
    variables = CompactVariables(
        instance, most_batches(instance, simulate(instance, serial(instance)).makespan_s)
    )
    for rule in ("prefill_tokens", "batch_requests", "host_capacity", *POLICIES[:5], *HANDLINGS):
        assert RULES[rule](instance, variables).rows == 0, rule
    for name in set(DEFINITIONS) - {"steps", "batch_time"}:
        assert DEFINITIONS[name](instance, variables).rows == 0, name
