"""Schedules found by search keep every rule, and reach the optima that are known."""

from __future__ import annotations

import msgspec
import pytest

from optsched.check import check
from optsched.cost import CostModel
from optsched.instance import Instance, Limits, Request
from optsched.io.generate import uniform
from optsched.simulate import simulate
from optsched.warmstart import scheduler
from optsched.warmstart.beam import BeamOptions, beam, searchable
from optsched.warmstart.beam_kinds import kinds_of
from optsched.warmstart.beam_moves import Effort
from optsched.warmstart.searched import beams, walks
from optsched.warmstart.walk_flow import contents, optimal_moves
from optsched.warmstart.walk_following import follow_walks
from tests.oracle import optimum
from tests.tiny import LINEAR, random_instance

NARROW = BeamOptions(width=1, weight=0.3, slots=4, effort=Effort(evictions=1, fills=1, rows=1))
WIDE = BeamOptions(width=60, weight=1.0, slots=6, effort=Effort(evictions=2, fills=4, rows=900))


def instances() -> list[Instance]:
    """Pages, several pieces, limits on requests per batch, each of them or none."""
    found = [
        random_instance(
            seed, most_requests=7, most_prompt=9, most_output=8, pages=True, tight=seed % 3 == 0
        )
        for seed in range(90)
    ]
    some = [instance for instance in found if searchable(instance)]
    assert len(some) > 60
    return some


@pytest.mark.parametrize("options", [NARROW, WIDE])
def test_beam_keeps_every_rule(options: BeamOptions) -> None:
    """However narrow: it never ends where requests are left."""
    evictions = 0
    for instance in instances():
        schedule = beam(instance, options)
        assert check(instance, schedule, simulate(instance, schedule)) == (), instance.name
        evictions += schedule.evictions
    assert evictions > 0


def test_walks_keep_every_rule() -> None:
    followed = 0
    for instance in instances():
        if instance.limits.batch_requests is not None:
            assert not list(walks(instance))
            continue
        kinds = kinds_of(instance, WIDE.weight)
        moves = optimal_moves(instance, kinds, 400)
        if moves is None:
            continue
        followed += 1
        for last in (0, 2):
            schedule = follow_walks(instance, kinds, moves, last, lambda _: WIDE)
            assert check(instance, schedule, simulate(instance, schedule)) == (), instance.name
    assert followed > 30


def test_beam_is_never_below_the_optimum_and_mostly_meets_it() -> None:
    met = 0
    for seed in range(40):
        instance = random_instance(seed, cost=LINEAR)
        best = optimum(instance)[0]
        value = simulate(instance, beam(instance, WIDE)).makespan_s
        assert value >= best * (1 - 1e-9), instance.name
        met += value <= best * (1 + 1e-9)
    assert met >= 36


@pytest.mark.parametrize(
    ("requests", "prompt", "output", "capacity", "optimal"),
    [
        (12, 32, 12, 64, 1.294244), (16, 64, 16, 128, 2.364465), (8, 16, 8, 64, 0.215364),
    ],
)  # fmt: skip
def test_beam_finds_proven_optima(
    requests: int, prompt: int, output: int, capacity: int, optimal: float
) -> None:
    """Optima proven by exhaustive searches over layers of memory contents."""
    instance = uniform(requests, prompt, output, kv_tokens=capacity)
    value = min(simulate(instance, schedule).makespan_s for schedule in beams(instance))
    assert value == pytest.approx(optimal, abs=1e-6)


def test_walks_come_close_to_the_closed_walk_bound() -> None:
    """B4 proves 159.2 s for 1024 requests of 32 + 32 tokens in 100 tokens of KV."""
    instance = uniform(1024, 32, 32, kv_tokens=100)
    value = simulate(instance, scheduler("walk-guided")(instance)).makespan_s
    assert 159.2 <= value <= 1.05 * 159.2


def test_contents_are_all_multisets_that_fit() -> None:
    kinds = kinds_of(uniform(2, 3, 2, kv_tokens=8), 1.0)
    assert kinds.after[:-1].tolist() == [3, 4]
    assert sorted(contents(kinds, 100) or ()) == [
        (), (0,), (0, 0), (0, 1), (1,), (1, 1),
    ]  # fmt: skip
    assert contents(kinds, 3) is None


@pytest.mark.parametrize("name", ["beam", "walk-guided"])
def test_plain_look_ahead_where_there_is_nothing_to_search(name: str) -> None:
    instance = random_instance(4, most_requests=5, cost=LINEAR)
    late = msgspec.structs.replace(instance.requests[-1], arrival_s=1.0)
    instance = Instance(
        name="late", limits=instance.limits, cost=instance.cost,
        requests=(*instance.requests[:-1], late),
    )  # fmt: skip
    assert len(instance) > 1
    assert scheduler(name)(instance).same_as(scheduler("look-ahead")(instance))


def test_the_same_schedule_every_time() -> None:
    instance = uniform(12, 9, 4, kv_tokens=30)
    for family in (beams, walks):
        first, second = list(family(instance)), list(family(instance))
        assert first
        assert all(a.same_as(b) for a, b in zip(first, second, strict=True))


def test_a_beam_whose_promising_batches_all_lead_nowhere() -> None:
    # One request that nearly fills memory beside tiny ones: of the 4,000 batches that look best
    # every one evicts in vain.
    lengths = ((38, 3), (36, 1), (1, 2), (1, 3), (1, 4), (1, 2), (1, 3), (1, 4))
    instance = Instance(
        name="beam8",
        limits=Limits(kv_tokens=40, batch_tokens=4096),
        cost=CostModel(pieces=((0.005, 0.0001),), d_req=0.005),
        requests=tuple(
            Request(id=f"r{i}", prompt_tokens=prompt, output_tokens=output)
            for i, (prompt, output) in enumerate(lengths)
        ),
    )
    for name in ("beam", "portfolio"):
        assert check(instance, scheduler(name)(instance)) == ()
