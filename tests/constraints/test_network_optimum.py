"""The network formulation against the exhaustive search, on random tiny instances."""

from __future__ import annotations

import random

import numpy as np
import pytest

from optsched.check import check
from optsched.constraints.network import build
from optsched.errors import InfeasibleError
from optsched.instance import Instance
from optsched.model.horizon import most_batches
from optsched.model.milp import Milp
from optsched.model.network import NetworkVariables
from optsched.simulate import simulate
from optsched.solvers import solver
from optsched.solvers.outcome import SolverOptions, Termination
from tests.oracle import optimum
from tests.tiny import random_instance

BLOCKS_OF_SEEDS = [range(k, k + 30) for k in range(0, 300, 30)]


def _minimum(milp: Milp) -> np.ndarray:
    outcome = solver("highs")(milp, SolverOptions(relative_gap=0.0))
    assert outcome.termination is Termination.FINISHED, outcome.message
    assert outcome.point is not None
    return outcome.point


def _case(seed: int) -> tuple[Instance, list[str]]:
    rng = random.Random(seed)
    instance = random_instance(
        seed, most_requests=rng.choice([2, 3, 4]), most_prompt=5,
        pages=rng.random() < 0.4, tight=rng.random() < 0.5,
    )  # fmt: skip
    policies = [p for p in ("no-evict", "no-hybrid", "no-hold") if rng.random() < 0.2]
    return instance, policies


@pytest.mark.parametrize("seeds", BLOCKS_OF_SEEDS, ids=lambda seeds: f"from-{seeds.start}")
def test_unchunked_optimum_equals_the_exhaustive_one(seeds: range) -> None:
    compared = 0
    for seed in seeds:
        instance, policies = _case(seed)
        try:
            expected, best = optimum(instance, [*policies, "no-chunk"])
        except InfeasibleError:
            continue
        most = most_batches(instance, expected)
        assert best.batch_count <= most, seed
        variables = NetworkVariables(instance, least=1, most=most, policies=policies)
        milp = build(variables)

        start = variables.encode(best)
        assert milp.matrix().violation(start) < 1e-9, seed
        assert (milp.lower <= start).all(), seed
        assert (start <= milp.upper).all(), seed
        assert milp.value(start) == pytest.approx(expected, rel=1e-9), seed
        assert np.allclose(variables.encode(variables.decode(start)), start), seed

        point = _minimum(milp)
        schedule = variables.decode(point)
        assert milp.value(point) == pytest.approx(expected, rel=1e-6), seed
        assert check(instance, schedule, policies=[*policies, "no-chunk"]) == (), seed
        assert simulate(instance, schedule).makespan_s == pytest.approx(expected, rel=1e-6), seed
        compared += 1
    assert compared >= 15


@pytest.mark.parametrize("seed", range(10))
def test_a_fixed_number_of_batches_has_the_optimum_of_that_number(seed: int) -> None:
    instance = random_instance(1000 + seed, most_prompt=5, pages=True)
    policies = ["no-chunk", "no-hybrid"] if seed % 2 else ["no-chunk"]
    expected, best = optimum(instance, policies)
    variables = NetworkVariables(
        instance, least=best.batch_count, most=best.batch_count, policies=policies
    )
    milp = build(variables)
    assert milp.value(_minimum(milp)) == pytest.approx(expected, rel=1e-6)
