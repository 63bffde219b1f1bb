from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from optsched.errors import ScheduleError
from optsched.instance import Request
from optsched.schedule import Kind, from_steps
from optsched.simulate import Loads, loads
from tests.simulate.examples import action, instance_of, process, request, two
from tests.simulate.random_schedules import (
    from_rows,
    mutated,
    random_call_instance,
    random_schedule,
)
from tests.simulate.reference import BrokenRuleError, Replay, replay

PER_BATCH = (
    "tokens", "decodes", "prefills", "decode_cached", "prefill_square", "prefill_cross",
    "prefill_cached", "swapped_tokens", "kv_tokens", "host_kv_tokens",
)  # fmt: skip


def assert_equal(load: Loads, expected: Replay) -> None:
    """Every column of the loads is what the interpreter counted."""
    for name in PER_BATCH:
        assert getattr(load, name).tolist() == [getattr(b, name) for b in expected.batches], name
    for name in ("first_batch", "first_token_batch", "last_token_batch"):
        assert getattr(load, name).tolist() == [getattr(s, name) for s in expected.states], name
    assert load.refilled_tokens.tolist() == [s.refilled for s in expected.states]
    assert load.call_batch.tolist() == [b for s in expected.states for b in s.made_in]
    assert load.resume_batch.tolist() == [b for s in expected.states for b in s.resumed_in]
    calls = [(i, c.duration_s) for i, s in enumerate(expected.states) for c in s.request.calls]
    made = zip(load.call_request.tolist(), load.call_duration_s.tolist(), strict=True)
    assert list(made) == calls


@pytest.mark.parametrize("block", range(10))
def test_loads_are_those_of_the_interpreter(block: int) -> None:
    for seed in range(200 * block, 200 * (block + 1)):
        rng = random.Random(seed)
        instance = random_call_instance(rng)
        schedule = random_schedule(rng, instance)
        assert_equal(loads(instance, schedule), replay(instance, schedule))


def test_the_random_schedules_are_valid_and_have_everything() -> None:
    seen: Counter[str] = Counter()
    for seed in range(300):
        rng = random.Random(seed)
        instance = random_call_instance(rng)
        schedule = random_schedule(rng, instance)
        limits, replayed = instance.limits, replay(instance, schedule)
        for load in replayed.batches:
            assert load.kv_tokens <= limits.kv_tokens
            assert load.host_kv_tokens <= limits.host_kv_tokens
            assert load.tokens <= limits.batch_tokens
            seen["hybrid"] += bool(load.decodes and load.prefills)
        kinds = Counter(schedule.kind.tolist())
        for kind in Kind:
            seen[kind.label] += kinds[kind]
        chunk = (schedule.tokens > 1) & (schedule.batches > 1)
        seen["runs of chunks"] += int(chunk.sum())
        for state in replayed.states:
            seen["refilled"] += state.refilled > 0
            for call in state.request.calls:
                seen["calls with a response" if call.response_tokens else "calls without"] += 1
        seen["pages"] += limits.block_tokens > 1
        seen["waits"] += schedule.wait_batch.size
        seen["several pieces"] += len(instance.cost.pieces) > 1
        seen["arrivals"] += not instance.offline
    assert len(seen) == 13
    assert min(seen.values()) >= 15, seen


@pytest.mark.parametrize("block", range(5))
def test_mutants_are_refused_exactly_when_the_interpreter_refuses(block: int) -> None:
    outcomes: Counter[bool] = Counter()
    for seed in range(100 * block, 100 * (block + 1)):
        rng = random.Random(seed)
        instance = random_call_instance(rng)
        valid = random_schedule(rng, instance)
        for _ in range(8):
            schedule = mutated(rng, valid)
            try:
                expected = replay(instance, schedule)
            except BrokenRuleError:
                outcomes[False] += 1
                with pytest.raises(ScheduleError):
                    loads(instance, schedule)
            else:
                outcomes[True] += 1
                assert_equal(loads(instance, schedule), expected)
    assert min(outcomes.values()) >= 20, outcomes


def test_two_requests_by_hand() -> None:
    load = loads(*two())
    assert load.tokens.tolist() == [8, 1, 9, 2, 6, 1]
    assert load.decodes.tolist() == [0, 1, 1, 2, 0, 1]
    assert load.prefills.tolist() == [1, 0, 1, 0, 1, 0]
    assert load.decode_cached.tolist() == [0, 8, 9, 10 + 8, 0, 15]
    assert load.prefill_square.tolist() == [64, 0, 64, 0, 36, 0]
    # After its call r1 has cached 9 of its 8 + 2 + 5 tokens.
    assert load.prefill_cross.tolist() == [0, 0, 0, 0, 9 * 6, 0]
    assert load.prefill_cached.tolist() == [0, 0, 0, 0, 9, 0]
    assert load.kv_tokens.tolist() == [8, 9, 10 + 8, 11 + 9, 15, 16]
    assert load.first_token_batch.tolist() == [1, 3]
    assert load.last_token_batch.tolist() == [4, 6]
    assert (load.call_request.tolist(), load.call_batch.tolist()) == ([1], [4])
    assert load.resume_batch.tolist() == [5]


# Request r0 alone, one batch for each entry: tokens of its steps (0: evicted while a second
# request is processed), and for each step whether it is a decode.
@pytest.mark.parametrize(
    ("subject", "steps", "decode"),
    [
        pytest.param(request("r0", 1, 2), [1, 1], [0, 1], id="a prompt of one token"),
        pytest.param(request("r0", 3, 2), [1, 1, 1, 1], [0, 0, 0, 1], id="a fill one by one"),
        pytest.param(request("r0", 5, 2), [2, 2, 1, 1], [0, 0, 0, 1], id="last chunk of one"),
        pytest.param(request("r0", 2, 3), [2, 1, 0, 4], [0, 1, 0, 0], id="refill in one batch"),
        pytest.param(
            request("r0", 2, 4), [2, 1, 0, 1, 1, 1, 1, 1], [0, 1, 0, 0, 0, 0, 1, 1],
            id="refill one by one: its last step is a decode",
        ),
        pytest.param(
            request("r0", 2, 2), [1, 0, 1, 1, 1], [0, 0, 0, 0, 1], id="evicted within its prompt"
        ),
        pytest.param(
            request("r0", 2, 3, (1, 1.0, 0)), [2, 1, 1], [0, 1, 1], id="call without response"
        ),
        pytest.param(
            request("r0", 2, 3, (1, 1.0, 2)), [2, 3, 1], [0, 0, 1], id="response in one batch"
        ),
        pytest.param(
            request("r0", 2, 3, (1, 1.0, 2)), [2, 1, 1, 1, 1], [0, 0, 0, 1, 1],
            id="response one by one: its last step is a decode",
        ),
        pytest.param(
            request("r0", 2, 3, (1, 1.0, 2)), [2, 1, 0, 2, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0, 1, 1],
            id="evicted within a response",
        ),
        pytest.param(
            request("r0", 2, 4, (1, 1.0, 1), (2, 1.0, 1)), [2, 2, 2, 1], [0, 0, 0, 1],
            id="a run of chunks that generates a token with each",
        ),
    ],
)  # fmt: skip
def test_decode_or_prefill(subject: Request, steps: list[int], decode: list[int]) -> None:
    batches = len(steps)
    instance = instance_of(subject, request("other", 1, batches))
    rows = [
        (0, Kind.PROCESS if c else Kind.EVICT, batch, c) for batch, c in enumerate(steps, start=1)
    ]
    other = [(1, Kind.PROCESS, batch, 1) for batch in range(1, batches + 1)]
    load = loads(instance, from_steps(rows + other))
    other_decodes = np.array([0, *[1] * (batches - 1)])
    assert (load.decodes - other_decodes).tolist() == decode
    assert (load.decodes + load.prefills - 1).tolist() == [int(c > 0) for c in steps]


def test_refilled_tokens_are_those_processed_before() -> None:
    """r0 has 3 tokens cached when it is evicted; its refill of 4 repeats 3 of them."""
    instance = instance_of(request("r0", 2, 4), request("r1", 1, 5))
    rows = [
        *process(0, 1, 2, 1), *action(0, Kind.EVICT, 3), *process(0, 4, 4, 1),
        *process(1, 1, 1, 1, 1, 1, 1),
    ]  # fmt: skip
    assert loads(instance, from_rows(rows)).refilled_tokens.tolist() == [3, 0]


def test_swaps_copy_the_cached_tokens_twice_and_move_kv_to_the_host() -> None:
    instance = instance_of(request("r0", 5, 3), request("r1", 1, 5), host_kv_tokens=10)
    rows = [
        *process(0, 1, 5), *action(0, Kind.SWAP_OUT, 2), *action(0, Kind.SWAP_IN, 4),
        *process(0, 4, 1, 1), *process(1, 1, 1, 1, 1, 1, 1),
    ]  # fmt: skip
    load = loads(instance, from_rows(rows))
    assert load.swapped_tokens.tolist() == [0, 5, 0, 5, 0]
    assert load.host_kv_tokens.tolist() == [0, 5, 5, 0, 0]
    assert load.kv_tokens.tolist() == [5 + 1, 2, 3, 6 + 4, 7 + 5]
    assert load.decodes.tolist() == [0, 1, 1, 2, 2]
    assert load.refilled_tokens.tolist() == [0, 0]


def test_an_eviction_from_the_host_copies_nothing() -> None:
    instance = instance_of(request("r0", 5, 2), request("r1", 1, 4), host_kv_tokens=10)
    rows = [
        *process(0, 1, 5), *action(0, Kind.SWAP_OUT, 2), *action(0, Kind.EVICT, 3),
        *process(0, 4, 6), *process(1, 1, 1, 1, 1, 1),
    ]  # fmt: skip
    load = loads(instance, from_rows(rows))
    assert load.swapped_tokens.tolist() == [0, 5, 0, 0]
    assert load.host_kv_tokens.tolist() == [0, 5, 0, 0]
    assert load.kv_tokens.tolist() == [6, 2, 3, 6 + 4]


def test_kv_in_use_is_counted_in_whole_pages() -> None:
    """Pages of 4: levels 3, 4, 5 .. 9 take 4, 4, 8, 8, 8, 8, 12 tokens."""
    instance = instance_of(request("r0", 3, 7), block_tokens=4)
    schedule = from_rows([*process(0, 1, 3), (0, Kind.PROCESS, 2, 6, 1)])
    assert loads(instance, schedule).kv_tokens.tolist() == [4, 4, 8, 8, 8, 8, 12]


def test_a_page_may_be_larger_than_anything() -> None:
    instance = instance_of(request("r0", 3, 3), block_tokens=10**12)
    schedule = from_rows([*process(0, 1, 1, 2), (0, Kind.PROCESS, 3, 2, 1)])
    assert loads(instance, schedule).kv_tokens.tolist() == [10**12] * 4


def test_loads_do_not_change_when_runs_are_cut() -> None:
    instance, schedule = two()
    whole, cut = loads(instance, schedule.merged()), loads(instance, schedule)
    assert len(schedule.merged()) < len(schedule)
    for name in PER_BATCH:
        assert np.array_equal(getattr(whole, name), getattr(cut, name))


def test_loads_are_read_only() -> None:
    load = loads(*two())
    with pytest.raises(ValueError, match="read-only"):
        load.tokens[0] = 1


FILL, DECODES = (0, Kind.PROCESS, 1, 1, 4), (0, Kind.PROCESS, 2, 2, 1)
OTHER = (1, Kind.PROCESS, 1, 3, 1)


# r0 with I = 4, O = 3 and r1 with I = 1, O = 3; the valid schedule is [FILL, DECODES, OTHER].
@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([FILL, DECODES], "completion: request 'r1' is never processed"),
        ([FILL, OTHER], "completion: request 'r0', batch 1: no run after this one"),
        ([FILL, DECODES, OTHER, (2, 1, 1, 1, 1)], "request number 2, expected numbers from 0 to 1"),
        ([FILL, (0, 1, 2, 3, 1), OTHER], "completion: request 'r0', batch 2: the run processes"),
        ([FILL, DECODES, (0, 1, 4, 1, 1), OTHER], "more tokens than the request ever has"),
        (
            [FILL, DECODES, (0, 2, 4, 1, 0), (0, 1, 5, 1, 1), OTHER],
            "completion: request 'r0', batch 4: it has finished before",
        ),
        ([(0, 1, 1, 1, 5), (0, 1, 2, 1, 1), OTHER], "processes more tokens than are known"),
        ([(0, 1, 1, 2, 3), OTHER], "batch 1: processes more tokens than are known"),
        ([(0, 1, 1, 1, 0), FILL, DECODES, OTHER], "processes 0 tokens, expected at least 1"),
        ([(0, 1, 2, 1, 4), (0, 1, 3, 2, 1), (1, 1, 2, 3, 1)], "batch 1 processes nothing"),
        ([FILL, (0, 1, 10**15, 2, 1), OTHER], "a batch before it processes nothing"),
        ([FILL, (0, 1, 2, 10**15, 1), OTHER], "more tokens than the request ever has"),
        ([(0, 1, 1, 1, 10**15), DECODES, OTHER], "more tokens than the request ever has"),
        ([FILL, (0, 1, 1, 2, 1), OTHER], "residency: request 'r0', batch 1: two actions at once"),
        ([FILL, DECODES, (0, 2, 3, 1, 0), OTHER], "batch 3: two actions at once"),
        ([(0, 2, 1, 1, 0), (0, 1, 2, 1, 4), (0, 1, 3, 2, 1), OTHER], "nothing cached"),
        ([FILL, (0, 0, 2, 1, 0), (0, 1, 2, 2, 1), OTHER], "swap_in of a request that is not"),
        ([FILL, (0, 3, 2, 1, 0), (0, 1, 3, 2, 1), OTHER], "host memory, expected swap_in or evict"),
    ],
)  # fmt: skip
def test_a_schedule_without_loads_is_refused(
    rows: list[tuple[int, int, int, int, int]], message: str
) -> None:
    instance = instance_of(request("r0", 4, 3), request("r1", 1, 3))
    assert loads(instance, from_rows([FILL, DECODES, OTHER])).tokens.tolist() == [5, 2, 2]
    with pytest.raises(ScheduleError) as refused:
        loads(instance, from_rows(rows))
    assert message in refused.value.message


def test_an_empty_schedule_is_refused() -> None:
    with pytest.raises(ScheduleError, match="'r0' is never processed"):
        loads(instance_of(request("r0", 4, 3)), from_rows([]))
