"""Random tiny instances, policies and objectives for the network formulation's tests."""

from __future__ import annotations

import random

import pytest

from optsched.instance import Instance
from optsched.objective import Objective
from optsched.schedule import Schedule
from optsched.simulate import objective_value, simulate
from tests.tiny import random_instance

POLICIES = ("no-evict", "no-hybrid", "no-hold", "fcfs", "nonpreemptive", "no-swap")


def clock_case(
    seed: int, objective: Objective | None = None
) -> tuple[Instance, list[str], Objective]:
    """An instance, offline or with arrivals, with weights and SLOs; some policies; an objective."""
    rng = random.Random(f"clock {seed}")
    instance = random_instance(
        seed, most_requests=rng.choice([2, 3, 3, 4]), most_prompt=5,
        most_output=rng.choice([2, 3, 4]), pages=rng.random() < 0.3, tight=rng.random() < 0.4,
        arrivals=rng.random() < 0.7, slos=True,
    )  # fmt: skip
    policies = [policy for policy in POLICIES if rng.random() < 0.15]
    return instance, policies, objective or rng.choice(list(Objective))


def to_minimise(instance: Instance, objective: Objective, value: float) -> float:
    """The value as the program counts it: for goodput the weight that is missed."""
    if objective.maximised:
        return instance.total_weight - value
    return value


def cost_of(instance: Instance, schedule: Schedule, objective: Objective) -> float:
    """The schedule's simulated value as the program counts it."""
    value = objective_value(instance, simulate(instance, schedule), objective)
    return to_minimise(instance, objective, value)


def close(expected: float) -> object:
    """Within what a solver leaves."""
    return pytest.approx(expected, rel=1e-6, abs=1e-9)
