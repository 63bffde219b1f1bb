"""The parts of the exact check against their definitions, by trying everything."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from math import ceil

import pytest

from optsched.bounds.verify.counts import batches as least_batches
from optsched.bounds.verify.events import (
    EventCounts,
    inner,
    pages_of,
    stretches,
    total_pages,
)
from optsched.bounds.verify.knapsack import richest_batch
from optsched.bounds.verify.law import Law
from optsched.bounds.verify.refuted import RefutedError
from optsched.bounds.verify.steps import Steps
from optsched.bounds.verify.workload import Workload
from optsched.certificate import MemoryCount
from optsched.instance import Call, Request
from tests.bounds.workloads import shaped
from tests.oracle_by_the_rules import known


@pytest.mark.parametrize("block", [1, 2, 3, 7])
def test_pages_of_a_range_are_the_sum_of_its_sizes(block: int) -> None:
    for low in range(1, 20):
        for high in range(low, 25):
            expected = [pages_of(size, block) for size in range(low, high + 1)]
            assert total_pages(low, high, block) == sum(expected)


@pytest.mark.parametrize("seed", range(20))
def test_events_up_to_a_size_and_of_some_pages_are_counted_in_closed_form(seed: int) -> None:
    rng = random.Random(seed)
    ranges = [(low, low + rng.randint(0, 9)) for low in rng.choices(range(1, 20), k=5)]
    sizes = [size for low, high in ranges for size in range(low, high + 1)]
    counts = EventCounts(ranges)
    for size in range(32):
        assert counts.upto(size) == sum(own <= size for own in sizes)
    block = rng.choice([1, 2, 3, 7])
    pages = Counter(pages_of(size, block) for size in sizes)
    for low, high in itertools.product(range(1, 32), repeat=2):
        expected = sum(pages[own] for own in range(low, high + 1))
        assert counts.between(low, high, block) == expected


def every_event(request: Request, fill_tokens: int) -> list[tuple[int, int]]:
    """(size, earliest batch) of each event: its new tokens in full prefill chunks."""
    found, batch, before = [], 0, 0
    for made in range(request.output_tokens):
        size = known(request, made)
        batch += pages_of(size - before, fill_tokens)
        found.append((size, batch))
        before = size
    return found


@pytest.mark.parametrize("seed", range(40))
def test_stretches_hold_every_event_with_its_place(seed: int) -> None:
    rng = random.Random(seed)
    output = rng.randint(1, 7)
    after = sorted(rng.sample(range(1, output), rng.randint(0, min(2, output - 1))))
    calls = tuple(
        Call(after_tokens=k, duration_s=0.0, response_tokens=rng.randint(0, 4)) for k in after
    )
    request = Request(
        id="r", prompt_tokens=rng.randint(1, 9), output_tokens=output, calls=calls
    )  # fmt: skip
    fill = rng.randint(1, 4)
    events = every_event(request, fill)
    own = stretches(request, fill)
    sizes = [size for s in own for size in range(s.low, s.high + 1)]
    assert sizes == [size for size, _ in events]
    at = [s.earliest + k for s in own for k in range(s.events)]
    assert at == [batch for _, batch in events]
    last = at[-1]
    assert [s.after - k for s in own for k in range(s.events)] == [last - batch for batch in at]
    for head, tail in itertools.product(range(4), range(4)):
        kept = [size for low, high in inner(own, head, tail) for size in range(low, high + 1)]
        assert kept == [s for s, batch in events if batch > head and last - batch >= tail]


def cheapest_fill(steps: Steps, size: int, before: int) -> int:
    """Least time of chunks from ``before`` to ``size``, by trying all."""
    p_sq, p_mc = steps.surplus + steps.half, 2 * steps.half
    best = {before: 0}
    for upto in range(before + 1, size + 1):
        best[upto] = min(
            best[m]
            + steps.token * (upto - m)
            + p_sq * (upto - m) ** 2
            + p_mc * m * (upto - m)
            + steps.p_kv * m
            + steps.p_req
            + (steps.excess * max(0, upto - m - steps.knee) if not before else 0)
            for m in range(max(before, upto - steps.fill_tokens), upto)
        )
    return best[size]


def random_steps(rng: random.Random, surplus: int, excess: int) -> Steps:
    return Steps(
        token=rng.randint(0, 5), d_kv=1, d_req=1, half=rng.randint(0, 9) + max(0, -surplus),
        surplus=surplus, p_kv=rng.choice([0, 1, 30]), p_req=rng.choice([0, 2, 50]),
        fill_tokens=rng.randint(1, 12), knee=rng.randint(1, 6), excess=excess,
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(60))
def test_a_fill_costs_no_more_than_its_cheapest_chunks(seed: int) -> None:
    rng = random.Random(seed)
    steps = random_steps(rng, rng.choice([-7, 0, 8]), rng.choice([0, 3, 40]))
    for size in range(1, 16):
        for before in range(size):
            assert steps.fill(size, before) <= cheapest_fill(steps, size, before)


@pytest.mark.parametrize("seed", range(20))
def test_a_telescoping_fill_costs_exactly_its_cheapest_chunks(seed: int) -> None:
    steps = random_steps(random.Random(seed), 0, 0)
    for size in range(1, 16):
        for before in range(size):
            assert steps.fill(size, before) == cheapest_fill(steps, size, before)


@pytest.mark.parametrize("knee", [1, 2, 4])
def test_rereads_are_exact_where_a_batch_is_large_enough(knee: int) -> None:
    for p_kv, p_req, excess in itertools.product((0, 1, 5), (0, 2, 9), (1, 7, 20)):
        steps = Steps(
            token=0, d_kv=0, d_req=0, half=0, surplus=0, p_kv=p_kv, p_req=p_req,
            fill_tokens=100, knee=knee, excess=excess,
        )  # fmt: skip
        for size in range(1, 25):
            # All chunkings that the formula means have ``knee`` tokens in all but two chunks.
            assert steps.fill(size) == cheapest_fill(steps, size, 0)


@pytest.mark.parametrize("seed", range(60))
def test_from_its_size_on_a_fill_takes_longer_than_a_decode(seed: int) -> None:
    rng = random.Random(seed)
    steps = random_steps(rng, rng.choice([-7, 0, 8]), rng.choice([0, 3, 40]))
    steps = replace(steps, d_kv=rng.choice([0, 1, 6, 60]), d_req=rng.choice([0, 100]))
    decode = steps.decodes(rng.choice([0, 9]), rng.choice([0, 5]), rng.choice([1, 3]))
    more = rng.choice([0, 70])
    from_size = steps.floor.reaches(decode, more)
    if from_size is None:
        assert steps.floor.square == 0
        assert steps.token * decode.block_tokens <= (
            decode.per_token * decode.block_tokens + decode.per_page
        )
        return
    for size in range(from_size, from_size + 60):
        assert steps.fill(size) >= decode(size) + more
    assert decode.total(40) == sum(decode(size) for size in range(1, 41))


LAWS = [((5, 1),), ((10, 0), (4, 2)), ((-2, 4), (-9, 6)), ((7, 0), (3, 1), (-11, 3)), ((0, 3),)]


@pytest.mark.parametrize("pieces", LAWS)
def test_least_time_of_tokens_by_trying_all_splits(pieces: tuple[tuple[int, int], ...]) -> None:
    law = Law(pieces, 9)
    least = {(0, 0): 0}
    for batches in range(1, 13):
        for tokens in range(batches, 13):
            least[batches, tokens] = min(
                least[batches - 1, tokens - n] + law(n)
                for n in range(1, min(9, tokens) + 1)
                if (batches - 1, tokens - n) in least
            ) if (batches > 1 or tokens <= 9) else 10**9  # fmt: skip
    for tokens in range(1, 13):
        for at_least in range(1, tokens + 1):
            best = min(least[n, tokens] for n in range(at_least, tokens + 1))
            assert law.least(tokens, at_least) == best


@pytest.mark.parametrize("seed", range(60))
def test_the_richest_batch_by_trying_all(seed: int) -> None:
    rng = random.Random(seed)
    sizes = rng.sample(range(1, 8), rng.randint(1, 3))
    priced = [(pages, rng.randint(1, 9), rng.randint(1, 3)) for pages in sizes]
    cap, most = rng.randint(max(sizes), 16), rng.randint(1, 5)
    best = 0
    for taken in itertools.product(*(range(events + 1) for _, _, events in priced)):
        pages = sum(t * p for t, (p, _, _) in zip(taken, priced, strict=True))
        if pages <= cap and sum(taken) <= most:
            best = max(best, sum(t * w for t, (_, w, _) in zip(taken, priced, strict=True)))
    assert richest_batch(priced, cap, most) == best


@pytest.mark.parametrize("seed", range(40))
def test_the_law_is_the_largest_piece_and_linear_between_its_corners(seed: int) -> None:
    rng = random.Random(seed)
    pieces = tuple(
        (rng.randint(-30, 9), rng.randint(0, 9)) for _ in range(rng.randint(1, 8))
    )  # fmt: skip
    law = Law(pieces, 25, extra=rng.choice([0, 4]))
    for n in range(1, 40):
        assert law(n) == max(alpha + beta * n for alpha, beta in pieces) + law.extra
    for low, high in itertools.pairwise(law.corners[1:]):
        steps = {law(n + 1) - law(n) for n in range(low, high)}
        assert len(steps) == 1, pieces


@pytest.mark.parametrize("seed", range(40))
def test_counts_by_thresholds_and_roundings_are_sums_over_events(seed: int) -> None:
    rng = random.Random(seed)
    block = rng.choice([1, 1, 2, 3])
    instance = shaped(
        [(rng.randint(1, 9), rng.randint(1, 6)) for _ in range(4)], kv_tokens=rng.randint(15, 30),
        block_tokens=block,
    )  # fmt: skip
    workload = Workload(instance.requests, instance.limits, instance.cost)
    cap = workload.cap
    sizes = [size for s in workload.stretches for size in range(s.low, s.high + 1)]
    for z, k in itertools.product(range(cap // 2 + 1), range(6)):
        use = Fraction(0)
        for pages in (pages_of(size, block) for size in sizes):
            x = Fraction(cap if pages > cap - z else pages if pages >= z else 0, cap)
            whole = x * (k + 1)
            use += x if not k or whole.denominator == 1 else Fraction(int(whole), k)
        count = MemoryCount(threshold_pages=z, rounding=k)
        assert least_batches(workload, count) == ceil(use)


def test_a_knapsack_beyond_reach_is_refused() -> None:
    with pytest.raises(RefutedError, match="too large"):
        richest_batch([(1, 1, 10**6)], 10**12, 10**6)
