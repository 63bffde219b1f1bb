"""Local improvement never loses, keeps every rule, and portfolios keep to their time."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pytest

from optsched.check import check
from optsched.instance import Instance
from optsched.io.generate import azure_like, mix, uniform
from optsched.schedule import Schedule
from optsched.simulate import simulate
from optsched.warmstart import scheduler
from optsched.warmstart.budget import Budget
from optsched.warmstart.improve import improve, openings_of
from optsched.warmstart.levelled import LevelOptions, levelled
from optsched.warmstart.portfolio import LookAheadScheduler, Member, StoppedEarly
from optsched.warmstart.serial import serial
from tests.warmstart.test_lookahead import instances, valid


@pytest.mark.parametrize("name", ["sarathi", "rank-o", "look-ahead"])
def test_improved_schedules_keep_every_rule_and_are_never_longer(name: str) -> None:
    for instance in instances()[::9]:
        known = scheduler(name)(instance)
        better = improve(instance, known)
        trace = simulate(instance, better)
        assert check(instance, better, trace) == (), instance.name
        assert trace.makespan_s <= simulate(instance, known).makespan_s, instance.name


def test_openings_reproduce_what_was_levelled() -> None:
    """Placed in its own order, no batch is added; and every rule is kept."""
    for instance in instances()[::5]:
        options = LevelOptions(batch_tokens=instance.limits.batch_tokens, fill_tokens=1)
        known = levelled(instance, options)
        again = levelled(instance, options, openings_of(instance, known))
        valid(instance, again)
        assert again.batch_count <= known.batch_count, instance.name


def test_batches_vanish_and_level() -> None:
    """One request after another is as bad as can be; and LP-guided mixes still lose batches."""
    few = uniform(20, 16, 16, kv_tokens=400, preset_name="llama2-7b-a100")
    better = improve(few, serial(few))
    assert simulate(few, better).makespan_s < 0.2 * simulate(few, serial(few)).makespan_s
    many = mix(128, "SILO+LISO", kv_tokens=12_500)
    guided = scheduler("lp-guided")(many)
    assert improve(many, guided).batch_count < guided.batch_count


def test_large_instances_with_arrivals_are_left_alone() -> None:
    """There is no placement that knows their clock, so the schedule itself comes back."""
    instance = azure_like(4200, rate=30)
    known = scheduler("sarathi-pc-ef")(instance)
    assert improve(instance, known) is known


def test_no_time_no_change() -> None:
    instance = mix(64, "SISO+LILO", kv_tokens=10_000)
    known = scheduler("sarathi")(instance)
    assert improve(instance, known, time_limit_s=0.0) is known


def test_a_budget_learns_the_pace_of_the_machine() -> None:
    budget = Budget(1.0)
    assert budget.allows(0.9)
    with budget.timed(0.001):
        time.sleep(0.02)
    assert budget.expected_s(0.1) == pytest.approx(2.0, rel=0.5)
    assert not budget.allows(0.1)
    assert Budget(None).allows(1e9)


def _slow(instance: Instance) -> Iterator[Schedule]:
    yield serial(instance)
    raise AssertionError("began what there was no time for")


def test_members_begin_only_in_time() -> None:
    instance = uniform(3, 4, 4, kv_tokens=100)
    slow = LookAheadScheduler("slow", "", lambda _: [Member(family=_slow, each_s=10.0)])
    assert slow(instance, time_limit_s=1.0).same_as(serial(instance))
    portfolio = scheduler("portfolio")
    assert isinstance(portfolio, LookAheadScheduler)
    quick = portfolio(instance, time_limit_s=0.0)
    assert check(instance, quick) == ()


def _interrupted(instance: Instance) -> Iterator[Schedule]:
    yield serial(instance)
    raise KeyboardInterrupt


def test_an_interrupt_carries_the_best_schedule() -> None:
    instance = uniform(3, 4, 4, kv_tokens=100)
    one = LookAheadScheduler("one", "", lambda _: [Member(family=_interrupted, each_s=0.0)])
    with pytest.raises(StoppedEarly) as stopped:
        one(instance)
    assert stopped.value.schedule.same_as(serial(instance))


def test_changes_are_drawn_the_same_every_time() -> None:
    instance = mix(32, "SILO+LISO", kv_tokens=5_000, preset_name="llama2-7b-a100")
    known = scheduler("sarathi")(instance)
    first, second = improve(instance, known), improve(instance, known)
    assert first.same_as(second)
    assert np.isfinite(simulate(instance, first).makespan_s)
