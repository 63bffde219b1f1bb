"""Chunked programs of the network formulation against the exhaustive search over all chunks."""

from __future__ import annotations

import random

import msgspec
import numpy as np
import pytest

from optsched.check import check
from optsched.constraints.network import build
from optsched.errors import UnsupportedError
from optsched.instance import Instance
from optsched.model.horizon import most_batches
from optsched.model.milp import Milp
from optsched.model.network import NetworkVariables, bounding_variables
from optsched.model.scope import chunking_is_exact, relaxation_is_valid
from optsched.simulate import simulate
from optsched.solvers import solver
from optsched.solvers.outcome import SolverOptions, Termination
from tests.oracle import optimum
from tests.tiny import random_instance


def _minimum(milp: Milp) -> np.ndarray:
    outcome = solver("highs")(milp, SolverOptions(relative_gap=0.0))
    assert outcome.termination is Termination.FINISHED, outcome.message
    assert outcome.point is not None
    return outcome.point


def _case(seed: int, *, free_chunks: bool) -> tuple[Instance, list[str]]:
    rng = random.Random(seed)
    instance = random_instance(
        seed, most_requests=rng.choice([2, 3]), most_prompt=rng.choice([4, 6]),
        pages=not free_chunks and rng.random() < 0.4, tight=rng.random() < 0.7,
    )  # fmt: skip
    if free_chunks:
        cost = msgspec.structs.replace(
            instance.cost, p_kv=0.0, p_req=0.0, d0=0.0, d_req=0.0, p_mc=None,
            d_kv=instance.cost.d_kv * rng.choice([0, 0.01, 1]),
            p_sq=rng.choice([0, instance.cost.p_sq, 1e-4]),
        )  # fmt: skip
        limits = msgspec.structs.replace(instance.limits, batch_requests=None)
        instance = msgspec.structs.replace(instance, cost=cost, limits=limits)
    policies = [p for p in ("no-evict", "no-hybrid") if rng.random() < 0.15]
    return instance, policies


@pytest.mark.parametrize("seeds", [range(k, k + 40) for k in range(0, 160, 40)], ids=str)
def test_chunked_optimum_equals_the_exhaustive_one_where_it_is_exact(seeds: range) -> None:
    compared = chunks_help = refused = 0
    for seed in seeds:
        instance, policies = _case(seed, free_chunks=True)
        if not chunking_is_exact(instance, policies).holds:
            continue
        expected, best = optimum(instance, policies)
        most = most_batches(instance, expected)
        variables = NetworkVariables(instance, least=1, most=most, chunking=True, policies=policies)
        milp = build(variables)
        point = _minimum(milp)
        schedule = variables.decode(point)
        assert milp.value(point) == pytest.approx(expected, rel=1e-6), seed
        assert check(instance, schedule, policies=policies) == (), seed
        assert simulate(instance, schedule).makespan_s == pytest.approx(expected, rel=1e-6), seed
        assert milp.value(variables.encode(schedule)) == pytest.approx(expected, rel=1e-6), seed
        try:
            start = variables.encode(best)
        except UnsupportedError:
            refused += 1  # the search may return a schedule with two partial fills
        else:
            assert milp.matrix().violation(start) < 1e-9, seed
            assert milp.value(start) == pytest.approx(expected, rel=1e-9), seed
            chunks_help += bool(start[variables.partials.begun].any())
        compared += 1
    assert compared >= 20
    assert chunks_help >= 3
    assert refused < compared / 2


@pytest.mark.parametrize("seeds", [range(k, k + 30) for k in range(0, 120, 30)], ids=str)
def test_chunked_programs_enclose_the_exhaustive_optimum(seeds: range) -> None:
    """Free chunks bound every schedule from below; priced ones are schedules."""
    compared = tight = 0
    for seed in seeds:
        instance, policies = _case(seed, free_chunks=False)
        if not relaxation_is_valid(instance, policies).holds:
            continue
        expected, best = optimum(instance, policies)
        most = most_batches(instance, expected)
        relaxed = build(bounding_variables(instance, least=1, most=most, policies=policies))
        bound = relaxed.value(_minimum(relaxed))
        assert bound <= expected * (1 + 1e-6), seed
        tight += bound >= expected * (1 - 1e-6)

        priced = NetworkVariables(
            instance, least=1, most=max(most, best.batch_count + 2), chunking=True,
            policies=policies,
        )  # fmt: skip
        milp = build(priced)
        outcome = solver("highs")(milp, SolverOptions())
        if outcome.point is not None:
            schedule = priced.decode(outcome.point)
            assert check(instance, schedule, policies=policies) == (), seed
            makespan = simulate(instance, schedule).makespan_s
            assert expected * (1 - 1e-9) <= makespan <= milp.value(outcome.point) * (1 + 1e-6), seed
        compared += 1
    assert compared >= 15
    assert tight >= compared / 2
