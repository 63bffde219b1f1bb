"""Schedulers for the objectives of the clock, the best over them, and the search over orders."""

from __future__ import annotations

import itertools
import random
import time
from typing import Any

import msgspec
import numpy as np
import pytest

from optsched.check import check
from optsched.cost import CostModel
from optsched.instance import Instance, Limits, Request
from optsched.io.generate import azure_like
from optsched.objective import Objective
from optsched.schedule import Schedule
from optsched.simulate import objective_value, simulate
from optsched.warmstart import clock_orders, clock_portfolio, scheduler
from optsched.warmstart.clock_families import machine_time_s
from optsched.warmstart.clock_orders import improved_order
from optsched.warmstart.clock_portfolio import best_for
from optsched.warmstart.portfolio import PORTFOLIO, LookAheadScheduler
from optsched.warmstart.ranked_lookahead import RankOptions, ranked_look_ahead
from optsched.warmstart.slo_aware import SloOptions, slo_aware
from optsched.warmstart.start_times import StartTimes
from tests.oracle import optimum
from tests.tiny import random_instance
from tests.warmstart.workloads import UNIT, workload

LATENCY, TTFT, GOODPUT = Objective.MEAN_LATENCY, Objective.MEAN_TTFT, Objective.GOODPUT


def value(instance: Instance, schedule: Schedule, objective: Objective) -> float:
    trace = simulate(instance, schedule)
    assert check(instance, schedule, trace) == ()
    return objective_value(instance, trace, objective)


def requests(*shapes: tuple[int, int, float]) -> tuple[Request, ...]:
    return tuple(
        Request(id=f"r{i}", prompt_tokens=prompt, output_tokens=output, arrival_s=arrival)
        for i, (prompt, output, arrival) in enumerate(shapes)
    )


def one_at_a_time(*shapes: tuple[int, int, float]) -> Instance:
    """Memory holds one of the requests; every batch takes a second."""
    most = max(prompt + output - 1 for prompt, output, _ in shapes)
    return Instance(
        name="one", limits=Limits(kv_tokens=most, batch_tokens=100), cost=UNIT,
        requests=requests(*shapes),
    )  # fmt: skip


def test_the_shorter_goes_first() -> None:
    instance = one_at_a_time((5, 5, 0.0), (8, 2, 0.0))
    assert value(instance, scheduler("shortest-work")(instance), LATENCY) == (2 + 7) / 2
    instance = one_at_a_time((8, 2, 0.0), (5, 5, 0.0))
    assert value(instance, scheduler("shortest-prompt")(instance), TTFT) == (1 + 6) / 2


def test_what_has_not_arrived_is_not_waited_for() -> None:
    instance = one_at_a_time((6, 4, 0.0), (6, 2, 1.0), (6, 3, 2.0))
    # 4 s, then the shorter of those that came meanwhile, then the other.
    assert value(instance, scheduler("shortest-work")(instance), LATENCY) == (4 + 5 + 7) / 3


@pytest.mark.parametrize("seed", range(40))
def test_any_options_keep_every_rule(seed: int) -> None:
    rng = random.Random(seed)
    instance = workload(seed)
    rank = np.array([rng.random() for _ in instance.requests])
    options = RankOptions(
        rank=rank, width=rng.choice([1, 3, 400]), period=rng.choice([1, 4]),
        level=rng.choice([None, 3, 20]), spare_tokens=rng.choice([1, 7, 50]),
        kappa=rng.choice([None, 0.2]),
    )  # fmt: skip
    schedule = ranked_look_ahead(instance, options).schedule(instance)
    assert check(instance, schedule, simulate(instance, schedule)) == ()
    late = tuple(
        msgspec.structs.replace(
            r, ttft_slo_s=rng.choice([None, 5.0 * rng.random()]),
            tpot_slo_s=rng.choice([None, rng.random()]),
            latency_slo_s=rng.choice([None, 9.0 * rng.random()]),
        )
        for r in instance.requests
    )  # fmt: skip
    instance = msgspec.structs.replace(instance, requests=late)
    work = machine_time_s(instance)
    by = SloOptions(work_s=work, by_slack=seed % 2 == 0, given_up=float(np.quantile(work, 0.8)))
    schedule = slo_aware(instance, by, options).schedule(instance)
    assert check(instance, schedule, simulate(instance, schedule)) == ()


def test_early_chunks_shorten_the_schedule() -> None:
    cost = CostModel(pieces=((1.0, 0.01), (0.2, 0.05)))  # cheap up to 20 tokens
    instance = Instance(
        name="knot", limits=Limits(kv_tokens=100, batch_tokens=100), cost=cost,
        requests=requests(*((30, 12, 2.0 * i) for i in range(12))),
    )  # fmt: skip
    rank = machine_time_s(instance)
    whole = ranked_look_ahead(instance, RankOptions(rank=rank)).schedule(instance)
    options = RankOptions(rank=rank, level=20, spare_tokens=15)
    cut = ranked_look_ahead(instance, options).schedule(instance)
    assert value(instance, cut, LATENCY) < value(instance, whole, LATENCY)


def overloaded() -> Instance:
    """Twice the load that the machine can carry, and objectives that one in two can meet."""
    drawn = azure_like(150, rate=11.0)
    levels = {"ttft_slo_s": 1.0, "tpot_slo_s": 0.1}
    return msgspec.structs.replace(
        drawn, requests=tuple(msgspec.structs.replace(r, **levels) for r in drawn.requests)
    )


def test_serving_who_can_still_be_on_time() -> None:
    instance = overloaded()
    aware = value(instance, scheduler("slo-aware")(instance), GOODPUT)
    others = [value(instance, scheduler(name)(instance), GOODPUT) for name in ("sarathi", "vllm")]
    assert aware > 1.5 * max(others)


def test_tpot_is_kept() -> None:
    """A long fill waits while it would make a running request miss its TPOT."""
    instance = Instance(
        name="tpot", limits=Limits(kv_tokens=500, batch_tokens=400),
        cost=CostModel(pieces=((1.0, 0.1),)),
        requests=(
            Request(id="runs", prompt_tokens=1, output_tokens=6, tpot_slo_s=2.0),
            Request(id="long", prompt_tokens=300, output_tokens=1, arrival_s=2.0),
        ),
    )  # fmt: skip
    assert value(instance, scheduler("slo-aware")(instance), GOODPUT) == 2
    assert value(instance, scheduler("vllm")(instance), GOODPUT) == 1


@pytest.mark.parametrize("objective", [LATENCY, TTFT, Objective.MAX_LATENCY, GOODPUT])
def test_the_best_known_is_near_the_optimum(objective: Objective) -> None:
    optimal = 0
    for seed in range(12):
        instance = random_instance(seed, arrivals=True, slos=True, most_output=3)
        least, _ = optimum(instance, objective=objective)
        found = value(instance, best_for(instance, objective), objective)
        if objective.maximised:
            assert found <= least + 1e-9
        else:
            assert found >= least * (1 - 1e-9)
        optimal += abs(found - least) <= 1e-9 * max(least, 1)
    assert optimal >= 7


@pytest.mark.parametrize("seed", range(0, 60, 3))
def test_first_tokens_come_before_everything_else(seed: int) -> None:
    instance = workload(seed)
    schedule = scheduler("first-tokens")(instance)
    trace = simulate(instance, schedule)
    assert check(instance, schedule, trace) == ()
    later = trace.finish_s[instance.output_tokens > 1]
    assert not later.size or later.min() > trace.first_token_s.max()


def test_first_tokens_reach_the_optimum() -> None:
    """One prompt after the other while a batch takes 10 s per token, all at once if it takes 1."""
    shapes = ((3, 4, 0.0), (1, 2, 0.0), (2, 3, 0.0))
    for pieces, total in ((((0.5, 10.0),), 10.5 + 31.0 + 61.5), (((1.0, 0.0),), 3.0)):
        instance = Instance(
            name="few", limits=Limits(kv_tokens=6, batch_tokens=6), cost=CostModel(pieces=pieces),
            requests=requests(*shapes),
        )  # fmt: skip
        found = value(instance, scheduler("first-tokens")(instance), TTFT)
        assert found == pytest.approx(optimum(instance, objective=TTFT)[0], rel=1e-12)
        assert 3 * found == pytest.approx(total)


def test_annealing_beats_the_order_it_starts_from() -> None:
    rng = random.Random(3)
    shapes = [(rng.randint(1, 5), rng.randint(1, 30), 0.0) for _ in range(12)]
    instance = Instance(
        name="hindsight", limits=Limits(kv_tokens=40, batch_tokens=1000), cost=UNIT,
        requests=requests(*shapes),
    )  # fmt: skip
    first = ranked_look_ahead(instance, RankOptions(rank=machine_time_s(instance)))
    annealed = improved_order(instance, LATENCY, seed=1)
    assert value(instance, annealed, LATENCY) < value(instance, first.schedule(instance), LATENCY)
    assert improved_order(instance, LATENCY, seed=1).same_as(annealed)


def test_a_deadline_in_the_past_leaves_the_first_scheduler() -> None:
    instance = overloaded()
    at_once = best_for(instance, LATENCY, deadline=time.monotonic() - 1)
    assert at_once.same_as(scheduler("shortest-work")(instance))


def test_the_search_over_orders_looks_at_the_clock_at_every_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A schedule of many requests takes a while: not even a few may follow the deadline."""
    instance, begun = one_at_a_time(*((5, 5, 0.0) for _ in range(6))), []

    def made(*arguments: Any) -> StartTimes:
        begun.append(arguments)
        return ranked_look_ahead(*arguments)

    monkeypatch.setattr(clock_orders, "ranked_look_ahead", made)
    monkeypatch.setattr(clock_orders.time, "monotonic", itertools.count().__next__)
    improved_order(instance, LATENCY, deadline=3)
    assert len(begun) == 5  # the order to start from, and four steps at 0, 1, 2, 3


def test_a_look_ahead_among_others_has_what_is_left_of_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = []

    class Asked(LookAheadScheduler):
        def __call__(self, instance: Instance, /, *, time_limit_s: float | None = None) -> Schedule:
            given.append(time_limit_s)
            return scheduler("mc-sf")(instance)

    asked = Asked(PORTFOLIO, "records its limit", lambda _: [])
    monkeypatch.setattr(
        clock_portfolio, "scheduler", lambda name: asked if name == PORTFOLIO else scheduler(name)
    )
    instance = one_at_a_time((5, 5, 0.0), (8, 2, 0.0))
    best_for(instance, LATENCY, deadline=time.monotonic() + 600)
    best_for(instance, LATENCY)
    assert given[0] is not None
    assert 0 < given[0] <= 600
    assert given[1] is None
