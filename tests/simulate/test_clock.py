from __future__ import annotations

import random

import numpy as np
import pytest

from optsched.cost import CostModel
from optsched.errors import ScheduleError
from optsched.schedule import Kind
from optsched.simulate import durations, loads, simulate
from tests.simulate.examples import action, instance_of, process, request, two
from tests.simulate.random_schedules import (
    from_rows,
    random_call_instance,
    random_schedule,
    waiting,
)
from tests.simulate.reference import replay


@pytest.mark.parametrize("block", range(10))
def test_times_are_those_of_the_interpreter(block: int) -> None:
    for seed in range(200 * block, 200 * (block + 1)):
        rng = random.Random(seed)
        instance = random_call_instance(rng)
        schedule = random_schedule(rng, instance)
        trace, expected = simulate(instance, schedule), replay(instance, schedule)
        np.testing.assert_allclose(trace.start_s, expected.start_s, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(trace.end_s, expected.end_s, rtol=1e-12)
        last = [expected.end_s[s.last_token_batch - 1] for s in expected.states]
        first = [expected.end_s[s.first_token_batch - 1] for s in expected.states]
        np.testing.assert_allclose(trace.finish_s, last, rtol=1e-12)
        np.testing.assert_allclose(trace.first_token_s, first, rtol=1e-12)
        paused = [sum(c.duration_s for c in r.calls) for r in instance.requests]
        np.testing.assert_allclose(trace.pause_s, paused, rtol=1e-12)


def test_two_requests_by_hand() -> None:
    """Preset study: 0.009 + 7e-5 n, 3e-7 m for a decode, 2e-8 c^2 + 4e-8 m c + 3e-8 m + 5e-5 for
    a prefill. Batch 3 waits for r1's arrival at 0.02, batch 5 for its call, 0.1 after batch 4."""
    trace = simulate(*two())
    duration = [
        0.009 + 0.00056 + 0.00000128 + 0.00005,
        0.009 + 0.00007 + 0.0000024,
        0.009 + 0.00063 + 0.0000027 + 0.00000128 + 0.00005,
        0.009 + 0.00014 + 0.0000054,
        0.009 + 0.00042 + 0.00000072 + 0.00000216 + 0.00000027 + 0.00005,
        0.009 + 0.00007 + 0.0000045,
    ]
    assert trace.source == "simulated"
    assert (trace.end_s - trace.start_s).tolist() == pytest.approx(duration, rel=1e-12)
    start = [0.0, 0.00961128, 0.02, 0.02968398, 0.03882938 + 0.1, 0.14830253]
    assert trace.start_s.tolist() == pytest.approx(start, rel=1e-12)
    assert trace.first_token_s.tolist() == pytest.approx([0.00961128, 0.02968398], rel=1e-12)
    assert trace.finish_s.tolist() == pytest.approx([0.03882938, 0.15737703], rel=1e-12)
    assert trace.pause_s.tolist() == [0.0, 0.1]
    assert trace.makespan_s == pytest.approx(0.15737703, rel=1e-12)


def test_every_coefficient_counts_once() -> None:
    """r0 refills 2 + 1 = 3 tokens in chunks of 2 and 1 beside r1, which is swapped out and in.

    Powers of ten keep the terms apart: n pieces, d0, d_req, p0, p_req, then the sums.
    """
    cost = CostModel(
        pieces=((1e9, 0.0), (0.0, 5e8)), d0=1e8, d_req=1e7, p0=1e6, p_req=1e5, d_kv=1e4, p_sq=1e3,
        p_mc=1e2, p_kv=10.0, swap_tok=1.0,
    )  # fmt: skip
    instance = instance_of(request("r0", 2, 2), request("r1", 3, 3), cost=cost, host_kv_tokens=10)
    rows = [
        *process(0, 1, 2), *action(0, Kind.EVICT, 2), *process(0, 3, 2, 1),
        *process(1, 1, 3, 1), *action(1, Kind.SWAP_OUT, 3), *action(1, Kind.SWAP_IN, 4),
        *process(1, 4, 1),
    ]  # fmt: skip
    times = durations(cost, loads(instance, from_rows(rows)))
    assert times.tolist() == [
        5 * 5e8 + 1e6 + 2e5 + (4 + 9) * 1e3,  # fills of 2 and 3
        1e9 + 1e8 + 1e7 + 3e4,  # r1 decodes at m = 3
        1e9 + 1e6 + 1e5 + 4e3 + 4.0,  # chunk of 2 at m = 0; 4 tokens out
        1e9 + 1e8 + 2e7 + (2 + 4) * 1e4 + 4.0,  # both decode: m = 2 and 4; 4 tokens in
    ]


def test_a_batch_waits_for_the_arrivals_of_what_it_processes_only() -> None:
    """The clock starts at the earliest arrival, 10 s; batches take 1 s. r1 arrives at 15 and is
    processed in batch 3 first; batch 2 does not wait for it."""
    instance = instance_of(request("r0", 2, 3, arrival=10.0), request("r1", 2, 1, arrival=15.0))
    trace = simulate(instance, from_rows([*process(0, 1, 2, 1, 1), *process(1, 3, 2)]))
    assert trace.start_s.tolist() == [0.0, 1.0, 5.0]


def test_others_are_processed_during_a_pause() -> None:
    """r0 calls at the end of batch 1 for 2.5 s; r1 runs meanwhile, and batch 4 waits for r0."""
    instance = instance_of(request("r0", 2, 2, (1, 2.5, 0)), request("r1", 1, 3))
    trace = simulate(instance, from_rows([*process(0, 1, 2), *process(0, 4, 1),
                                          *process(1, 1, 1, 1, 1)]))  # fmt: skip
    assert trace.start_s.tolist() == [0.0, 1.0, 2.0, 3.5]
    assert trace.pause_s.tolist() == [2.5, 0.0]


def test_a_pause_that_is_over_delays_nothing() -> None:
    instance = instance_of(request("r0", 2, 2, (1, 1.5, 0)), request("r1", 1, 3))
    trace = simulate(instance, from_rows([*process(0, 1, 2), *process(0, 4, 1),
                                          *process(1, 1, 1, 1, 1)]))  # fmt: skip
    assert trace.start_s.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_a_call_within_a_run_delays_the_next_batch_of_the_run() -> None:
    instance = instance_of(request("r0", 2, 4, (2, 7.0, 0)))
    trace = simulate(instance, from_rows([*process(0, 1, 2), (0, Kind.PROCESS, 2, 3, 1)]))
    assert trace.start_s.tolist() == [0.0, 1.0, 9.0, 10.0]


def test_a_discarded_or_swapped_request_may_act_during_its_pause() -> None:
    """The swap in of batch 3 is not processing: only batch 4 waits for the call's return."""
    instance = instance_of(request("r0", 2, 2, (1, 9.0, 0)), request("r1", 1, 3), host_kv_tokens=5)
    rows = [
        *process(0, 1, 2), *action(0, Kind.SWAP_OUT, 2), *action(0, Kind.SWAP_IN, 3),
        *process(0, 4, 1), *process(1, 1, 1, 1, 1),
    ]  # fmt: skip
    assert simulate(instance, from_rows(rows)).start_s.tolist() == [0.0, 1.0, 2.0, 10.0]


def test_deliberate_waits_hold_a_batch_back() -> None:
    instance = instance_of(request("r0", 2, 3))
    schedule = waiting(from_rows(process(0, 1, 2, 1, 1)), (2, 4.0), (2, 3.0), (3, 1.0))
    assert simulate(instance, schedule).start_s.tolist() == [0.0, 4.0, 5.0]


def test_a_wait_for_a_batch_that_does_not_exist_is_refused() -> None:
    instance = instance_of(request("r0", 2, 2))
    schedule = waiting(from_rows(process(0, 1, 2, 1)), (3, 4.0))
    with pytest.raises(ScheduleError, match=r"batch 3 does not exist, expected .* 1 to 2"):
        simulate(instance, schedule)
