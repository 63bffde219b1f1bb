"""No bound exceeds the optimum, on random tiny instances over all features."""

from __future__ import annotations

import pytest

from optsched.bounds import batch_count, lower_bound, work
from optsched.instance import Instance
from optsched.schedule import Schedule
from tests.bounds.draw import random_augmented, random_plain
from tests.oracle import optimum

BLOCK = 40  # instances per test
UP_TO_ROUNDING = 1 + 1e-9


def require_below(instance: Instance, makespan_s: float) -> float:
    """Check every part; returns how close the best is, 1 if it equals the optimum."""
    bound = lower_bound(instance)
    for name, part in bound.parts.items():
        assert part <= makespan_s * UP_TO_ROUNDING, (name, instance)
    return bound.value_s / makespan_s


def require_counts_below(instance: Instance, makespan_s: float, schedule: Schedule) -> None:
    """Check every count of batches, and alpha N + W, against a schedule."""
    batches = schedule.batch_count
    for name, count in batch_count(instance).parts.items():
        assert count <= batches, (name, instance)
    if len(instance.cost.pieces) == 1:
        ((alpha, _),) = instance.cost.pieces
        assert alpha * batches + work(instance) <= makespan_s * UP_TO_ROUNDING


@pytest.mark.parametrize("first", range(0, 10 * BLOCK, BLOCK))
def test_without_calls(first: int) -> None:
    closeness = []
    for seed in range(first, first + BLOCK):
        instance = random_plain(seed)
        makespan_s, schedule = optimum(instance)
        closeness.append(require_below(instance, makespan_s))
        require_counts_below(instance, makespan_s, schedule)
    exact = sum(value > 1 - 1e-9 for value in closeness)
    assert exact >= BLOCK / 3, "bounds that never meet the optimum would pass everything else"


@pytest.mark.parametrize("first", range(0, 2 * BLOCK, BLOCK))
def test_with_calls_and_swapping(first: int) -> None:
    for seed in range(first, first + BLOCK):
        instance = random_augmented(seed)
        require_below(instance, optimum(instance)[0])
