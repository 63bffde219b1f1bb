"""Annealed schedules in rounds: valid, repeatable, and near the optimum."""

from __future__ import annotations

import time

import msgspec
import pytest

from optsched.check import require_valid
from optsched.errors import UnsupportedError
from optsched.io.presets import preset
from optsched.objective import Objective
from optsched.simulate import objective_value, simulate
from optsched.warmstart import scheduler
from optsched.warmstart.annealed import annealed
from tests.oracle import optimum
from tests.tiny import random_instance
from tests.unit_rounds import unit_instance

LATENCY = Objective.MEAN_LATENCY


def test_schedules_are_valid_and_most_are_optimal() -> None:
    optimal = 0
    for seed in range(60):
        instance = unit_instance(seed)
        schedule = annealed(instance, steps=100)
        require_valid(instance, schedule, policies=("nonpreemptive",))
        value = objective_value(instance, simulate(instance, schedule), LATENCY)
        least, _ = optimum(instance, ("nonpreemptive",), objective=LATENCY)
        assert value >= least - 1e-9, seed
        optimal += value <= least + 1e-9
    assert optimal >= 54


def test_it_is_better_than_mc_sf_and_repeats_itself() -> None:
    instance = unit_instance(2, requests=25)
    first, again = annealed(instance, seed=3, steps=400), annealed(instance, seed=3, steps=400)
    assert first.same_as(again)
    value, mc_sf = (
        objective_value(instance, simulate(instance, s), LATENCY)
        for s in (first, scheduler("mc-sf")(instance))
    )
    assert value < mc_sf


def test_it_stops_at_a_deadline() -> None:
    instance = unit_instance(2, requests=25)
    begin = time.monotonic()
    schedule = annealed(instance, steps=10**9, deadline=begin + 0.2)
    require_valid(instance, schedule, policies=("nonpreemptive",))


def test_what_it_does_not_know_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="what it processes"):
        annealed(random_instance(1, cost=preset("study").cost))
    instance = unit_instance(0)
    limits = msgspec.structs.replace(instance.limits, batch_requests=1)
    with pytest.raises(UnsupportedError, match="kv_tokens"):
        annealed(msgspec.structs.replace(instance, limits=limits))
