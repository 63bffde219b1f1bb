"""Each rule is stated by the family of its name: without it, solutions break just that rule."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from optsched.check import RULES as CHECKED
from optsched.check import check
from optsched.constraints.compact import FAMILIES, PRICES, RULES, STRENGTHENING, build
from optsched.errors import InfeasibleError
from optsched.instance import Instance, Limits, Request
from optsched.model.compact import POLICIES, CompactVariables
from optsched.model.compact_horizon import horizon
from optsched.simulate import simulate
from optsched.solvers import solver
from optsched.solvers.outcome import SolverOptions
from tests.oracle import optimum
from tests.tiny import LINEAR, random_instance

OPTIONS = SolverOptions(relative_gap=1e-6)


def solutions(left_out: str, policies: tuple[str, ...], seeds: range):
    """Instances and what the formulation without one family takes for their optimal schedule."""
    solve = solver("highs")
    families = {name: family for name, family in FAMILIES.items() if name != left_out}
    for seed in seeds:
        instance = random_instance(seed, most_requests=2, most_prompt=4, most_output=3, tight=True)
        try:
            makespan_s, _ = optimum(instance, policies)
        except InfeasibleError:
            continue
        variables = CompactVariables(
            instance, horizon(instance, makespan_s), policies, strengthened=False
        )
        outcome = solve(build(variables, families), OPTIONS)
        assert outcome.point is not None, seed
        yield instance, variables.decode(outcome.point), variables, outcome, makespan_s


def test_families_are_named_after_the_rules():
    offline = set(CHECKED) - {"host_capacity", "arrival", "pause", "clock"}
    assert set(RULES) == offline | (set(POLICIES) - {"no-swap"})
    assert set(FAMILIES) == {*RULES, *PRICES, *STRENGTHENING}


@pytest.mark.parametrize("rule", RULES)
def test_without_its_family_a_rule_is_broken(rule):
    policies = (rule,) if rule in POLICIES else ()
    broken = set()
    for instance, schedule, *_ in solutions(rule, policies, range(60)):
        broken = {violation.rule for violation in check(instance, schedule, policies=policies)}
        if broken:
            break
    assert rule in broken


def test_without_the_prices_the_optimum_is_too_cheap():
    cheaper = 0
    for instance, schedule, variables, outcome, makespan_s in solutions(
        "batch_time", (), range(20)
    ):
        assert check(instance, schedule) == ()
        claimed = build(variables).value(outcome.point)
        assert claimed <= makespan_s * (1 + 1e-6)
        cheaper += claimed < simulate(instance, schedule).makespan_s * (1 - 1e-6)
    assert cheaper > 5


@pytest.mark.parametrize("left_out", [None, *STRENGTHENING])
def test_strengthening_changes_no_optimum(left_out):
    solve = solver("highs")
    families = {name: family for name, family in FAMILIES.items() if name != left_out}
    for seed in range(15):
        instance = random_instance(seed, most_requests=3, most_prompt=3, most_output=2)
        makespan_s, _ = optimum(instance)
        variables = CompactVariables(instance, horizon(instance, makespan_s))
        outcome = solve(build(variables, families), OPTIONS)
        assert outcome.bound == pytest.approx(makespan_s, rel=1e-5), seed


def relaxed(instance: Instance, batches: int, *, strengthened: bool) -> float:
    """Value of the linear relaxation: the bound of a run that stops at its root."""
    milp = build(CompactVariables(instance, batches, strengthened=strengthened))
    continuous = np.zeros_like(milp.integer)
    outcome = solver("highs")(
        type(milp)(**{**vars(milp), "integer": continuous}), OPTIONS
    )  # fmt: skip
    assert outcome.bound is not None
    return outcome.bound


def test_strengthening_nearly_closes_the_gap_of_the_relaxation():
    """I = O = 2 requests, two at a time: 4 % below the optimum instead of 40 %."""
    requests = tuple(Request(id=f"r{i}", prompt_tokens=4, output_tokens=3) for i in range(3))
    limits = Limits(kv_tokens=8, batch_tokens=4096)
    instance = Instance(name="three", limits=limits, cost=LINEAR, requests=requests)
    best = optimum(instance)[0]
    batches = horizon(instance, best)
    weak = relaxed(instance, batches, strengthened=False)
    strong = relaxed(instance, batches, strengthened=True)
    print(weak / best, strong / best)
    assert weak < 0.7 * best
    assert 0.95 * best < strong <= best * (1 + 1e-9)


def test_rules_without_a_limit_have_no_rows():
    instance = random_instance(0, most_requests=2)
    variables = CompactVariables(instance, horizon(instance))
    for rule in ("prefill_tokens", "batch_requests", *POLICIES[:4]):
        assert RULES[rule](instance, variables).rows == 0, rule
    assert not any(
        np.isnan(block.values).any() for block in itertools.chain(build(variables).blocks)
    )
