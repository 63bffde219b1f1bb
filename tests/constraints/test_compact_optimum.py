"""The compact formulation's optimum equals the exhaustive search's."""

from __future__ import annotations

import random

import msgspec
import numpy as np
import pytest

from optsched.check import check
from optsched.constraints.compact import build
from optsched.errors import InfeasibleError
from optsched.instance import Instance
from optsched.model.compact import CompactVariables
from optsched.model.horizon import most_batches
from optsched.simulate import simulate
from optsched.solvers import solver
from optsched.solvers.outcome import SolverOptions
from optsched.warmstart.serial import serial
from tests.oracle import optimum
from tests.tiny import random_instance

POLICIES = ("no-evict", "no-chunk", "no-hybrid", "no-hold")
GROUPS = 8
PER_GROUP = 40


def draw(seed: int) -> tuple[Instance, tuple[str, ...], bool]:
    """An instance, policies, and whether to strengthen the formulation (always, if it is large)."""
    rng = random.Random(seed)
    requests = rng.choice([1, 2, 2, 3])
    instance = random_instance(
        seed, most_requests=requests, most_prompt=rng.choice([3, 5]),
        most_output=rng.choice([2, 3]), pages=rng.random() < 0.4, tight=rng.random() < 0.6,
    )  # fmt: skip
    if rng.random() < 0.3:
        coefficients = {
            "p_sq": rng.choice([0.0, 2e-5, 3e-4]),
            "p_mc": rng.choice([0.0, 1e-4, 1e-3]),
        }
        cost = msgspec.structs.replace(instance.cost, **coefficients)
        instance = msgspec.structs.replace(instance, cost=cost)
    policies = tuple(name for name in POLICIES if rng.random() < 0.15)
    return instance, policies, requests == 3 or rng.random() < 0.5


@pytest.mark.parametrize("group", range(GROUPS))
def test_the_optimum_equals_the_exhaustive_search(group):
    solve, solved = solver("highs"), 0
    for seed in range(group * PER_GROUP, (group + 1) * PER_GROUP):
        instance, policies, strengthened = draw(seed)
        try:
            makespan_s, best = optimum(instance, policies)
        except InfeasibleError:
            with pytest.raises(InfeasibleError):
                CompactVariables(instance, 50, policies)
            continue
        batches = most_batches(instance, makespan_s)
        variables = CompactVariables(instance, batches, policies, strengthened=strengthened)
        milp = build(variables)
        point = variables.encode(best)
        assert max(block.violation(point) for block in milp.blocks) <= 1e-6, seed
        assert milp.value(point) == pytest.approx(makespan_s, rel=1e-9), seed
        assert np.array_equal(variables.encode(variables.decode(point)), point), seed

        outcome = solve(milp, SolverOptions(relative_gap=1e-7))
        assert outcome.point is not None, seed
        assert milp.value(outcome.point) == pytest.approx(makespan_s, rel=1e-6), seed
        assert outcome.bound == pytest.approx(makespan_s, rel=1e-6), seed
        schedule = variables.decode(outcome.point)
        assert check(instance, schedule, policies=policies) == (), seed
        assert simulate(instance, schedule).makespan_s == pytest.approx(makespan_s, rel=1e-6), seed
        solved += 1
    assert solved > PER_GROUP * 3 / 4


def test_the_optimum_does_not_depend_on_the_upper_bound():
    """A longer horizon leaves its last batches unused, at no cost."""
    solve = solver("highs")
    for seed in range(12):
        instance = random_instance(seed, most_requests=2, most_prompt=3, most_output=2, tight=True)
        variables = CompactVariables(
            instance, most_batches(instance, simulate(instance, serial(instance)).makespan_s)
        )
        outcome = solve(build(variables), SolverOptions(relative_gap=1e-7))
        assert outcome.bound == pytest.approx(optimum(instance)[0], rel=1e-6), seed
