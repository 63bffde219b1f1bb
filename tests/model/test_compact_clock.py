"""Points of the compact formulation with a clock: arrivals and the objectives that need one."""

from __future__ import annotations

import random

import msgspec
import numpy as np
import pytest

from optsched.check import check
from optsched.constraints.compact import build
from optsched.errors import UnsupportedError
from optsched.instance import Instance, Limits, Request
from optsched.model.compact import CompactVariables
from optsched.model.compact_skips import cut_gaps
from optsched.model.milp import FloatArray, Milp
from optsched.objective import Objective
from optsched.schedule import Kind, Schedule, from_steps
from optsched.simulate import objective_value, simulate
from tests.model.valid_schedules import random_schedule, varied_instance
from tests.tiny import LINEAR

OBJECTIVES = list(Objective)


def spread(instance: Instance, rng: random.Random) -> Instance:
    """The same with some requests an hour later: gaps between arrivals are cut."""
    requests = tuple(
        msgspec.structs.replace(r, arrival_s=r.arrival_s + rng.choice([0, 0, 3600, 7200]))
        for r in instance.requests
    )
    return msgspec.structs.replace(instance, requests=requests)


def worth(instance: Instance, schedule: Schedule, objective: Objective) -> float:
    """What a program minimises: seconds, or the weight that misses."""
    value = objective_value(instance, simulate(instance, schedule), objective)
    if objective.maximised:
        return instance.total_weight - value
    return value


def assert_feasible(milp: Milp, point: FloatArray) -> None:
    assert (point >= milp.lower - 1e-9).all()
    assert (point <= milp.upper + 1e-9 * np.abs(milp.upper) + 1e-9).all()
    assert (point[milp.integer] == np.rint(point[milp.integer])).all()
    for block in milp.blocks:
        assert block.violation(point) <= 1e-6, block.name


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("apart", [False, True])
def test_any_valid_schedule_is_a_feasible_point_at_its_value(objective, apart):
    skipped, first = 0, 20 * OBJECTIVES.index(objective)
    for seed in range(first, first + 20):
        rng = random.Random(f"{seed} {apart}")
        instance = varied_instance(seed, timed=True)
        instance = spread(instance, rng) if apart else instance
        schedule = random_schedule(instance, rng, chaos=rng.randint(0, 8))
        batches = schedule.batch_count + rng.randint(0, 2)
        value = objective_value(instance, simulate(instance, schedule), objective)
        variables = CompactVariables(
            instance, batches, objective=objective, strengthened=seed % 2 == 0,
            cutoff=value if seed % 3 == 0 else None,
        )  # fmt: skip
        milp = build(variables)
        point = variables.encode(schedule)
        assert_feasible(milp, point)
        expected = worth(instance, schedule, objective)
        assert milp.value(point) == pytest.approx(expected, rel=1e-9, abs=1e-9), seed
        again = variables.decode(point)
        assert check(instance, again) == (), seed
        assert np.array_equal(variables.encode(again), point), seed
        assert worth(instance, again, objective) == pytest.approx(expected, rel=1e-9), seed
        clock = variables.clock
        skipped += clock is not None and bool(clock.skips.skipped_s.any())
    assert skipped > 5 or not apart


def test_limits_on_objectives_are_rows_that_their_schedules_keep():
    for seed in range(40):
        rng = random.Random(seed)
        instance = varied_instance(seed, timed=True)
        instance = spread(instance, rng) if rng.random() < 0.5 else instance
        schedule = random_schedule(instance, rng, chaos=5)
        trace = simulate(instance, schedule)
        limits = {name: objective_value(instance, trace, name) for name in OBJECTIVES}
        variables = CompactVariables(
            instance, schedule.batch_count, objective=rng.choice(OBJECTIVES), at_most=limits
        )
        assert_feasible(build(variables), variables.encode(schedule))


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_schedule_that_breaks_a_limit_or_is_worse_than_the_cutoff_is_no_point(objective):
    instance = varied_instance(5, timed=True)
    assert not instance.offline
    schedule = random_schedule(instance, random.Random(0), chaos=0)
    value = objective_value(instance, simulate(instance, schedule), objective)
    better = value + 1 if objective.maximised else 0.9 * value
    other = Objective.MAKESPAN if objective is not Objective.MAKESPAN else Objective.MEAN_TTFT
    for changes in ({"objective": other, "at_most": {objective: better}},
                    {"objective": objective, "cutoff": better}):  # fmt: skip
        variables = CompactVariables(instance, schedule.batch_count, **changes)
        with pytest.raises(UnsupportedError, match=rf"{objective.value} is .*, expected at"):
            variables.encode(schedule)


def pair(**changes: object) -> Instance:
    """Two requests of the same lengths, the second with ``changes``."""
    first = Request(id="a", prompt_tokens=2, output_tokens=2)
    second = msgspec.structs.replace(first, id="b", **changes)
    limits = Limits(kv_tokens=8, batch_tokens=8)
    return Instance(name="pair", limits=limits, cost=LINEAR, requests=(first, second))


@pytest.mark.parametrize(
    ("changes", "objective", "alike"),
    [
        ({}, Objective.GOODPUT, True),
        ({"arrival_s": 1.0}, Objective.MAKESPAN, False),
        ({"weight": 2.0}, Objective.GOODPUT, False),
        ({"weight": 2.0}, Objective.MEAN_LATENCY, True),
        ({"ttft_slo_s": 1.0}, Objective.GOODPUT, False),
        ({"tpot_slo_s": 1.0}, Objective.MAX_LATENCY, True),
    ],
)
def test_requests_are_alike_if_nothing_tells_them_apart(changes, objective, alike):
    variables = CompactVariables(pair(**changes), 5, objective=objective)
    assert variables.alike() == ([(0, 1)] if alike else [])


def test_a_limit_on_goodput_tells_requests_apart_too():
    variables = CompactVariables(pair(weight=2.0), 5, at_most={Objective.GOODPUT: 1.0})
    assert variables.alike() == []


def test_what_the_program_does_not_need_is_not_in_it():
    offline = CompactVariables(pair(), 4)
    assert offline.clock is None
    assert "end" not in offline
    timed = CompactVariables(pair(arrival_s=1.0), 4)
    assert "end" in timed
    assert "begun" not in timed
    assert "misses" not in timed
    plain = CompactVariables(pair(latency_slo_s=1.0), 4, objective=Objective.GOODPUT)
    assert (plain["until_finish"] >= 0).any(axis=1).tolist() == [False, True]
    assert "after_first" not in plain


def test_a_gap_is_cut_to_what_all_batches_take_and_who_waits_across_it_is_charged():
    instance = pair(arrival_s=100.0)
    cut, skipped = cut_gaps(instance, 30.0)
    assert cut.release_s.tolist() == [0.0, 30.0]
    assert skipped.tolist() == [70.0]
    assert cut_gaps(instance, 100.0)[0] is instance
    # The first request waits for the second, which takes its turn first.
    steps = [(0, Kind.PROCESS, 1, 2), (1, Kind.PROCESS, 2, 2), (1, Kind.PROCESS, 3, 1),
             (0, Kind.PROCESS, 4, 1)]  # fmt: skip
    schedule = from_steps(steps)
    variables = CompactVariables(instance, 4, objective=Objective.MEAN_LATENCY)
    point = variables.encode(schedule)
    charged = variables["until_finish_skips"]
    assert charged[0, 1] == -1
    assert point[charged[0, 0]] == 1
    value = objective_value(instance, simulate(instance, schedule), Objective.MEAN_LATENCY)
    assert build(variables).value(point) == pytest.approx(value, rel=1e-12)
    # With a cutoff below an hour nobody waits that long.
    short = CompactVariables(instance, 4, objective=Objective.MEAN_LATENCY, cutoff=0.1)
    assert "until_finish_skips" not in short


def test_the_largest_times_stay_moderate_however_far_apart_requests_arrive():
    for arrival_s in (0.0, 1e-3, 1.0, 1e4, 1e9):
        for objective in OBJECTIVES:
            instance = pair(arrival_s=arrival_s, latency_slo_s=1.0, tpot_slo_s=0.1)
            cutoff = arrival_s + 1 if objective is Objective.MAKESPAN else 1.0
            variables = CompactVariables(instance, 6, objective=objective, cutoff=cutoff)
            milp = build(variables)
            if variables.clock is not None:
                largest = max(float(np.abs(block.values).max()) for block in milp.blocks)
                assert largest <= 2.0**25, (arrival_s, objective)
