"""Cheapest paths against enumeration of all of them, and coarse steps against single batches."""

from __future__ import annotations

import itertools
import random
from fractions import Fraction

import numpy as np
import pytest

from optsched.bounds.path_dp import PathPrices
from optsched.bounds.path_total import Refills, demand, total_price
from optsched.instance import Limits
from tests.interrupts import interrupted_everywhere

WIDE = Limits(kv_tokens=1000, batch_tokens=1000)


def drawn(rng: random.Random, buckets: int) -> PathPrices:
    def column(most: int) -> np.ndarray:
        return np.array([rng.randint(0, most) for _ in range(buckets)], dtype=np.int64)

    tokens, prefill = column(rng.choice([0, 9])), column(rng.choice([0, 9]))
    return PathPrices(
        memory=column(20), event=tokens + column(rng.choice([0, 30])), fill=tokens + prefill,
        prefill=prefill,
    )  # fmt: skip


def refills_for(rng: random.Random, largest: int) -> Refills:
    price = np.cumsum([rng.randint(0, rng.choice([3, 30])) for _ in range(largest + 1)])
    return Refills(price=price.astype(np.int64), pays_tokens=rng.random() < 0.8)


def enumerated(
    prompt: int, output: int, prices: PathPrices, refills: Refills, limits: Limits
) -> int:
    """Least price over all batches of all tokens, and over holding or evicting between them."""
    n, lead = prices.memory.size, -(-prompt // limits.fill_tokens) - 1
    least = []
    for batches in itertools.combinations(range(lead, n), output):
        first = batches[0]
        total = int(
            (prompt - 1) * prices.fill[: first + 1].min() + prices.prefill[: first + 1].min()
        )
        for k, batch in enumerate(batches):
            size = prompt + k
            total += int(prices.memory[batch]) * limits.pages(size) + int(prices.event[batch])
            if k:
                between = int(prices.memory[batches[k - 1] + 1 : batch].sum())
                held = between * limits.pages(size - 1)
                again = int(refills.price[size])
                if refills.pays_tokens:
                    again += (size - 1) * int(prices.fill[: batch + 1].min())
                total += min(held, again)
        least.append(total)
    return min(least)


@pytest.mark.parametrize("seed", range(60))
def test_single_batches_are_exact(seed: int) -> None:
    rng = random.Random(seed)
    prompt, output = rng.randint(1, 5), rng.randint(1, 4)
    limits = Limits(kv_tokens=1000, batch_tokens=1000, prefill_tokens=rng.choice([None, 2]))
    prices = drawn(rng, -(-prompt // limits.fill_tokens) + output + rng.randint(0, 4))
    refills = refills_for(rng, prompt + output)
    shape = demand(np.array([prompt] * 3), np.array([output] * 3))
    found = total_price(shape, (prompt,), prices, refills, limits, 1)
    assert found == 3 * enumerated(prompt, output, prices, refills, limits)


@pytest.mark.parametrize("seed", range(60))
def test_longer_steps_pages_and_cells_never_exceed_the_exact_price(seed: int) -> None:
    rng = random.Random(1000 + seed)
    block = rng.choice([1, 1, 2, 3])
    limits = Limits(kv_tokens=1200, batch_tokens=1000, block_tokens=block)
    stride = block * rng.choice([1, 2, 3])
    shapes = [(rng.randint(1, 6), rng.randint(1, 5)) for _ in range(3)]
    buckets = max(-(-output // stride) for _, output in shapes) + rng.randint(0, 2)
    coarse = drawn(rng, buckets)
    single = PathPrices(
        **{
            name: np.repeat(getattr(coarse, name), stride)
            for name in ("memory", "event", "fill", "prefill")
        }
    )
    refills = refills_for(rng, max(i + o for i, o in shapes))
    prompt, output = np.array(shapes).T
    exact = sum(enumerated(i, o, single, refills, limits) for i, o in shapes)
    own = total_price(
        demand(prompt, output), tuple(np.unique(prompt).tolist()), coarse, refills, limits, stride
    )  # fmt: skip
    joint = total_price(
        demand(prompt, output), (int(prompt.max()),), coarse, refills, limits, stride
    )  # fmt: skip
    assert 0 <= joint <= own <= exact


def test_steps_lose_little_where_prices_change_slowly() -> None:
    ramp = np.arange(1, 65, dtype=np.int64) * 1000
    nothing = np.zeros_like(ramp)
    shape, refills = demand(np.array([5]), np.array([24])), Refills(
        price=np.full(30, 10**9), pays_tokens=True
    )  # fmt: skip

    def price(stride: int) -> Fraction:
        prices = PathPrices(
            memory=np.repeat(ramp[::8], 8 // stride), event=nothing[: 64 // stride],
            fill=nothing[: 64 // stride], prefill=nothing[: 64 // stride],
        )  # fmt: skip
        return total_price(shape, (5,), prices, refills, WIDE, stride)

    assert price(1) == price(8)  # the path starts in the first batch of the first bucket
    assert price(1) == price(2) == price(4)


def test_requests_between_two_prompt_sizes_are_priced_by_their_corners() -> None:
    prices = PathPrices(
        memory=np.array([3, 1, 4, 1, 5]), event=np.zeros(5, dtype=np.int64),
        fill=np.array([2, 2, 1, 1, 1]), prefill=np.zeros(5, dtype=np.int64),
    )  # fmt: skip
    refills = Refills(price=np.full(40, 10**6), pays_tokens=True)
    middle = demand(np.array([10, 20, 30]), np.array([2, 2, 2]))
    joint = total_price(middle, (30,), prices, refills, WIDE, 1)
    own = total_price(middle, (10, 20, 30), prices, refills, WIDE, 1)
    assert own * Fraction(9, 10) < joint <= own


def test_a_refill_within_a_step_is_priced_at_its_smallest_size() -> None:
    # Two cheap batches, two dear ones, two cheap ones: of three tokens the first comes early, and
    # its KV is dropped until the second, of 2 tokens, which refills it at 10.
    coarse = PathPrices(
        memory=np.array([0, 900, 0]), event=np.array([0, 900, 0]), fill=np.zeros(3, dtype=np.int64),
        prefill=np.zeros(3, dtype=np.int64),
    )  # fmt: skip
    refills = Refills(price=np.array([0, 0, 10, 1000]), pays_tokens=True)
    single = PathPrices(
        memory=np.repeat(coarse.memory, 2), event=np.repeat(coarse.event, 2),
        fill=np.repeat(coarse.fill, 2), prefill=np.repeat(coarse.prefill, 2),
    )  # fmt: skip
    shape = demand(np.array([1]), np.array([3]))
    assert total_price(shape, (1,), single, refills, WIDE, 1) == 10
    assert total_price(shape, (1,), coarse, refills, WIDE, 2) == 5  # half of the residues see it


def test_equal_requests_are_counted_and_an_interrupt_stays_one() -> None:
    prompt, output = np.array([5, 2, 5, 5, 2]), np.array([1, 3, 1, 2, 3])
    found = demand(prompt, output)
    assert (found.prompt.tolist(), found.output.tolist()) == ([2, 5, 5], [3, 1, 2])
    assert found.count.tolist() == [2, 2, 1]
    assert interrupted_everywhere(lambda: demand(prompt, output)) >= 1
