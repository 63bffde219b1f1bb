"""Numbers of batches: never fewer than an optimal schedule has, never more than any must have."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from optsched.check import check
from optsched.errors import InfeasibleError, InvalidInputError
from optsched.model.compact_batches import least_batches, stage_tokens
from optsched.model.compact_packing import packings
from optsched.model.horizon import most_batches
from optsched.simulate import simulate
from optsched.warmstart.serial import serial
from tests.oracle import optimum
from tests.tiny import random_instance

POLICY_SETS = ((), ("no-evict",), ("no-chunk",), ("no-hybrid", "no-hold"))


def test_batch_counts_around_the_optimum():
    solved = exact = 0
    for seed in range(150):
        instance = random_instance(seed, tight=seed % 2 == 0, pages=seed % 3 == 0)
        try:
            makespan_s, schedule = optimum(instance, POLICY_SETS[seed % 4])
        except InfeasibleError:
            continue
        most, least = most_batches(instance, makespan_s), least_batches(instance)
        assert least <= schedule.batch_count <= most, seed
        assert most <= most_batches(instance, 1.5 * makespan_s), seed
        solved += 1
        exact += most == schedule.batch_count
    assert solved > 130
    assert exact > solved / 4  # a horizon that is loose everywhere would pass otherwise


def test_one_request_after_another_obeys_every_policy():
    for seed in range(100):
        instance = random_instance(seed, tight=True, pages=seed % 2 == 0)
        schedule = serial(instance)
        policies = ["no-evict", "no-hybrid", "no-hold"]
        if int(instance.prompt_tokens.max()) <= instance.limits.fill_tokens:
            policies.append("no-chunk")
        assert check(instance, schedule, policies=policies) == (), seed
        makespan_s = simulate(instance, schedule).makespan_s
        assert schedule.batch_count <= most_batches(instance, makespan_s), seed


def test_an_upper_bound_below_every_schedule_is_refused():
    instance = random_instance(3)
    with pytest.raises(InvalidInputError, match="makespan_s: got"):
        most_batches(instance, optimum(instance)[0] / 100)


def test_stage_tokens():
    instance = random_instance(3)
    expected = [r.prompt_tokens + k for r in instance.requests for k in range(r.output_tokens)]
    assert stage_tokens(instance).tolist() == expected


def test_packings_hold_for_every_set_that_fits():
    for capacity in range(1, 25):
        sizes = np.arange(1, capacity + 1)
        for function in packings(sizes, capacity):
            most = np.zeros(capacity + 1, dtype=int)  # largest sum of f over sizes that fit
            for room in range(1, capacity + 1):
                most[room] = max(function(sizes[:room]) + most[room - 1 :: -1])
            assert most[capacity] <= function.most, function


def test_packings_show_more_than_the_area_where_two_do_not_fit():
    sizes = np.array([4, 5, 6, 7] * 4)
    bounds = {function.batches(sizes) for function in packings(sizes, 8)}
    assert -(-sizes.sum() // 8) == 11
    assert max(bounds) == 14
    fits_in_13 = any(
        sum(pair) <= 8 for pair in itertools.combinations_with_replacement([4, 5, 6, 7], 2)
        if pair != (4, 4)
    )  # fmt: skip
    assert not fits_in_13  # so 12 sizes are alone and four fill two batches
