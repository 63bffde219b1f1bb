"""What the checker promises whatever the schedule, and where its rules draw the line."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optsched.check import POLICIES, RULES, Violation, check, require_valid
from optsched.errors import InvalidInputError, ScheduleError, UnknownNameError
from optsched.handling import HANDLINGS
from optsched.instance import Call, Instance, Limits, Request
from optsched.schedule import Kind, Schedule
from optsched.trace import Trace
from tests.check.random_schedules import random_instance, random_trace, random_valid
from tests.check.runs import rows_of, schedule_of
from tests.tiny import LINEAR

ONE = Instance(
    name="one", cost=LINEAR, limits=Limits(kv_tokens=6, batch_tokens=4, prefill_tokens=2),
    requests=(Request(id="only", prompt_tokens=3, output_tokens=3),),
)  # fmt: skip
PAUSED = Instance(
    name="paused", cost=LINEAR, limits=Limits(kv_tokens=20, batch_tokens=9),
    requests=(
        Request(
            id="caller", prompt_tokens=2, output_tokens=3,
            calls=(Call(after_tokens=1, duration_s=2.0, response_tokens=0),),
        ),
        Request(id="other", prompt_tokens=2, output_tokens=4),
    ),
)  # fmt: skip
TOGETHER = (*(policy for policy in POLICIES if policy not in HANDLINGS), "preserve")


def processing(*rows: tuple[int, int, int, int]) -> Schedule:
    """Runs (request, first batch, batches, tokens) that all process."""
    return schedule_of(
        (request, Kind.PROCESS, first, batches, tokens) for request, first, batches, tokens in rows
    )


def steady(batches: int, requests: int) -> Trace:
    """One batch per second."""
    start, unknown = np.arange(float(batches)), np.full(requests, np.nan)
    return Trace(
        source="simulated", start_s=start, end_s=start + 1, first_token_s=unknown,
        finish_s=unknown, pause_s=unknown,
    )  # fmt: skip


def brief(found: tuple[Violation, ...]) -> list[tuple[str, int | None, str | None, float]]:
    return [(v.rule, v.batch, v.request, v.excess) for v in found]


def test_no_run_at_all() -> None:
    nothing = schedule_of([])
    assert brief(check(ONE, nothing, None, TOGETHER)) == [("completion", None, "only", 3)]
    assert brief(check(ONE, nothing, steady(0, 1))) == [("completion", None, "only", 3)]


def test_a_call_without_a_batch_in_between_satisfies_every_handling() -> None:
    alone = processing((0, 1, 1, 2), (0, 2, 2, 1), (1, 4, 1, 2), (1, 5, 3, 1))
    held = processing((0, 1, 1, 2), (1, 2, 1, 2), (1, 3, 3, 1), (0, 6, 2, 1))
    for handling in HANDLINGS:
        assert check(PAUSED, alone, policies=[handling]) == ()
        found = check(PAUSED, held, policies=[handling])
        assert brief(found) == ([] if handling == "preserve" else [(handling, 6, "caller", 1)])


def test_a_handling_of_one_request_overrides_the_general_one() -> None:
    held = processing((0, 1, 1, 2), (1, 2, 1, 2), (1, 3, 3, 1), (0, 6, 2, 1))
    assert check(PAUSED, held, policies=["swap", "preserve:caller"]) == ()
    assert check(PAUSED, held, policies=["swap:other"]) == ()
    found = check(PAUSED, held, policies=["preserve", "swap:caller"])
    assert [v.message for v in found] == [
        "swap in batch 6, request 'caller': its call of batch 1 is handled by preserve"
    ]


def test_handlings_that_make_no_sense() -> None:
    schedule = processing((0, 1, 1, 2))
    with pytest.raises(InvalidInputError, match="all requests cannot be handled by both discard"):
        check(PAUSED, schedule, policies=["swap", "discard"])
    with pytest.raises(InvalidInputError, match="request 'other' cannot be handled by both"):
        check(PAUSED, schedule, policies=["swap:other", "preserve:other"])
    with pytest.raises(UnknownNameError, match="unknown request 'caler'"):
        check(PAUSED, schedule, policies=["swap:caler"])


def test_an_unknown_policy() -> None:
    with pytest.raises(UnknownNameError, match="no-evict"):
        check(ONE, processing((0, 1, 1, 3)), policies=["no-evct"])


def test_the_last_chunk_of_a_first_fill_is_prefill_and_that_of_a_refill_may_be_decode() -> None:
    requests = (
        Request(id="a", prompt_tokens=3, output_tokens=3),
        Request(id="b", prompt_tokens=2, output_tokens=1),
    )
    limits = Limits(kv_tokens=9, batch_tokens=4, prefill_tokens=2)
    instance = Instance(name="two", cost=LINEAR, limits=limits, requests=requests)
    # a: 2 + 1 prefill; evicted in batch 3; refilled as 2 + 1 + 1, whose last token is one of its
    # own output, so the step has m = s - 1 >= I and is a decode.
    a = [(0, 1, 1, 1, 2), (0, 1, 2, 1, 1), (0, 2, 3, 1, 0), (0, 1, 4, 1, 2), (0, 1, 5, 3, 1)]

    def schedule(b: int) -> Schedule:
        return schedule_of([*a, (1, 1, 3, 1, 1), (1, 1, b, 1, 1)])

    hybrid = ("no-hybrid",)
    assert brief(check(instance, schedule(5), policies=hybrid)) == []
    assert brief(check(instance, schedule(6), policies=hybrid)) == [("no-hybrid", 6, None, 1)]
    assert brief(check(instance, schedule(7), policies=hybrid)) == [("no-hybrid", 7, None, 1)]


def test_prefill_tokens_are_checked_only_where_they_are_limited() -> None:
    instance = Instance(
        name="wide", cost=LINEAR, limits=Limits(kv_tokens=6, batch_tokens=2),
        requests=ONE.requests,
    )  # fmt: skip
    schedule = processing((0, 1, 1, 3), (0, 2, 2, 1))
    assert brief(check(instance, schedule)) == [("batch_tokens", 1, None, 1)]
    assert brief(check(ONE, schedule)) == [("prefill_tokens", 1, None, 1)]


def test_no_hold_allows_a_pause_and_no_more() -> None:
    # The caller makes its call in batch 1, for 2 s, and is next processed in batch 5.
    schedule = processing((0, 1, 1, 2), (0, 5, 2, 1), (1, 1, 1, 2), (1, 2, 3, 1))
    policy = ("no-hold",)
    assert check(PAUSED, schedule, None, policy) == ()
    # Batch 1 ends at 1 s, the call returns at 3 s, batch 4 starts then.
    found = check(PAUSED, schedule, steady(6, 2), policy)
    assert brief(found) == [("no-hold", 4, "caller", 1)]
    held_again = processing((0, 1, 1, 2), (0, 3, 1, 1), (0, 5, 1, 1), (1, 1, 1, 2), (1, 2, 3, 1))
    assert brief(check(PAUSED, held_again, None, policy)) == [("no-hold", 4, "caller", 1)]


def test_nonpreemptive_allows_a_pause_and_no_more() -> None:
    # Unlike no-hold, also where the KV is discarded during the call: it is refilled in batch 5.
    schedule = schedule_of([
        (0, Kind.PROCESS, 1, 1, 2), (0, Kind.EVICT, 2, 1, 0), (0, Kind.PROCESS, 5, 1, 3),
        (0, Kind.PROCESS, 6, 1, 1), (1, Kind.PROCESS, 1, 1, 2), (1, Kind.PROCESS, 2, 3, 1),
    ])  # fmt: skip
    policy = ("nonpreemptive",)
    assert check(PAUSED, schedule, None, policy) == ()
    # The call returns at 3 s, and batch 4 starts then.
    assert brief(check(PAUSED, schedule, steady(6, 2), policy)) == [
        ("nonpreemptive", 4, "caller", 1)
    ]


def test_requests_that_arrive_together_may_overtake_each_other() -> None:
    requests = tuple(
        Request(id=name, prompt_tokens=1, output_tokens=1, arrival_s=arrival)
        for name, arrival in (("late", 2.0), ("a", 1.0), ("b", 1.0), ("c", 0.5))
    )
    limits = Limits(kv_tokens=9, batch_tokens=9)
    instance = Instance(name="order", cost=LINEAR, limits=limits, requests=requests)
    in_order = processing((3, 1, 1, 1), (2, 2, 1, 1), (1, 3, 1, 1), (0, 3, 1, 1))
    assert check(instance, in_order, policies=["fcfs"]) == ()
    c_last = processing((1, 1, 1, 1), (2, 2, 1, 1), (0, 3, 1, 1), (3, 4, 1, 1))
    found = check(instance, c_last, policies=["fcfs"])
    assert brief(found) == [("fcfs", 1, "a", 3), ("fcfs", 2, "b", 2), ("fcfs", 3, "late", 1)]
    assert all("before that of 'c'" in violation.message for violation in found)


def test_times_may_differ_by_a_rounding_error_of_the_largest() -> None:
    schedule = processing((0, 1, 1, 2), (0, 4, 2, 1), (1, 1, 1, 2), (1, 2, 3, 1))
    trace = steady(5, 2)
    assert check(PAUSED, schedule, trace) == ()
    for late, rules in ((3e-9, []), (1e-7, ["pause"])):
        start = trace.start_s.copy()
        start[3] -= late
        end = np.minimum(trace.end_s, np.append(start[1:], np.inf))
        moved = replace(trace, start_s=start, end_s=end)
        assert [v.rule for v in check(PAUSED, schedule, moved)] == rules


def test_violations_are_named_in_one_line() -> None:
    found = check(ONE, processing((0, 1, 1, 2), (0, 2, 1, 1), (0, 3, 3, 1)))
    assert [v.message for v in found] == [
        "progress in batch 5: no token is processed, batches in a row: 1",
        "completion in batch 5, request 'only': processed after it finished, batches: 1",
    ]
    found = check(ONE, processing((0, 1, 1, 3), (0, 2, 1, 1)))
    assert [v.message for v in found] == [
        "prefill_tokens in batch 1: 3 prefill tokens, prefill_tokens = 2 (1 too many)",
        "completion, request 'only': generates 2 of its 3 tokens",
    ]


def test_require_valid() -> None:
    require_valid(ONE, processing((0, 1, 1, 2), (0, 2, 1, 1), (0, 3, 2, 1)), None, POLICIES[:1])
    with pytest.raises(ScheduleError, match="1 violation: progress in batch 3, request 'only'"):
        require_valid(ONE, processing((0, 1, 1, 2), (0, 2, 1, 1), (0, 3, 1, 2), (0, 4, 1, 1)))
    with pytest.raises(ScheduleError, match=r"3 violations: [^;]*; [^;]*; [^;]*$"):
        require_valid(ONE, processing((0, 1, 1, 2), (0, 2, 1, 1), (0, 4, 1, 2)))
    with pytest.raises(ScheduleError, match=r"instance 'one', 6 violations: .*; and 3 more"):
        require_valid(ONE, processing((0, 2, 1, 4), (0, 5, 1, 2)))


def test_far_batches_take_no_memory() -> None:
    far = 10**14
    schedule = processing((0, 1, 1, 2), (0, 2, 1, 1), (0, far, 10**14, 1), (9, 10**15, 1, 1))
    assert brief(check(ONE, schedule, None, TOGETHER)) == [
        ("no-chunk", 1, "only", 1),
        ("nonpreemptive", 1, "only", 1),
        ("progress", 3, None, far - 3),
        ("no-hold", 3, "only", far - 3),
        ("nonpreemptive", 3, "only", far - 3),
        ("progress", far + 2, None, 10**15 - far - 1),
        ("completion", far + 2, "only", 10**14 - 2),
        ("progress", 10**15, None, 1),
    ]


def test_a_long_run_enters_its_pages_on_time() -> None:
    request = Request(id="long", prompt_tokens=5, output_tokens=1_000_001)
    limits = Limits(kv_tokens=999_984, batch_tokens=5, block_tokens=16)  # 62,499 pages
    instance = Instance(name="long", cost=LINEAR, limits=limits, requests=(request,))
    found = check(instance, processing((0, 1, 1, 5), (0, 2, 1_000_000, 1)))
    # 999,985 tokens are cached after batch 999,981; 1,000,001 after batch 999,997.
    assert brief(found) == [
        ("kv_capacity", batch, None, 16 if batch < 999_997 else 32)
        for batch in range(999_981, 1_000_002)
    ]


@pytest.mark.parametrize("chunk", [1, 2, 3, 5, 7, 8])
@pytest.mark.parametrize("block", [2, 3, 4, 7])
def test_chunks_enter_their_pages_on_time(block: int, chunk: int) -> None:
    # Nothing fits in one KV token, so the excess of every batch tells how much is cached after it.
    request = Request(id="only", prompt_tokens=1 + 9 * chunk, output_tokens=1)
    limits = Limits(kv_tokens=1, batch_tokens=chunk, block_tokens=block)
    instance = Instance(name="pages", cost=LINEAR, limits=limits, requests=(request,))
    found = check(instance, processing((0, 1, 1, 1), (0, 2, 9, chunk)))
    cached = [1 + k * chunk for k in range(10)]
    assert brief(found) == [
        ("kv_capacity", batch, None, block * -(-tokens // block) - 1)
        for batch, tokens in enumerate(cached, start=1)
    ]


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    """Any schedule that the record allows, numbers of any size."""
    sizes = st.one_of(st.integers(1, 8), st.integers(1, 2**40))
    rows = []
    for _ in range(draw(st.integers(0, 12))):
        kind = draw(st.sampled_from([Kind.PROCESS, *Kind]))
        process = kind == Kind.PROCESS
        request = draw(st.one_of(st.integers(0, 5), st.integers(0, 2**40)))
        tokens = draw(st.one_of(st.just(0), sizes)) if process else 0
        rows.append((request, kind, draw(sizes), draw(sizes) if process else 1, tokens))
    return schedule_of(rows)


@given(schedules(), st.integers(0, 2**32), st.booleans())
def test_any_schedule_gets_a_verdict(schedule: Schedule, seed: int, timed: bool) -> None:
    rng = random.Random(seed)
    instance = random_instance(rng)
    trace = steady(rng.randint(0, 9), len(instance)) if timed else None
    found = check(instance, schedule, trace, TOGETHER)
    assert {v.rule for v in found} <= {*RULES, *POLICIES}
    assert all(v.excess > 0 and "\n" not in v.message for v in found)
    assert all(v.batch is None or 1 <= v.batch <= schedule.batch_count for v in found if not timed)
    assert found == check(instance, schedule, trace, TOGETHER)


@given(st.integers(0, 2**32))
def test_how_a_schedule_is_cut_into_runs_does_not_matter(seed: int) -> None:
    rng = random.Random(seed)
    instance = random_instance(rng)
    schedule = random_valid(instance, rng)
    trace = random_trace(instance, schedule, rng)
    rows = []
    for request, kind, first, batches, tokens in rows_of(schedule):
        cut = rng.randint(0, batches - 1)
        rows += [(request, kind, first, cut, tokens)] * (cut > 0)
        rows.append((request, kind, first + cut, batches - cut, tokens))
    cut_up = check(instance, schedule_of(rows), trace, TOGETHER)
    assert cut_up == check(instance, schedule, trace, TOGETHER)


@given(st.integers(0, 2**32))
def test_the_order_of_the_requests_does_not_matter(seed: int) -> None:
    rng = random.Random(seed)
    instance = random_instance(rng)
    schedule = random_valid(instance, rng)
    order = rng.sample(range(len(instance)), len(instance))  # place k holds request order[k]
    requests = tuple(instance.requests[i] for i in order)
    shuffled = Instance(
        name=instance.name, limits=instance.limits, cost=instance.cost, requests=requests
    )
    moved = replace(schedule, request=np.argsort(order)[schedule.request])
    one, other = (
        check(*pair, None, TOGETHER) for pair in ((instance, schedule), (shuffled, moved))
    )
    assert sorted(v.message for v in one) == sorted(v.message for v in other)
