"""Look-ahead for requests with calls: valid, never below the optimum, and the same every time."""

from __future__ import annotations

import time
from dataclasses import fields, replace

import msgspec
import numpy as np
import pytest

from optsched.check import check
from optsched.errors import InfeasibleError
from optsched.instance import Call, Instance, Limits, Request
from optsched.io.augmented import augmented
from optsched.objective import Objective
from optsched.schedule import Kind, Schedule
from optsched.simulate import objective_value, simulate
from optsched.warmstart import calls_search, scheduler
from optsched.warmstart.calls_chunks import fill_tokens
from optsched.warmstart.calls_compiled import compiled_serve
from optsched.warmstart.calls_lookahead import LookAhead
from optsched.warmstart.calls_schedulers import CALLS
from optsched.warmstart.calls_search import search_with_calls
from optsched.warmstart.calls_serve import serve
from optsched.warmstart.calls_settings import Order, Settings, has_deadlines, rule_of
from optsched.warmstart.calls_shape import law_of, room_of, shape_of
from optsched.warmstart.calls_state import STEPS
from optsched.warmstart.clock_portfolio import best_for
from optsched.warmstart.portfolio import StoppedEarly, best_with_calls
from optsched.warmstart.serial import serial
from tests.oracle import optimum
from tests.tiny import LINEAR, random_instance

_OBJECTIVES = tuple(Objective)


def drawn(seed: int, requests: int = 3) -> Instance:
    """A tiny instance with calls; every second with arrivals, some tight, paged or swapping."""
    return random_instance(
        seed, most_requests=requests, calls=True, host_room=seed % 3 > 0, arrivals=seed % 2 == 0,
        pages=seed % 5 == 0, tight=seed % 4 < 2, slos=True,
    )  # fmt: skip


def value_of(instance: Instance, schedule: Schedule, objective: Objective) -> float:
    """The objective of a schedule that keeps to every rule."""
    trace = simulate(instance, schedule)
    assert not check(instance, schedule, trace)
    return objective_value(instance, trace, objective)


@pytest.mark.parametrize("first", range(0, 120, 20))
def test_valid_and_never_better_than_the_optimum(first: int) -> None:
    for seed in range(first, first + 20):
        objective = _OBJECTIVES[seed % len(_OBJECTIVES)]
        instance = drawn(seed, 2 if objective is Objective.GOODPUT else 3)
        found = value_of(
            instance, search_with_calls(instance, objective, tries=30).schedule, objective
        )
        best, _ = optimum(instance, objective=objective)
        assert objective.loss(found) >= objective.loss(best) - 1e-9 * max(abs(best), 1e-3)


def test_mostly_optimal_where_few_requests_call() -> None:
    met = 0
    for seed in range(12):
        instance = drawn(1000 + seed, 2)
        found = value_of(
            instance, best_for(instance, Objective.MEAN_LATENCY), Objective.MEAN_LATENCY
        )
        best, _ = optimum(instance, objective=Objective.MEAN_LATENCY)
        met += found <= best * (1 + 1e-9)
    assert met >= 8


@pytest.mark.parametrize("order", list(Order))
def test_every_order_serves_everybody(order: Order) -> None:
    for seed in range(40):
        instance = drawn(2000 + seed)
        look_ahead = LookAhead(instance)
        for margin_s in (0.0, np.inf):
            settings = Settings(order=order, margin_s=margin_s, keep_s=0.01, fills_alone=seed % 2)
            value_of(instance, look_ahead.schedule(settings), Objective.MAKESPAN)


def test_what_the_loop_computes_is_what_the_simulator_says() -> None:
    for seed in range(30):
        instance = drawn(3000 + seed)
        look_ahead = LookAhead(instance)
        settings = Settings(wait=1e9)  # never waits for somebody whom it then leaves out
        schedule = look_ahead.schedule(settings)
        for objective in _OBJECTIVES:
            loss = look_ahead.loss(settings, objective)
            assert loss == pytest.approx(
                objective.loss(value_of(instance, schedule, objective)), rel=1e-9, abs=1e-12
            )


def test_the_result_depends_on_the_instance_and_the_seed_alone() -> None:
    instance = drawn(7)
    first, again = (
        search_with_calls(instance, Objective.MEAN_LATENCY, seed=3).schedule for _ in range(2)
    )
    assert first.same_as(again)


def test_compiled_and_plain_loops_agree() -> None:
    instance = augmented(25, rate=4.0, seed=1, kv_tokens=6000, host_kv_tokens=4000)
    shape, law, room = shape_of(instance), law_of(instance), room_of(instance)
    fast = compiled_serve()
    for settings in (
        Settings(), Settings(order=Order.FIRST, fills_alone=True, margin_s=0.0, wait=0.0),
        Settings(order=Order.PATH, margin_s=np.inf, most=5, most_attention_s=1e-3),
    ):  # fmt: skip
        rule = rule_of(instance, shape, settings)
        logs = np.zeros((2, 40_000, 4), dtype=np.int64)
        ends = [
            run(shape, law, room, rule, has_deadlines(rule), log, 10**6)
            for run, log in zip((serve, fast), logs, strict=True)
        ]
        assert 0 < ends[0].counts[STEPS] < 40_000
        assert np.array_equal(logs[0], logs[1])
        assert np.array_equal(ends[0].finish_s, ends[1].finish_s)


def two_callers(kv_tokens: int, host: int, pause_s: float = 5.0, second_s: float = 0.0) -> Instance:
    """Two equal requests of 100 + 20 tokens that call half-way, the second arriving later."""
    call = Call(after_tokens=10, duration_s=pause_s, response_tokens=3)
    return Instance(
        name="two", cost=LINEAR,
        limits=Limits(kv_tokens=kv_tokens, batch_tokens=512, host_kv_tokens=host),
        requests=tuple(
            Request(
                id=f"r{i}", prompt_tokens=100, output_tokens=20, calls=(call,),
                arrival_s=i * second_s,
            )
            for i in range(2)
        ),
    )  # fmt: skip


def kinds(schedule: Schedule) -> set[int]:
    """Kinds of action other than processing."""
    return set(schedule.kind.tolist()) - {int(Kind.PROCESS)}


def test_memory_that_nobody_wants_preserves_everything() -> None:
    schedule = LookAhead(two_callers(500, 500)).schedule(Settings())
    assert kinds(schedule) == set()


def test_a_long_pause_gives_way_to_who_needs_the_memory() -> None:
    # The second request arrives in the pause of the first and does not fit beside it.
    swapping, without = two_callers(150, 500, second_s=0.5), two_callers(150, 0, second_s=0.5)
    assert kinds(LookAhead(swapping).schedule(Settings(swap_bias=0.0))) == {
        int(Kind.SWAP_OUT), int(Kind.SWAP_IN)
    }  # fmt: skip
    assert kinds(LookAhead(without).schedule(Settings())) == {int(Kind.EVICT)}


def test_a_short_pause_keeps_its_memory() -> None:
    instance = two_callers(150, 500, pause_s=0.1, second_s=0.2)
    assert kinds(LookAhead(instance).schedule(Settings(keep_s=1.0, margin_s=np.inf))) == set()


def test_chunks_follow_the_price_of_time() -> None:
    cost = msgspec.structs.replace(
        LINEAR, pieces=((9e-3, 1e-5), (5.8e-3, 6e-5)), p_sq=0.0, p_mc=0.0, p_kv=0.0, p_req=0.0
    )
    law = law_of(msgspec.structs.replace(two_callers(500, 0), cost=cost))
    assert law.knots.tolist() == [64]
    alone, price = fill_tokens(law, 0, 0.0, 1.0, 1.0, 640, 0)
    assert (alone, price) == (640, pytest.approx(5.8e-3 + 6e-5 * 640))
    # Among 50 decodes, 46 batches of 14 tokens delay each of them less than one long batch does.
    crowded, price = fill_tokens(law, 50, 0.0, 51.0, 1.0, 640, 0)
    assert crowded == 14
    assert price == pytest.approx(46 * (51 * (9e-3 + 64e-5) - 50 * (9e-3 + 50e-5)))


def test_every_number_of_the_settings_is_searched() -> None:
    names = {field.name for field in fields(Settings)}
    assert {*calls_search._GRID, "keep_s"} == names - {"order", "offset"}


def test_serial_when_nothing_else_serves_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LookAhead, "loss", lambda *_: float("inf"))
    for seed in range(20):
        instance = drawn(seed)
        found = search_with_calls(instance, Objective.MAKESPAN, tries=5).schedule
        assert found.same_as(serial(instance))
        value_of(instance, found, Objective.MAKESPAN)


def test_an_interrupt_keeps_what_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    instance, loss, asked = drawn(11), LookAhead.loss, []

    def interrupted(self: LookAhead, settings: Settings, objective: Objective) -> float:
        asked.append(settings)
        if len(asked) > 1:
            raise KeyboardInterrupt
        return loss(self, settings, objective)

    monkeypatch.setattr(LookAhead, "loss", interrupted)
    with pytest.raises(StoppedEarly) as stopped:
        best_with_calls(instance, Objective.MEAN_TTFT)
    value_of(instance, stopped.value.schedule, Objective.MEAN_TTFT)


def test_a_deadline_that_is_over_leaves_one_try() -> None:
    instance = drawn(12)
    schedule = best_for(instance, Objective.MAX_LATENCY, deadline=time.monotonic() - 1)
    value_of(instance, schedule, Objective.MAX_LATENCY)


def test_schedulers_by_name_serve_calls_and_plain_requests() -> None:
    with_calls = drawn(13)
    plain = random_instance(13, arrivals=True)
    for name in (*CALLS, "portfolio"):
        for instance in (with_calls, plain):
            value_of(instance, scheduler(name)(instance), Objective.MAKESPAN)


def test_a_request_that_cannot_run_alone_is_named() -> None:
    instance = two_callers(121, 0)
    with pytest.raises(InfeasibleError, match="r0"):
        best_with_calls(instance, Objective.MAKESPAN)


def test_who_cannot_meet_its_objectives_is_served_last() -> None:
    instance = two_callers(500, 0, pause_s=0.0)
    hopeless = msgspec.structs.replace(instance.requests[0], ttft_slo_s=1e-6)
    served = msgspec.structs.replace(instance.requests[1], ttft_slo_s=0.05, latency_slo_s=0.4)
    instance = msgspec.structs.replace(instance, requests=(hopeless, served))
    settings = replace(Settings(order=Order.PRICE), most=1)
    trace = simulate(instance, LookAhead(instance).schedule(settings))
    assert trace.finish_s[1] < trace.first_token_s[0]
