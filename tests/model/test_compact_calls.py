"""Points of the compact formulation for schedules with calls and swapping."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import msgspec
import numpy as np
import pytest

from optsched.check import check, handlings
from optsched.constraints.compact import build
from optsched.errors import UnsupportedError
from optsched.handling import HANDLINGS
from optsched.instance import Call, Instance, Limits, Request
from optsched.model.compact import CompactVariables
from optsched.model.compact_skips import cut_gaps
from optsched.model.contexts import calls_of, contexts
from optsched.objective import Objective
from optsched.schedule import Kind, Schedule, from_steps
from optsched.simulate import objective_value, simulate
from tests.simulate.random_schedules import random_call_instance, random_schedule
from tests.tiny import LINEAR

OBJECTIVES = list(Objective)
CALLING = Request(
    id="agent", prompt_tokens=4, output_tokens=4,
    calls=(
        Call(after_tokens=1, duration_s=2.0, response_tokens=3),
        Call(after_tokens=3, duration_s=0.0, response_tokens=0),
    ),
)  # fmt: skip
OTHER = Request(id="other", prompt_tokens=2, output_tokens=5)


def pair(**limits: int | None) -> Instance:
    """A request that calls and one that does not, with room on the host."""
    room = {"kv_tokens": 16, "batch_tokens": 9, "host_kv_tokens": 9, **limits}
    return Instance(name="pair", limits=Limits(**room), cost=LINEAR, requests=(CALLING, OTHER))


def without_pace(instance: Instance, rng: random.Random) -> Instance:
    """The same with TTFT and latency objectives, and weights."""
    return msgspec.structs.replace(instance, requests=tuple(
        msgspec.structs.replace(
            request, ttft_slo_s=rng.choice([None, 0.1, 2.0]),
            latency_slo_s=rng.choice([None, 1.0, 3.0]), weight=rng.choice([0.5, 1.0]),
        )
        for request in instance.requests
    ))  # fmt: skip


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_any_valid_schedule_is_a_feasible_point_at_its_value(objective):
    handled: Counter[str] = Counter()
    kinds: Counter[int] = Counter()
    for seed in range(28):
        rng = random.Random(f"{objective} {seed}")
        instance = without_pace(random_call_instance(rng), rng)
        drawn = random_schedule(rng, instance)
        schedule = replace(drawn, wait_batch=[], wait_until_s=[])
        value = objective_value(instance, simulate(instance, schedule), objective)
        variables = CompactVariables(
            instance, schedule.batch_count + rng.randint(0, 2), objective=objective,
            cutoff=value if seed % 3 == 0 else None, strengthened=seed % 5 > 0,
        )  # fmt: skip
        milp = build(variables)
        point = variables.encode(schedule)
        assert (point >= milp.lower - 1e-9).all(), seed
        assert (point <= milp.upper + 1e-9 * np.abs(milp.upper) + 1e-9).all(), seed
        assert (point[milp.integer] == np.rint(point[milp.integer])).all(), seed
        for block in milp.blocks:
            assert block.violation(point) <= 1e-6, (seed, block.name)
        expected = instance.total_weight - value if objective.maximised else value
        assert milp.value(point) == pytest.approx(expected, rel=1e-9, abs=1e-9), seed

        again = variables.decode(point)
        assert check(instance, again) == (), seed
        assert np.array_equal(variables.encode(again), point), seed
        calls = [call.handling for call in handlings(instance, again)]
        assert list(variables.handlings(point)) == calls, seed
        handled.update(calls)
        kinds.update(schedule.kind.tolist())
    assert min(handled[name] for name in ("preserve", "discard")) > 0
    assert min(kinds[kind] for kind in Kind) > 0


def test_what_a_request_knows_and_keeps_by_tokens_generated():
    sizes = contexts(pair())
    assert sizes.known[0, :5].tolist() == [4, 8, 9, 10, 11]
    assert sizes.response[0].tolist() == [0, 3, 0, 0, 0, 0]
    assert sizes.resident[0, 1:4].tolist() == [4, 8, 9]
    calls = calls_of(pair())
    assert calls.request.tolist() == [0, 0]
    assert calls.known_before.tolist() == [4, 9]
    assert calls.known_after.tolist() == [8, 10]


def schedule_of(*moves: tuple[int, Kind, int]) -> Schedule:
    """The pair's first request calls in batch 1 and resumes in batch 5, with moves in between; the
    other one is processed in batches 2 to 6."""
    evicted = any(kind is Kind.EVICT for _, kind, _ in moves)
    steps = [(0, Kind.PROCESS, 1, 4), *((i, kind, j, 0) for i, kind, j in moves)]
    steps += [(0, Kind.PROCESS, 5, 8 if evicted else 4)]
    steps += [(0, Kind.PROCESS, j, 1) for j in (6, 7)]
    steps += [(1, Kind.PROCESS, j, 2 if j == 2 else 1) for j in range(2, 7)]
    return from_steps(steps)


@pytest.mark.parametrize(
    ("handling", "moves"),
    [
        ("preserve", []),
        ("discard", [(0, Kind.EVICT, 3)]),
        ("discard", [(0, Kind.SWAP_OUT, 2), (0, Kind.EVICT, 4)]),
        ("swap", [(0, Kind.SWAP_OUT, 2), (0, Kind.SWAP_IN, 5)]),
        ("swap", [(0, Kind.SWAP_OUT, 2), (0, Kind.SWAP_IN, 4)]),
        ("swap", [
            (0, Kind.SWAP_OUT, 2), (0, Kind.SWAP_IN, 3), (0, Kind.SWAP_OUT, 4),
            (0, Kind.SWAP_IN, 5),
        ]),
    ],
)  # fmt: skip
def test_the_handling_of_a_point_is_that_of_its_schedule_and_no_other(handling, moves):
    instance, schedule = pair(), schedule_of(*moves)
    assert check(instance, schedule) == ()
    variables = CompactVariables(instance, 8)
    milp, point = build(variables), variables.encode(schedule)
    assert variables.handlings(point) == (handling, "preserve")
    family = next(block for block in milp.blocks if block.name == "handling")
    assert family.violation(point) == 0
    columns = variables["handlings"][0]
    for other in range(len(HANDLINGS)):
        claimed = point.copy()
        claimed[columns] = np.eye(len(HANDLINGS))[other]
        right = HANDLINGS[other] == handling
        assert (family.violation(claimed) == 0) == right, HANDLINGS[other]
    # A policy asks for it; the second call has no batch in between and satisfies any.
    for name in HANDLINGS:
        block = build(CompactVariables(instance, 8, (f"{name}:agent",))).blocks
        rows = [part for part in block if part.name == name]
        assert (max(part.violation(point) for part in rows) == 0) == (name == handling)


def test_what_it_does_not_cover_with_calls_is_refused():
    for policy in ("no-hold", "nonpreemptive"):
        with pytest.raises(UnsupportedError, match=f"{policy} with calls that take time"):
            CompactVariables(pair(), 9, (policy,))
    paced = msgspec.structs.replace(CALLING, tpot_slo_s=0.1)
    instance = msgspec.structs.replace(pair(), requests=(paced, OTHER))
    with pytest.raises(UnsupportedError, match="TPOT objectives of requests with calls"):
        CompactVariables(instance, 9, objective=Objective.GOODPUT)
    assert CompactVariables(instance, 9).clock is not None
    swapless = CompactVariables(pair(), 9, ("no-swap",))
    assert "away" not in swapless
    with pytest.raises(UnsupportedError, match="swaps, which is ruled out"):
        swapless.encode(schedule_of((0, Kind.SWAP_OUT, 2), (0, Kind.SWAP_IN, 5)))


def test_requests_that_call_otherwise_or_are_handled_otherwise_are_not_alike():
    second = msgspec.structs.replace(CALLING, id="second")
    silent = msgspec.structs.replace(CALLING, id="silent", calls=CALLING.calls[:1])
    instance = msgspec.structs.replace(pair(), requests=(CALLING, second, silent))
    assert CompactVariables(instance, 12).alike() == [(0, 1)]
    assert CompactVariables(instance, 12, ("swap",)).alike() == [(0, 1)]
    assert CompactVariables(instance, 12, ("discard:second",)).alike() == []


def test_long_calls_are_part_of_the_longest_time_without_an_arrival():
    late = msgspec.structs.replace(OTHER, arrival_s=2.05)
    instance = msgspec.structs.replace(pair(), requests=(CALLING, late))
    variables = CompactVariables(instance, 9)
    assert variables.clock is not None
    longest = float(variables.clock.longest_s[-1] - variables.clock.idle_s[-1])
    assert not cut_gaps(instance, 9 * longest + 2.0)[1].any()
    assert cut_gaps(instance, 9 * longest)[1].any()
    assert not variables.clock.skips.skipped_s.any()
