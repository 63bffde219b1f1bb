"""The vectorised checker finds exactly what the slow reference finds, on valid and broken input."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from optsched.check import POLICIES, RULES, check
from optsched.handling import HANDLINGS
from optsched.instance import Instance
from optsched.schedule import Schedule
from optsched.trace import Trace
from tests.check.random_schedules import (
    garbage,
    moved_trace,
    mutant,
    random_instance,
    random_trace,
    random_valid,
    tighter,
)
from tests.check.reference import violations

SEEDS = range(20)
EACH = 30  # schedules per seed and kind


def assert_same(instance: Instance, schedule: Schedule, trace: Trace | None) -> Counter[str]:
    """Both find the same; returns how often each rule was found broken."""
    # Every policy, of the three handlings, which exclude each other, one for all requests and
    # another one for the first.
    k = schedule.request.size
    policies = {*POLICIES}.difference(HANDLINGS)
    policies |= {HANDLINGS[k % 3], f"{HANDLINGS[k // 3 % 3]}:{instance.requests[0].id}"}
    found = check(instance, schedule, trace, policies)
    expected = Counter(violations(instance, schedule, trace, policies))
    assert Counter((v.rule, v.batch, v.request, v.excess) for v in found) == expected
    return Counter(v.rule for v in found)


@pytest.mark.parametrize("seed", SEEDS)
def test_valid_schedules(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(EACH):
        instance = random_instance(rng)
        schedule = random_valid(instance, rng)
        trace = random_trace(instance, schedule, rng)
        assert check(instance, schedule, trace) == ()
        assert_same(instance, schedule, trace)
        assert_same(instance, schedule, None)


@pytest.mark.parametrize("seed", SEEDS)
def test_mutants(seed: int) -> None:
    rng = random.Random(1000 + seed)
    for _ in range(EACH):
        instance = random_instance(rng)
        schedule = random_valid(instance, rng)
        trace = random_trace(instance, schedule, rng)
        for _ in range(3):
            assert_same(instance, mutant(schedule, rng), rng.choice([None, trace]))
        assert_same(tighter(instance, rng), schedule, trace)
        assert_same(instance, mutant(mutant(schedule, rng), rng), moved_trace(trace, rng))
        assert_same(instance, schedule, moved_trace(trace, rng))


@pytest.mark.parametrize("seed", SEEDS)
def test_garbage(seed: int) -> None:
    rng = random.Random(2000 + seed)
    for _ in range(EACH):
        instance = random_instance(rng)
        trace = random_trace(instance, random_valid(instance, rng), rng)
        schedule = garbage(len(instance), rng)
        assert_same(instance, schedule, None)
        assert_same(instance, schedule, moved_trace(trace, rng))


def test_the_random_schedules_break_every_rule() -> None:
    rng = random.Random(3)
    seen: Counter[str] = Counter()
    for _ in range(400):
        instance = random_instance(rng)
        schedule = random_valid(instance, rng)
        trace = random_trace(instance, schedule, rng)
        seen += assert_same(instance, mutant(schedule, rng), None)
        seen += assert_same(tighter(instance, rng), schedule, moved_trace(trace, rng))
    assert set(seen) == {*RULES, *POLICIES}
    assert min(seen.values()) >= 10, seen
