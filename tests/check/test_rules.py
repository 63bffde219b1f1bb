"""Each rule on hand-written schedules: what keeps it to the last token, and what breaks it.

The valid schedules are of the paper's instances (InferMax, section 5.1: homogeneous requests,
M = max(2 I, I + O - 1)) and of one with a call, pages and host memory. Each mutant differs from
one of them by one change and breaks the one rule named.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import msgspec
import numpy as np
import pytest

from optsched.check import POLICIES, RULES, check
from optsched.instance import Call, Instance, Limits, Request
from optsched.schedule import Kind, Schedule
from optsched.trace import Trace
from tests.check.runs import Row, rows_of, schedule_of
from tests.tiny import LINEAR

IN, PROCESS, EVICT, OUT = Kind.SWAP_IN, Kind.PROCESS, Kind.EVICT, Kind.SWAP_OUT
Brief = tuple[str, int | None, str | None, float]


def runs(*rows: Row) -> Schedule:
    return schedule_of(rows)


def changed(schedule: Schedule, run: int, **values: int) -> Schedule:
    """The schedule with some columns of one run changed."""
    columns = {}
    for name, value in values.items():
        column = getattr(schedule, name).copy()
        column[run] = value
        columns[name] = column
    return replace(schedule, **columns)


def with_run(schedule: Schedule, run: Row) -> Schedule:
    return schedule_of([*rows_of(schedule), run])


def without(schedule: Schedule, run: int) -> Schedule:
    rows = rows_of(schedule)
    return schedule_of(rows[:run] + rows[run + 1 :])


def limited(instance: Instance, **limits: int) -> Instance:
    return msgspec.structs.replace(
        instance, limits=msgspec.structs.replace(instance.limits, **limits)
    )


def with_request(instance: Instance, at: int, **values: object) -> Instance:
    requests = list(instance.requests)
    requests[at] = msgspec.structs.replace(requests[at], **values)
    return msgspec.structs.replace(instance, requests=tuple(requests))


def times(start: list[float], end: list[float], requests: int) -> Trace:
    unknown = np.full(requests, np.nan)
    return Trace(
        source="measured", start_s=np.array(start), end_s=np.array(end), first_token_s=unknown,
        finish_s=unknown, pause_s=unknown,
    )  # fmt: skip


def brief(
    instance: Instance,
    schedule: Schedule,
    trace: Trace | None = None,
    policies: tuple[str, ...] = (),
) -> list[Brief]:
    found = check(instance, schedule, trace, policies)
    return [(v.rule, v.batch, v.request, v.excess) for v in found]


# B = 2, I = 8, O = 4, M = 16: both are filled in batch 1, r1 goes in batch 2 and comes back.
PAPER = Instance(
    name="B2-I8-O4", cost=LINEAR,
    limits=Limits(kv_tokens=16, batch_tokens=16, prefill_tokens=16, batch_requests=2),
    requests=tuple(Request(id=f"r{i}", prompt_tokens=8, output_tokens=4) for i in range(2)),
)  # fmt: skip
EVICTING = runs(
    (0, PROCESS, 1, 1, 8), (0, PROCESS, 2, 3, 1),
    (1, PROCESS, 1, 1, 8), (1, EVICT, 2, 1, 0), (1, PROCESS, 5, 1, 9), (1, PROCESS, 6, 2, 1),
)  # fmt: skip
EVICTING_TIMES = times([0, 1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6, 7], 2)

# One request swaps out during its call (2 output tokens, 3 s, 5 response tokens); pages of 4.
# KV after its batches: r0 6, 7, 0, 0, 13, 14 (released) and r1 -, -, 3, 4, 5, 6.
TOOL = Instance(
    name="tool", cost=LINEAR,
    limits=Limits(kv_tokens=24, batch_tokens=7, block_tokens=4, host_kv_tokens=7),
    requests=(
        Request(
            id="agent", prompt_tokens=6, output_tokens=4,
            calls=(Call(after_tokens=2, duration_s=3.0, response_tokens=5),),
        ),
        Request(id="chat", prompt_tokens=3, output_tokens=4, arrival_s=2.0),
    ),
)  # fmt: skip
SWAPPING = runs(
    (0, PROCESS, 1, 1, 6), (0, PROCESS, 2, 1, 1), (0, OUT, 3, 1, 0),
    (0, IN, 5, 1, 0), (0, PROCESS, 5, 1, 6), (0, PROCESS, 6, 1, 1),
    (1, PROCESS, 3, 1, 3), (1, PROCESS, 4, 3, 1),
)  # fmt: skip
SWAPPING_TIMES = times([0, 1, 2, 3, 5, 6], [1, 2, 3, 4, 6, 7], 2)


@dataclass(frozen=True)
class Mutant:
    """A change and all that the checker must say about it."""

    what: str
    instance: Instance
    schedule: Schedule
    found: list[Brief]
    trace: Trace | None = None
    policies: tuple[str, ...] = ()


def moved(trace: Trace, **values: Callable[[np.ndarray], None]) -> Trace:
    columns = {}
    for name, change in values.items():
        column = getattr(trace, name).copy()
        change(column)
        columns[name] = column
    return replace(trace, **columns)


MUTANTS = [
    Mutant(
        "a refill of one token too many", PAPER, changed(EVICTING, 4, tokens=10),
        [("progress", 5, "r1", 1)],
    ),
    Mutant(
        "a decode of three tokens at once", PAPER, changed(EVICTING, 1, tokens=3),
        [("progress", 2, "r0", 2)],
    ),
    Mutant(
        "no token in a process run", PAPER, changed(EVICTING, 1, tokens=0),
        # r0 stays with 8 tokens beside r1's 9, 10 and 11.
        [("progress", 2, None, 3), ("progress", 2, "r0", 1), ("kv_capacity", 5, None, 1),
         ("kv_capacity", 6, None, 2), ("kv_capacity", 7, None, 3), ("completion", None, "r0", 3)],
    ),
    Mutant(
        "a batch left empty before the last two", PAPER, changed(EVICTING, 5, first_batch=8),
        [("progress", 6, None, 2)],
    ),
    Mutant(
        "an eviction alone in its batch", PAPER,
        runs((0, PROCESS, 1, 1, 8), (0, PROCESS, 3, 3, 1), (1, PROCESS, 1, 1, 8),
             (1, EVICT, 2, 1, 0), (1, PROCESS, 6, 1, 9), (1, PROCESS, 7, 2, 1)),
        [("progress", 2, None, 1)],
    ),
    Mutant(
        "a request that does not exist", PAPER,
        replace(EVICTING, request=np.array([0, 0, 1, 1, 1, 7])),
        [("progress", 6, None, 1), ("progress", 6, None, 2), ("completion", None, "r1", 2)],
    ),
    Mutant(
        "an eviction of a request that does not exist", PAPER,
        runs((0, PROCESS, 1, 1, 8), (0, PROCESS, 2, 3, 1), (1, PROCESS, 5, 1, 8),
             (1, PROCESS, 6, 3, 1), (2, EVICT, 3, 1, 0)),
        [("residency", 3, None, 1)],
    ),
    Mutant(
        "the last run one batch short", PAPER, changed(EVICTING, 5, batches=1),
        [("completion", None, "r1", 1)],
    ),
    Mutant(
        "two more tokens than asked for", PAPER, changed(EVICTING, 1, batches=5),
        [("completion", 5, "r0", 2)],
    ),
    Mutant(
        "no run of one request", PAPER, runs((0, PROCESS, 1, 1, 8), (0, PROCESS, 2, 3, 1)),
        [("completion", None, "r1", 4)],
    ),
    Mutant(
        "a fill that is never completed", PAPER,
        runs((0, PROCESS, 1, 1, 8), (0, PROCESS, 2, 3, 1), (1, PROCESS, 5, 1, 7)),
        [("completion", None, "r1", 4)],
    ),
    Mutant(
        "an eviction forgotten", PAPER,
        runs((0, PROCESS, 1, 1, 8), (0, PROCESS, 2, 3, 1), (1, PROCESS, 1, 1, 8),
             (1, PROCESS, 5, 3, 1)),
        [("kv_capacity", 2, None, 1), ("kv_capacity", 3, None, 2), ("kv_capacity", 4, None, 3)],
    ),
    Mutant(
        "one KV token less", limited(PAPER, kv_tokens=15), EVICTING,
        [("kv_capacity", 1, None, 1)],
    ),
    Mutant(
        "a page less", limited(TOOL, kv_tokens=20), SWAPPING,
        # Batch 5: 13 and 5 tokens take 16 and 8; batch 6: 14 and 6.
        [("kv_capacity", 5, None, 4), ("kv_capacity", 6, None, 4)],
    ),
    Mutant(
        "longer pages", limited(TOOL, block_tokens=5), SWAPPING,
        # Batch 6: 14 and 6 tokens take 15 and 10; batch 5: 15 and 5.
        [("kv_capacity", 6, None, 1)],
    ),
    Mutant(
        "a smaller batch", limited(PAPER, batch_tokens=15), EVICTING,
        [("batch_tokens", 1, None, 1)],
    ),
    Mutant(
        "a smaller prefill budget", limited(PAPER, prefill_tokens=8), EVICTING,
        [("prefill_tokens", 1, None, 8), ("prefill_tokens", 5, None, 1)],
    ),
    Mutant(
        "one request per batch", limited(PAPER, batch_requests=1), EVICTING,
        [("batch_requests", 1, None, 1)],
    ),
    Mutant(
        "a swap out in place of an eviction", PAPER, changed(EVICTING, 3, kind=OUT),
        [("host_capacity", 2, None, 8), ("host_capacity", 3, None, 8),
         ("host_capacity", 4, None, 8), ("progress", 5, "r1", 8), ("residency", 5, "r1", 8)],
    ),
    Mutant(
        "an eviction too many", PAPER,
        runs((0, PROCESS, 1, 1, 8), (0, PROCESS, 2, 3, 1), (1, EVICT, 4, 1, 0),
             (1, PROCESS, 5, 1, 8), (1, PROCESS, 6, 3, 1)),
        [("residency", 4, "r1", 1)],
    ),
    Mutant(
        "a swap out of nothing", TOOL, with_run(SWAPPING, (1, OUT, 2, 1, 0)),
        [("residency", 2, "chat", 1)],
    ),
    Mutant(
        "a swap in of nothing", TOOL, changed(SWAPPING, 2, kind=IN),
        [("residency", 3, "agent", 1), ("residency", 5, "agent", 1)],
    ),
    Mutant(
        "swapped in, processed and swapped out in one batch", TOOL,
        with_run(SWAPPING, (0, OUT, 5, 1, 0)), [("residency", 5, "agent", 1)],
    ),
    Mutant(
        "a swap in forgotten", TOOL, without(SWAPPING, 3),
        [("residency", 5, "agent", 7)],
    ),
    Mutant(
        "refilled in the batch that evicted", PAPER,
        changed(EVICTING, 4, first_batch=2),
        # The process run is played, as a decode of the one token that is left, not the eviction.
        [("progress", 2, "r1", 8), ("kv_capacity", 2, None, 2), ("residency", 2, "r1", 1),
         ("kv_capacity", 3, None, 3), ("kv_capacity", 4, None, 4), ("progress", 5, None, 1)],
    ),
    Mutant(
        "two process runs over each other", PAPER,
        runs((0, PROCESS, 1, 1, 8), (0, PROCESS, 2, 3, 1), (0, PROCESS, 3, 2, 1),
             (1, PROCESS, 5, 1, 8), (1, PROCESS, 6, 3, 1)),
        [("residency", 3, "r0", 2)],
    ),
    Mutant(
        "less host memory", limited(TOOL, host_kv_tokens=4), SWAPPING,
        [("host_capacity", 3, None, 3), ("host_capacity", 4, None, 3)],
    ),
    Mutant(
        "a later arrival", with_request(TOOL, 1, arrival_s=2.5), SWAPPING,
        [("arrival", 3, "chat", 0.5)], SWAPPING_TIMES,
    ),
    Mutant(
        "a call that takes longer",
        with_request(
            TOOL, 0, calls=(Call(after_tokens=2, duration_s=4.5, response_tokens=5),)
        ),
        SWAPPING, [("pause", 5, "agent", 1.5)], SWAPPING_TIMES,
    ),
    Mutant(
        "a batch that starts before its call returns", TOOL, SWAPPING,
        [("pause", 5, "agent", 1.0)], moved(SWAPPING_TIMES, start_s=lambda s: s.put(4, 4.0)),
    ),
    Mutant(
        "batches over each other", PAPER, EVICTING,
        [("clock", 3, None, 0.5)], moved(EVICTING_TIMES, start_s=lambda s: s.put(2, 1.5)),
    ),
    Mutant(
        "a batch that ends before it starts", PAPER, EVICTING,
        [("clock", 4, None, 0.25)], moved(EVICTING_TIMES, end_s=lambda e: e.put(3, 2.75)),
    ),
    Mutant(
        "a trace of two batches more", PAPER, EVICTING,
        [("clock", None, None, 2)], times([*range(9)], [*range(1, 10)], 2),
    ),
    Mutant(
        "a trace of fewer batches", TOOL, SWAPPING,
        [("clock", None, None, 4)], times([0, 1], [1, 2], 2),
    ),
    Mutant(
        "a batch before its own not_before_s", PAPER,
        replace(EVICTING, wait_batch=np.array([3]), wait_until_s=np.array([4.5])),
        [("clock", 3, None, 2.5)], EVICTING_TIMES,
    ),
    Mutant("no-evict", PAPER, EVICTING, [("no-evict", 2, "r1", 8)], None, ("no-evict",)),
    Mutant(
        "no-chunk", PAPER,
        runs((0, PROCESS, 1, 2, 3), (0, PROCESS, 3, 1, 2), (0, PROCESS, 4, 3, 1),
             (1, PROCESS, 7, 1, 8), (1, PROCESS, 8, 3, 1)),
        [("no-chunk", 1, "r0", 5)], None, ("no-chunk",),
    ),
    Mutant(
        "no-hybrid", TOOL, SWAPPING, [("no-hybrid", 5, None, 1)], None, ("no-hybrid",),
    ),
    Mutant(
        "no-hold", PAPER,
        runs((0, PROCESS, 1, 1, 8), (0, PROCESS, 3, 3, 1), (1, PROCESS, 2, 1, 8),
             (1, EVICT, 3, 1, 0), (1, PROCESS, 6, 1, 9), (1, PROCESS, 7, 2, 1)),
        [("no-hold", 2, "r0", 1)], None, ("no-hold",),
    ),
    Mutant(
        "no-swap", TOOL, SWAPPING, [("no-swap", 3, "agent", 7), ("no-swap", 5, "agent", 7)],
        None, ("no-swap",),
    ),
    Mutant("preserve", TOOL, SWAPPING, [("preserve", 5, "agent", 1)], None, ("preserve",)),
    Mutant("discard", TOOL, SWAPPING, [("discard", 5, "agent", 1)], None, ("discard:agent",)),
    Mutant(
        "swap", TOOL, without(without(SWAPPING, 3), 2), [("swap", 5, "agent", 1)], None, ("swap",),
    ),
    Mutant(
        # r1 arrives first, and its first token comes in batch 5, after that of r0 in batch 1.
        "fcfs", with_request(PAPER, 0, arrival_s=1.0),
        runs((0, PROCESS, 1, 1, 8), (0, PROCESS, 2, 3, 1),
             (1, PROCESS, 5, 1, 8), (1, PROCESS, 6, 3, 1)),
        [("fcfs", 1, "r0", 4)], None, ("fcfs",),
    ),
    Mutant(
        "fcfs by a request that is never served", with_request(PAPER, 1, arrival_s=1.0),
        runs((1, PROCESS, 1, 1, 8), (1, PROCESS, 2, 3, 1)),
        [("fcfs", 1, "r1", 4), ("completion", None, "r0", 4)], None, ("fcfs",),
    ),
    Mutant(
        "nonpreemptive by an eviction", PAPER, EVICTING,
        [("nonpreemptive", 2, "r1", 3)], None, ("nonpreemptive",),
    ),
    Mutant(
        "nonpreemptive by a chunk", PAPER,
        runs((0, PROCESS, 1, 1, 3), (0, PROCESS, 2, 1, 5), (0, PROCESS, 3, 3, 1),
             (1, PROCESS, 6, 1, 8), (1, PROCESS, 7, 3, 1)),
        [("nonpreemptive", 1, "r0", 5)], None, ("nonpreemptive",),
    ),
    Mutant(
        "nonpreemptive by a hold", PAPER,
        runs((0, PROCESS, 1, 1, 8), (0, PROCESS, 2, 3, 1),
             (1, PROCESS, 5, 1, 8), (1, PROCESS, 6, 1, 1), (1, PROCESS, 8, 2, 1)),
        [("progress", 7, None, 1), ("nonpreemptive", 7, "r1", 1)], None, ("nonpreemptive",),
    ),
]  # fmt: skip


def test_the_schedules_that_the_mutants_start_from_are_valid() -> None:
    assert check(PAPER, EVICTING, EVICTING_TIMES) == ()
    assert check(TOOL, SWAPPING, SWAPPING_TIMES) == ()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.what)
def test_a_mutant_is_told_by_rule_batch_request_and_excess(mutant: Mutant) -> None:
    found = brief(mutant.instance, mutant.schedule, mutant.trace, mutant.policies)
    assert found == mutant.found


@pytest.mark.parametrize("rule", [*RULES, *POLICIES])
def test_every_rule_is_broken_alone_by_a_mutant(rule: str) -> None:
    assert any({found[0] for found in mutant.found} == {rule} for mutant in MUTANTS)
