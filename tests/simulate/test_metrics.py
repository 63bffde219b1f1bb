from __future__ import annotations

import random

import msgspec
import numpy as np
import pytest

from optsched.errors import InvalidInputError
from optsched.instance import Instance, Limits, Request
from optsched.schedule import Kind, Schedule
from optsched.simulate import Metrics, loads, measure, request_times, simulate
from optsched.trace import Trace
from tests.simulate.examples import UNIT, action, instance_of, process, request, two
from tests.simulate.random_schedules import (
    from_rows,
    random_call_instance,
    random_schedule,
    waiting,
)

NAN = float("nan")


def evicting() -> tuple[Instance, Schedule]:
    """r0 (I 2, O 3) is evicted in batch 2 and refilled in batch 3; r1 (I 4, O 2) finishes in 2."""
    instance = instance_of(request("r0", 2, 3), request("r1", 4, 2), request("r2", 1, 1))
    rows = [
        *process(0, 1, 2), *action(0, Kind.EVICT, 2), *process(0, 3, 3, 1), *process(1, 1, 4, 1),
        *process(2, 4, 1),
    ]  # fmt: skip
    return instance, from_rows(rows)


def measured(**changes: list[float]) -> Trace:
    """A measured trace of ``evicting``: batches of 1, 2, 4 and 1 s, an idle second before 4."""
    times: dict[str, list[float]] = {
        "start_s": [0.0, 1.0, 3.0, 8.0], "end_s": [1.0, 3.0, 7.0, 9.0],
        "first_token_s": [1.0, 1.0, 9.0], "finish_s": [9.0, 3.0, 9.0], "pause_s": [2.0, 0.0, 0.0],
    }  # fmt: skip
    return Trace(source="measured", **{**times, **changes})  # type: ignore[arg-type]


def test_times_of_requests() -> None:
    instance, _ = evicting()
    times = request_times(instance, measured())
    assert times.ttft_s.tolist() == [1.0, 1.0, 9.0]
    assert times.latency_s.tolist() == [9.0, 3.0, 9.0]
    np.testing.assert_array_equal(times.tpot_s, [4.0, 2.0, NAN])
    np.testing.assert_array_equal(times.tpot_without_pauses_s, [3.0, 2.0, NAN])


def test_times_count_from_the_arrival() -> None:
    instance, schedule = two()
    times = request_times(instance, simulate(instance, schedule))
    assert times.ttft_s.tolist() == pytest.approx([0.00961128, 0.00968398])
    assert times.latency_s.tolist() == pytest.approx([0.03882938, 0.13737703])
    assert times.tpot_s.tolist() == pytest.approx([0.0292181 / 3, 0.12769305 / 3])
    assert times.tpot_without_pauses_s.tolist() == pytest.approx([0.0292181 / 3, 0.02769305 / 3])


def test_metrics_of_a_schedule() -> None:
    instance, schedule = evicting()
    metrics = measure(instance, schedule, measured())
    assert metrics.makespan_s == 9.0
    assert metrics.tokens_per_second == 6 / 9
    assert (metrics.batches, metrics.evictions, metrics.pause_s) == (4, 1, 2.0)
    # The prompt's 2 tokens are processed twice: 2 + 4, 1, 3, 1 + 1 tokens in the four batches.
    assert (metrics.refilled_tokens, metrics.processed_tokens) == (2, 12)
    assert metrics.recompute_tax == 2 / 12
    assert metrics.swapped_tokens == 0
    # KV in use: 2 + 4, 5, 3, 4 + 1 tokens over 1, 2, 4 and 1 seconds.
    assert metrics.peak_kv_tokens == 6
    assert metrics.mean_kv_tokens == (6 * 1 + 5 * 2 + 3 * 4 + 5 * 1) / 8


def test_distributions_leave_out_what_is_undefined() -> None:
    metrics = measure(*evicting(), measured())
    ttft, tpot = metrics.ttft_s, metrics.tpot_s
    assert ttft.mean == pytest.approx(11 / 3)
    assert (ttft.p50, ttft.max) == (1.0, 9.0)
    # Sorted 1, 1, 9: the 90th percentile is 0.8 of the way from the second to the third.
    assert ttft.p90 == pytest.approx(1 + 0.8 * 8)
    assert ttft.p99 == pytest.approx(1 + 0.98 * 8)
    assert (tpot.mean, tpot.p50, tpot.max) == (3.0, 3.0, 4.0)
    assert metrics.tpot_without_pauses_s.max == 3.0
    assert metrics.latency_s.mean == 7.0


def with_objectives(**objectives: float) -> Instance:
    """``evicting`` with r0's objectives and weights 2, 3 and 4."""
    instance, _ = evicting()
    first, *rest = instance.requests
    weighed = [
        msgspec.structs.replace(first, weight=2.0, **objectives),
        *(msgspec.structs.replace(r, weight=w) for r, w in zip(rest, (3.0, 4.0), strict=True)),
    ]
    return msgspec.structs.replace(instance, requests=tuple(weighed))


@pytest.mark.parametrize(
    ("objectives", "met"),
    [
        ({}, True),
        ({"ttft_slo_s": 1.0, "tpot_slo_s": 4.0, "latency_slo_s": 9.0}, True),
        ({"ttft_slo_s": 0.99}, False),
        ({"tpot_slo_s": 3.9}, False),
        ({"latency_slo_s": 8.9}, False),
        ({"ttft_slo_s": 5.0, "latency_slo_s": 0.0}, False),
    ],
)
def test_goodput_counts_requests_that_meet_all_their_objectives(
    objectives: dict[str, float], met: bool
) -> None:
    metrics = measure(with_objectives(**objectives), evicting()[1], measured())
    assert metrics.goodput_requests == 2 + met
    assert metrics.goodput_weight == 7.0 + 2.0 * met
    assert metrics.goodput_weight_per_second == metrics.goodput_weight / 9.0


def test_tpot_of_a_single_token_counts_as_met() -> None:
    single = Request(id="r0", prompt_tokens=3, output_tokens=1, tpot_slo_s=0.0)
    instance = instance_of(single)
    schedule = from_rows(process(0, 1, 3))
    metrics = measure(instance, schedule, simulate(instance, schedule))
    assert metrics.goodput_requests == 1
    assert metrics.tpot_s.mean is None
    assert metrics.tpot_s.max is None


def test_a_request_that_a_trace_never_finishes_is_not_goodput() -> None:
    instance, schedule = evicting()
    metrics = measure(instance, schedule, measured(finish_s=[9.0, NAN, 9.0]))
    assert metrics.goodput_requests == 2
    assert metrics.latency_s.mean == 9.0


def test_deliberate_waits_are_reported() -> None:
    instance, schedule = evicting()
    delayed = waiting(schedule, (2, 1.0), (2, 2.0), (4, 3.0))
    assert measure(instance, schedule, measured()).deliberate_waits == 0
    assert measure(instance, delayed, measured()).deliberate_waits == 2


def test_swapped_tokens_count_both_directions() -> None:
    instance = instance_of(request("r0", 5, 2), request("r1", 1, 3), host_kv_tokens=5)
    rows = [
        *process(0, 1, 5), *action(0, Kind.SWAP_OUT, 2), *action(0, Kind.SWAP_IN, 3),
        *process(0, 3, 1), *process(1, 1, 1, 1, 1),
    ]  # fmt: skip
    schedule = from_rows(rows)
    assert measure(instance, schedule, simulate(instance, schedule)).swapped_tokens == 10


def test_metrics_are_json_with_null_for_undefined() -> None:
    instance = Instance(
        name="one", limits=Limits(kv_tokens=9, batch_tokens=9), cost=UNIT,
        requests=(request("r0", 3, 1),),
    )  # fmt: skip
    schedule = from_rows(process(0, 1, 3))
    metrics = measure(instance, schedule, simulate(instance, schedule))
    text = msgspec.json.encode(metrics)
    assert msgspec.json.decode(text)["tpot_s"] == dict.fromkeys(
        ("mean", "p50", "p90", "p99", "max")
    )
    assert msgspec.json.decode(text, type=Metrics) == metrics


def test_a_trace_without_duration_has_no_rates() -> None:
    instance, schedule = evicting()
    zero = measured(**{name: [0.0] * 4 for name in ("start_s", "end_s")})
    metrics = measure(instance, schedule, zero)
    assert (metrics.tokens_per_second, metrics.goodput_weight_per_second) == (None, None)
    assert metrics.mean_kv_tokens is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"start_s": [0.0], "end_s": [1.0]}, "trace.end_s: got 1, expected 4 entries"),
        (
            {"first_token_s": [1.0], "finish_s": [1.0], "pause_s": [0.0]},
            "trace.finish_s: got 1, expected 3 entries",
        ),
    ],
)
def test_a_trace_of_something_else_is_refused(
    changes: dict[str, list[float]], message: str
) -> None:
    instance, schedule = evicting()
    with pytest.raises(InvalidInputError) as refused:
        measure(instance, schedule, measured(**changes))
    assert message in refused.value.message


def test_all_tokens_are_processed_once_or_refilled() -> None:
    for seed in range(100):
        rng = random.Random(seed)
        instance = random_call_instance(rng)
        schedule = random_schedule(rng, instance)
        metrics = measure(instance, schedule, simulate(instance, schedule))
        once = int(instance.final_tokens.sum())
        assert metrics.processed_tokens - metrics.refilled_tokens == once
        assert metrics.peak_kv_tokens == loads(instance, schedule).kv_tokens.max()
        assert metrics.goodput_requests == len(instance)
