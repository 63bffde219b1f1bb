"""B2: dual feasible functions and the configuration program, against brute force."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optsched.bounds.configuration import (
    Items,
    configuration,
    items,
    richest_batch,
    verified_batches,
    worth_solving,
)
from optsched.bounds.events import token_runs
from optsched.bounds.packing import packing, rounded
from tests.bounds.workloads import shaped, uniform


@pytest.mark.parametrize("k", range(1, 9))
@pytest.mark.parametrize("cap", [7, 12])
def test_a_rounding_gives_what_fits_at_most_one_batch(k: int, cap: int) -> None:
    for number in range(1, 5):
        for sizes in itertools.combinations_with_replacement(range(1, cap + 1), number):
            if sum(sizes) <= cap:
                each = np.ones(number, dtype=np.int64)
                assert rounded(np.array(sizes, dtype=np.int64), each, cap, k) <= 1


@pytest.mark.parametrize("k", range(1, 7))
def test_a_rounding_is_at_least_floor_by_every_unit_with_the_same_capacity(k: int) -> None:
    cap = 60
    for t in range(1, cap + 1):
        if cap // t == k:
            for size in range(1, cap + 1):
                many = np.array([10_000])
                value = Fraction(rounded(np.array([size]), many, cap, k), 10_000)
                assert value >= Fraction(size // t, cap // t)


def least_bins(sizes: list[int], cap: int) -> int:
    """Bin packing by trying every assignment, larger items first."""
    for bins in range(1, len(sizes) + 1):
        loads = {tuple([0] * bins)}
        for size in sorted(sizes, reverse=True):
            loads = {
                tuple(sorted((*load[:b], load[b] + size, *load[b + 1 :])))
                for load in loads
                for b in range(bins)
                if load[b] + size <= cap
            }
        if loads:
            return bins
    raise AssertionError("an item is larger than a bin")


@given(st.lists(st.integers(1, 12), min_size=1, max_size=8), st.integers(12, 20))
@settings(max_examples=150, deadline=None)
def test_no_function_exceeds_the_best_packing(sizes: list[int], cap: int) -> None:
    instance = shaped([(size, 1) for size in sizes], kv_tokens=cap)
    runs = token_runs(instance)
    least = least_bins(sizes, cap)
    found = packing(runs, instance.limits) | {
        "configuration": configuration(items(runs, instance.limits))
    }
    assert max(found.values()) <= least


@pytest.mark.parametrize(
    ("sizes", "cap", "name", "bins"),
    [
        ([6, 6, 6, 6, 5], 10, "thresholds", 5),
        ([4, 4, 4, 4], 11, "rounding", 2),
        ([4, 4, 4, 4, 4], 11, "rounding", 3),  # two fit, the area says 2
        ([7, 7, 4, 4, 4, 3], 10, "thresholds", 4),
    ],
)
def test_each_family_where_it_is_exact(sizes: list[int], cap: int, name: str, bins: int) -> None:
    instance = shaped([(size, 1) for size in sizes], kv_tokens=cap)
    assert packing(token_runs(instance), instance.limits)[name] == bins
    assert least_bins(sizes, cap) == bins


def test_where_memory_holds_one_request_or_two_packing_closes_what_the_area_misses() -> None:
    instance = uniform(16, 64, 16, 128)
    found = packing(token_runs(instance), instance.limits)
    # 15 sizes above half of M for each of 16 requests, and 16 of exactly half in 8 pairs.
    assert found["thresholds"] == 248
    assert -(-sum(16 * s for s in range(64, 80)) // 128) == 143


def richest_by_force(problem: Items, weights: np.ndarray) -> int:
    ranges = [range(int(u) + 1) for u in problem.copies]
    return max(
        int(weights @ x)
        for x in itertools.product(*ranges)
        if problem.sizes @ x <= problem.cap and sum(x) <= problem.most
    )


@pytest.mark.parametrize("seed", range(30))
def test_the_knapsack_equals_brute_force_and_returns_its_batch(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = np.sort(rng.choice(np.arange(1, 12), size=4, replace=False)).astype(np.int64)
    cap, most = int(rng.integers(11, 25)), int(rng.integers(1, 6))
    counts = rng.integers(1, 5, size=4)
    copies = np.minimum(np.minimum(counts, most), cap // sizes)
    problem = Items(sizes=sizes, counts=counts, copies=copies, cap=cap, most=most)
    weights = rng.integers(0, 20, size=4)
    earned, pattern = richest_batch(problem, weights)
    assert earned == richest_by_force(problem, weights) == int(weights @ pattern)
    assert np.all(pattern <= copies)
    assert problem.sizes @ pattern <= cap
    assert pattern.sum() <= most


@pytest.mark.parametrize("seed", range(20))
def test_any_prices_give_a_valid_bound(seed: int) -> None:
    # What makes the solver's answer irrelevant for validity.
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 12, size=7).tolist()
    instance = shaped([(int(size), 1) for size in sizes], kv_tokens=13)
    problem = items(token_runs(instance), instance.limits)
    weights = rng.integers(0, 1000, size=problem.sizes.size)
    earned, _ = richest_batch(problem, weights)
    assert verified_batches(problem, weights, earned) <= least_bins(sizes, 13)


def test_prices_of_zero_prove_nothing() -> None:
    instance = shaped([(2, 1)] * 3, kv_tokens=4)
    problem = items(token_runs(instance), instance.limits)
    assert verified_batches(problem, np.array([0]), 0) == 0


def test_the_configuration_program_beats_all_fixed_functions() -> None:
    instance = uniform(1024, 32, 32, 100)
    runs = token_runs(instance)
    problem = items(runs, instance.limits)
    assert worth_solving(problem)
    assert max(packing(runs, instance.limits).values()) < 15_770
    assert configuration(problem) == 15_770


def test_a_batch_holds_one_event_of_a_request() -> None:
    # Ten tokens of one request of at most 10 KV tokens would fit in one batch of 55 by size.
    instance = shaped([(1, 10)], kv_tokens=55)
    problem = items(token_runs(instance), instance.limits)
    assert problem.most == 1
    assert configuration(problem) == 10


def test_the_program_is_left_alone_where_batches_hold_many_events() -> None:
    many = uniform(100, 1, 100, 100_000)
    assert not worth_solving(items(token_runs(many), many.limits))
