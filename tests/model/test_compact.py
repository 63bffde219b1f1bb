"""Schedules to points of the compact formulation and back, on random valid schedules."""

from __future__ import annotations

import random

import msgspec
import numpy as np
import pytest

from optsched.check import check
from optsched.constraints.compact import build
from optsched.errors import InfeasibleError, InvalidInputError, ScheduleError, UnsupportedError
from optsched.instance import Instance, Limits, Request
from optsched.model.compact import CompactVariables
from optsched.schedule import Kind, Schedule, from_steps
from optsched.simulate import simulate
from tests.model.valid_schedules import random_schedule, varied_instance
from tests.tiny import LINEAR


def long_prompt(seed: int) -> Instance:
    """Prompts so long that squares take binary digits."""
    rng = random.Random(seed)
    requests = tuple(
        Request(id=f"r{i}", prompt_tokens=rng.randint(30, 200), output_tokens=rng.randint(1, 3))
        for i in range(3)
    )
    p_mc = rng.choice([None, 0.0, 1e-7])
    cost = msgspec.structs.replace(LINEAR, p_sq=2e-8, p_mc=p_mc if p_mc is not None else 4e-8)
    limits = Limits(kv_tokens=250, batch_tokens=120)
    return Instance(name=f"long-{seed}", limits=limits, cost=cost, requests=requests)


def tiny(**changes: object) -> Instance:
    """Two like requests and one other."""
    shapes = ((2, 2), (2, 2), (3, 1))
    requests = tuple(
        Request(id=f"r{i}", prompt_tokens=p, output_tokens=o) for i, (p, o) in enumerate(shapes)
    )
    instance = Instance(
        name="three", limits=Limits(kv_tokens=8, batch_tokens=8), cost=LINEAR, requests=requests
    )
    return msgspec.structs.replace(instance, **changes)


@pytest.mark.parametrize("strengthened", [False, True])
@pytest.mark.parametrize("make", [varied_instance, long_prompt])
def test_any_valid_schedule_is_a_feasible_point_at_its_makespan(make, strengthened):
    partial_evictions = 0
    for seed in range(120 if make is varied_instance else 25):
        rng = random.Random(seed)
        instance = make(seed)
        schedule = random_schedule(instance, rng, chaos=rng.randint(0, 8))
        assert check(instance, schedule) == (), seed
        batches = schedule.batch_count + rng.randint(0, 2)
        variables = CompactVariables(instance, batches, strengthened=strengthened)
        milp = build(variables)
        point = variables.encode(schedule)
        assert (point >= milp.lower).all(), seed
        assert (point <= milp.upper).all(), seed
        assert (point[milp.integer] == np.rint(point[milp.integer])).all(), seed
        for block in milp.blocks:
            assert block.violation(point) <= 1e-6, (seed, block.name)
        makespan_s = simulate(instance, schedule).makespan_s
        assert milp.value(point) == pytest.approx(makespan_s, rel=1e-12, abs=1e-12), seed
        given_up = point[variables["partial"][:, :-1]] * point[variables["evicts"]]
        partial_evictions += int(given_up.sum())
    assert partial_evictions > 3  # fills given up half-way are priced too


def test_decoding_an_encoded_schedule_gives_it_back():
    unlike = 0
    for seed in range(80):
        instance = varied_instance(seed)
        schedule = random_schedule(instance, random.Random(seed), chaos=6)
        variables = CompactVariables(instance, schedule.batch_count)
        again = variables.decode(variables.encode(schedule))
        assert np.array_equal(variables.encode(again), variables.encode(schedule)), seed
        assert check(instance, again) == (), seed
        if not variables.alike():
            unlike += 1
            assert again.same_as(schedule), seed
    assert unlike > 20


def test_like_requests_change_places_to_finish_in_order():
    late_first = from_steps(
        [(1, Kind.PROCESS, 1, 2), (1, Kind.PROCESS, 2, 1), (0, Kind.PROCESS, 2, 2),
         (0, Kind.PROCESS, 3, 1), (2, Kind.PROCESS, 3, 3)]
    )  # fmt: skip
    in_order = from_steps(
        [(0, Kind.PROCESS, 1, 2), (0, Kind.PROCESS, 2, 1), (1, Kind.PROCESS, 2, 2),
         (1, Kind.PROCESS, 3, 1), (2, Kind.PROCESS, 3, 3)]
    )  # fmt: skip
    variables = CompactVariables(tiny(), 4)
    assert variables.alike() == [(0, 1)]
    assert variables.decode(variables.encode(late_first)).same_as(in_order)
    assert variables.decode(variables.encode(in_order)).same_as(in_order)


def test_what_the_formulation_does_not_cover_is_refused():
    with pytest.raises(UnsupportedError, match="policy 'no-cache'"):
        CompactVariables(tiny(), 9, ("no-cache",))
    with pytest.raises(InvalidInputError, match="expected at least 2"):
        CompactVariables(tiny(), 1)
    with pytest.raises(InfeasibleError, match="'r2' has a fill of 3"):
        CompactVariables(tiny(limits=Limits(kv_tokens=8, batch_tokens=2)), 9, ("no-chunk",))


def test_schedules_that_are_no_point_are_refused():
    variables = CompactVariables(tiny(), 3)
    steps = [(0, Kind.PROCESS, 1, 2), (1, Kind.PROCESS, 1, 2), (2, Kind.PROCESS, 1, 3)]
    with pytest.raises(ScheduleError, match="does not finish request 'r0'"):
        variables.encode(from_steps(steps))
    with pytest.raises(UnsupportedError, match="swap"):
        variables.encode(from_steps([*steps, (0, Kind.SWAP_OUT, 2, 0)]))
    with pytest.raises(UnsupportedError, match="has 4 batches, the formulation 3"):
        variables.encode(from_steps([*steps, (0, Kind.PROCESS, 4, 1)]))
    waiting = Schedule(
        request=[0], kind=[1], first_batch=[1], batches=[1], tokens=[2],
        wait_batch=[1], wait_until_s=[0.5],
    )  # fmt: skip
    with pytest.raises(UnsupportedError, match="waits"):
        variables.encode(waiting)


def test_column_names_are_unique_and_without_blanks():
    milp = build(CompactVariables(tiny(), 4))
    assert len(set(milp.column_names)) == milp.columns
    assert not any(" " in name for name in milp.column_names)
