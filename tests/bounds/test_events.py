"""Token events, their sizes and positions, held against one-by-one enumeration."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optsched.bounds.events import TokenRuns, token_runs
from optsched.bounds.sizes import pages_by_position, run_pages, size_counts
from optsched.instance import Call, Instance, Limits, Request
from tests.bounds.draw import random_augmented
from tests.oracle_by_the_rules import known
from tests.tiny import LINEAR, random_instance

INSTANCES = [random_augmented(seed) for seed in range(60)] + [
    random_instance(seed, tight=True, pages=True) for seed in range(60)
]


def listed(runs: TokenRuns) -> list[tuple[int, int, int, int]]:
    """All events as (request, size, earliest, remaining)."""
    columns = (runs.request, runs.size, runs.count, runs.earliest, runs.remaining)
    return [
        (int(i), int(size + k), int(first + k), int(rest - k))
        for i, size, count, first, rest in zip(*columns, strict=True)
        for k in range(count)
    ]


@pytest.mark.parametrize("instance", INSTANCES, ids=lambda i: i.name)
def test_one_event_per_token_with_its_size_and_place_in_the_chain(instance: Instance) -> None:
    expected, F = [], instance.limits.fill_tokens
    for i, request in enumerate(instance.requests):
        sizes = [known(request, g) for g in range(request.output_tokens)]
        steps = [-(-(b - a) // F) for a, b in zip([0, *sizes], sizes, strict=False)]
        for g, size in enumerate(sizes):
            expected.append((i, size, sum(steps[: g + 1]), sum(steps[g + 1 :])))
    assert listed(token_runs(instance)) == expected


def test_a_call_with_a_response_starts_a_run_that_knows_what_was_cached() -> None:
    calls = (
        Call(after_tokens=1, duration_s=1.0, response_tokens=0),
        Call(after_tokens=2, duration_s=1.0, response_tokens=5),
    )
    request = Request(id="a", prompt_tokens=10, output_tokens=4, calls=calls)
    limits = Limits(kv_tokens=100, batch_tokens=4)
    runs = token_runs(Instance(name="a", limits=limits, cost=LINEAR, requests=(request,)))
    assert runs.size.tolist() == [10, 17]
    assert runs.cached.tolist() == [0, 11]
    assert runs.count.tolist() == [2, 2]
    assert runs.earliest.tolist() == [3, 6]  # 10 tokens in 3 batches of 4, then 1, then 6 in 2
    assert runs.remaining.tolist() == [4, 1]
    assert runs.first.tolist() == [True, False]


@pytest.mark.parametrize("instance", INSTANCES[::6], ids=lambda i: i.name)
@pytest.mark.parametrize(("head", "tail"), [(0, 0), (1, 0), (0, 1), (2, 2), (50, 0)])
def test_trimming_keeps_the_events_away_from_both_ends(
    instance: Instance, head: int, tail: int
) -> None:
    runs = token_runs(instance)
    inner = [event for event in listed(runs) if event[2] > head and event[3] >= tail]
    assert listed(runs.trimmed(head, tail)) == inner


@pytest.mark.parametrize("instance", INSTANCES[::6], ids=lambda i: i.name)
@pytest.mark.parametrize("block", [1, 2, 3, 16])
def test_pages_by_run_size_and_position(instance: Instance, block: int) -> None:
    runs = token_runs(instance)
    events = listed(runs)
    pages = {event: -(-event[1] // block) for event in events}
    assert run_pages(runs, block).sum() == sum(pages.values())
    by_size = Counter(pages.values())
    assert size_counts(runs, block).tolist() == [
        by_size[p] for p in range(max(pages.values()) + 1)
    ]  # fmt: skip
    by_position = np.zeros(max(event[2] for event in events) + 1, dtype=int)
    for event in events:
        by_position[event[2]] += pages[event]
    assert pages_by_position(runs, runs.earliest, block).tolist() == by_position.tolist()


@given(
    rows=st.lists(
        st.tuples(st.integers(1, 40), st.integers(1, 30), st.integers(0, 20)),
        min_size=1, max_size=5,
    ),
    block=st.integers(1, 17),
)  # fmt: skip
def test_closed_forms_equal_sums(rows: list[tuple[int, int, int]], block: int) -> None:
    size, count, position = np.array(rows, dtype=np.int64).T
    zero = np.zeros_like(size)
    runs = TokenRuns(
        request=np.arange(size.size), size=size, count=count, cached=zero, earliest=zero + 1,
        remaining=count - 1,
    )  # fmt: skip
    expected: Counter[int] = Counter()
    for s, c, p in rows:
        for k in range(c):
            expected[p + k] += -(-(s + k) // block)
    found = pages_by_position(runs, position, block)
    assert found.tolist() == [expected[p] for p in range(found.size)]
    assert run_pages(runs, block).sum() == sum(expected.values())
