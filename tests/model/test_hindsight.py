"""The hindsight program against the exhaustive search, on random tiny instances."""

from __future__ import annotations

import random

import msgspec
import numpy as np
import pytest

from optsched.check import require_valid
from optsched.errors import UnsupportedError
from optsched.instance import Instance, Request
from optsched.io.presets import preset
from optsched.model.hindsight import applies, rounds_of
from optsched.model.hindsight_program import HindsightVariables, build
from optsched.objective import Objective
from optsched.schedule import Schedule, from_steps
from optsched.simulate import objective_value, simulate
from optsched.solvers import solver
from optsched.solvers.outcome import SolverOptions, Termination
from tests.oracle import optimum
from tests.tiny import random_instance
from tests.unit_rounds import unit_instance

NONPREEMPTIVE = ("nonpreemptive",)
BLOCKS_OF_SEEDS = [range(k, k + 30) for k in range(0, 120, 30)]


def _value(instance: Instance, schedule: Schedule, objective: Objective) -> float:
    require_valid(instance, schedule, policies=NONPREEMPTIVE)
    return objective_value(instance, simulate(instance, schedule), objective)


@pytest.mark.parametrize("seeds", BLOCKS_OF_SEEDS, ids=lambda seeds: f"from-{seeds.start}")
def test_optimum_equals_the_exhaustive_one(seeds: range) -> None:
    for seed in seeds:
        instance = unit_instance(seed)
        objective = list(Objective)[seed % 4]  # all but goodput
        assert objective is not Objective.GOODPUT
        expected, best = optimum(instance, NONPREEMPTIVE, objective=objective)
        horizon = None
        if objective is Objective.MEAN_LATENCY:
            horizon = rounds_of(instance).horizon_within(expected * len(instance))
        variables = HindsightVariables(instance, objective=objective, horizon=horizon)
        milp = build(variables)

        try:
            start = variables.encode(best)
        except UnsupportedError:
            # What runs waits for an arrival, which rounds do not know.
            assert not instance.offline, seed
            start = None
        if start is not None:
            assert milp.matrix().violation(start) < 1e-9, seed
            assert (start <= milp.upper).all(), seed
            assert milp.value(start) == pytest.approx(expected), seed
            again = variables.decode(start)
            assert _value(instance, again, objective) == pytest.approx(expected)
            assert np.array_equal(variables.encode(again), start), seed

        outcome = solver("highs")(milp, SolverOptions(relative_gap=0.0))
        assert outcome.termination is Termination.FINISHED, seed
        assert outcome.point is not None
        value = milp.value(outcome.point)
        found = _value(instance, variables.decode(outcome.point), objective)
        assert found <= value + 1e-9, seed
        if applies(instance, NONPREEMPTIVE, objective).holds:
            assert value == pytest.approx(expected) == found, seed
        else:
            assert value >= expected - 1e-9, seed


def test_what_runs_may_wait_for_an_arrival_in_no_round() -> None:
    """Beside 7 tokens the late request does not fit: both may wait, or the long one start later."""
    requests = (
        Request(id="long", prompt_tokens=4, output_tokens=7),
        Request(id="late", prompt_tokens=4, output_tokens=1, arrival_s=3.0),
    )
    instance = unit_instance(0)
    limits = msgspec.structs.replace(instance.limits, kv_tokens=10)
    instance = msgspec.structs.replace(instance, requests=requests, limits=limits)
    steps = [(0, 1, 1, 4), *((0, 1, j, 1) for j in range(2, 8)), (1, 1, 3, 4)]
    waiting = from_steps(steps)
    with pytest.raises(UnsupportedError, match="waits for the arrival"):
        HindsightVariables(instance).encode(waiting)
    for objective, gains in ((Objective.MEAN_LATENCY, False), (Objective.MEAN_TTFT, True)):
        assert applies(instance, NONPREEMPTIVE, objective).holds is not gains
        milp = build(HindsightVariables(instance, objective=objective))
        outcome = solver("highs")(milp, SolverOptions())
        assert outcome.point is not None
        value = _value(instance, waiting, objective)
        assert milp.value(outcome.point) == pytest.approx(value + gains * 0.5)


@pytest.mark.parametrize("objective", [Objective.MAKESPAN, Objective.MEAN_TTFT])
def test_a_condition_on_another_objective_is_kept(objective: Objective) -> None:
    for seed in range(24):
        instance = unit_instance(seed)
        if not instance.offline:
            continue
        least, _ = optimum(instance, NONPREEMPTIVE, objective=objective)
        variables = HindsightVariables(instance, at_most={objective: least})
        outcome = solver("highs")(build(variables), SolverOptions(relative_gap=0.0))
        assert outcome.point is not None
        found = variables.decode(outcome.point)
        assert _value(instance, found, objective) == pytest.approx(least), seed


def test_it_applies_to_unit_batches_and_whole_rounds_only() -> None:
    instance = unit_instance(1)
    assert applies(instance, NONPREEMPTIVE).holds
    assert not applies(instance, NONPREEMPTIVE, Objective.GOODPUT).holds
    assert not applies(instance, ()).holds
    assert not applies(instance, ("nonpreemptive", "fcfs")).holds
    late = msgspec.structs.replace(
        instance,
        requests=(*instance.requests, msgspec.structs.replace(
            instance.requests[0], id="late", arrival_s=0.5
        )),
    )  # fmt: skip
    assert "'late'" in applies(late, NONPREEMPTIVE).reason
    other = random_instance(1, cost=preset("study").cost)
    assert "what it processes" in applies(other, NONPREEMPTIVE).reason
    with pytest.raises(UnsupportedError, match="what it processes"):
        rounds_of(other)
    with pytest.raises(UnsupportedError, match="goodput"):
        HindsightVariables(instance, objective=Objective.GOODPUT)


def test_an_interrupted_request_has_no_point() -> None:
    instance = unit_instance(0, requests=1, output=3)
    prompt = instance.requests[0].prompt_tokens
    held = from_steps([(0, 1, 1, prompt), (0, 1, 2, 1), (0, 1, 4, 1)])
    with pytest.raises(UnsupportedError, match="interrupts"):
        HindsightVariables(instance).encode(held)


def test_whole_fills_bind_batch_tokens() -> None:
    rng = random.Random(5)
    for seed in range(0, 20, 2):
        instance = unit_instance(seed)
        longest = int(instance.prompt_tokens.max())
        limits = msgspec.structs.replace(
            instance.limits, batch_tokens=longest + rng.randint(0, 2),
            batch_requests=rng.choice([None, 1, 2]),
        )  # fmt: skip
        tight = msgspec.structs.replace(instance, limits=limits)
        expected, _ = optimum(tight, NONPREEMPTIVE, objective=Objective.MEAN_LATENCY)
        milp = build(HindsightVariables(tight))
        outcome = solver("highs")(milp, SolverOptions(relative_gap=0.0))
        assert outcome.point is not None
        assert milp.value(outcome.point) == pytest.approx(expected), seed
