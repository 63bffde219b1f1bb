"""Patient refills: valid everywhere, worked by hand, and shorter where few large requests fit."""

from __future__ import annotations

import pytest

from optsched.check import require_valid
from optsched.io.generate import uniform
from optsched.schedule import Kind
from optsched.simulate import simulate
from optsched.warmstart import scheduler
from optsched.warmstart.beam import searchable
from optsched.warmstart.patient import Patience, patient
from optsched.warmstart.searched import patients
from tests.tiny import random_instance


@pytest.mark.parametrize("rank", [0, 1, 5])
@pytest.mark.parametrize("batches", [1, 3])
def test_valid(batches: int, rank: int) -> None:
    tried = 0
    for seed in range(60):
        instance = random_instance(seed, most_requests=4, most_output=5)
        if not searchable(instance) or instance.limits.batch_requests is not None:
            continue
        schedule = patient(instance, Patience(batches=batches, rank=rank))
        require_valid(instance, schedule)
        tried += 1
    assert tried >= 10


def test_a_request_that_could_run_for_one_batch_waits_if_two_are_asked() -> None:
    # Two of 4 tokens that make 3 more: 10 tokens hold both for two batches (4 + 4, 5 + 5).
    instance = uniform(2, 4, 4, kv_tokens=10)
    hasty = patient(instance, Patience(batches=2, rank=1))
    waits = patient(instance, Patience(batches=3, rank=1))
    assert (hasty.kind == Kind.EVICT).sum() == 1
    assert (waits.kind == Kind.EVICT).sum() == 0
    assert simulate(instance, waits).end_s.size == 8


def test_shorter_than_other_rules_where_six_large_requests_fit() -> None:
    instance = uniform(256, 128, 32, kv_tokens=1000)
    best_s = min(simulate(instance, found).makespan_s for found in patients(instance))
    for rule in ("pair", "staggered", "lp-guided"):
        assert best_s < 0.99 * simulate(instance, scheduler(rule)(instance)).makespan_s
