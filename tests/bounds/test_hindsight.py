"""The state-path Lagrangian and the search in rounds against the exhaustive search."""

from __future__ import annotations

import random
from collections.abc import Callable

import msgspec
import numpy as np
import pytest

from optsched.bounds.hindsight import fluid_horizon, hindsight_bound
from optsched.bounds.hindsight_bundle import maximise
from optsched.bounds.hindsight_lagrangian import Lagrangian, Prices
from optsched.bounds.hindsight_search import search
from optsched.bounds.hindsight_states import smallest_threshold, state_graph
from optsched.check import require_valid
from optsched.compiled import compiled
from optsched.errors import UnsupportedError
from optsched.io.presets import preset
from optsched.model.hindsight import rounds_of
from optsched.objective import Objective
from optsched.simulate import objective_value, simulate
from tests.oracle import optimum
from tests.tiny import random_instance
from tests.unit_rounds import unit_instance

NONPREEMPTIVE = ("nonpreemptive",)
LATENCY = Objective.MEAN_LATENCY
BLOCKS_OF_SEEDS = [range(k, k + 30) for k in range(0, 120, 30)]


@pytest.mark.parametrize("seeds", BLOCKS_OF_SEEDS, ids=lambda seeds: f"from-{seeds.start}")
def test_bound_optimum_and_search_agree_with_the_exhaustive_search(seeds: range) -> None:
    for seed in seeds:
        instance = unit_instance(seed)
        expected, _ = optimum(instance, NONPREEMPTIVE, objective=LATENCY)
        total = round(expected * len(instance))
        bound = hindsight_bound(instance, states=(40,))
        assert bound.total <= total, seed
        assert bound.value_s <= expected + 1e-9, seed

        found = search(bound, known=total + 1)
        assert found.proven, seed
        assert found.total == total, seed
        assert found.schedule is not None
        require_valid(instance, found.schedule, policies=NONPREEMPTIVE)
        trace = simulate(instance, found.schedule)
        assert objective_value(instance, trace, LATENCY) == pytest.approx(expected), seed

        again = search(bound, known=total)
        assert again.proven, seed
        assert again.schedule is None, seed


def test_any_prices_bound() -> None:
    rng = np.random.default_rng(0)
    tight = 0
    for seed in range(40):
        instance = unit_instance(seed)
        expected, _ = optimum(instance, NONPREEMPTIVE, objective=LATENCY)
        rounds = rounds_of(instance)
        largest = int(instance.final_tokens.max())
        for threshold in sorted({0, 2, largest}):
            lagrangian = Lagrangian(
                rounds, threshold=threshold, horizon=fluid_horizon(rounds), pieces=3
            )
            prices = Prices(
                request=rng.uniform(0, 2 * expected, len(rounds.types)),
                memory=rng.uniform(0, 0.5, 3) * rng.integers(0, 2),
            )
            value = lagrangian.evaluate(prices).value
            assert value <= expected * len(instance) + 1e-9, (seed, threshold)
            tight += value > 0
    assert tight > 20


def test_slopes_bound_the_lagrangian_from_above() -> None:
    rng = np.random.default_rng(1)
    for seed in (3, 8, 14):
        rounds = rounds_of(unit_instance(seed))
        lagrangian = Lagrangian(rounds, threshold=2, horizon=fluid_horizon(rounds), pieces=3)

        def draw(lagrangian: Lagrangian = lagrangian) -> Prices:
            most = lagrangian.horizon - lagrangian.rounds.release
            return lagrangian.rounded(
                Prices(request=rng.uniform(0, most), memory=rng.uniform(0, 1, 3))
            )

        for _ in range(10):
            here, there = draw(), draw()
            at = lagrangian.evaluate(here)
            tangent = (
                at.value
                + at.request @ (there.request - here.request)
                + at.memory @ (there.memory - here.memory)
            )
            assert lagrangian.evaluate(there).value <= tangent + 1e-9, seed


def test_states_are_the_multisets_that_fit() -> None:
    kv_of = [0, 2, 2, 4, 4, 6]
    graph = state_graph(kv_of, 1, 8, [2, 3])
    count = len(graph)
    assert smallest_threshold(kv_of, 8, least=1, most_states=count) == 1
    assert smallest_threshold(kv_of, 8, least=1, most_states=count - 1) == 2
    assert smallest_threshold(kv_of, 8, least=0, most_states=1) == 5
    expected = {
        tuple(sorted(sizes, reverse=True))
        for twos in range(5) for threes in range(3) for fours in range(3) for fives in range(2)
        for sizes in [[2] * twos + [3] * threes + [4] * fours + [5] * fives]
        if 2 * twos + 4 * (threes + fours) + 6 * fives <= 8
    }  # fmt: skip
    assert set(graph.states) == expected
    k = graph.number[3, 2]
    assert graph.kv[k] == 6
    grown = dict(zip(graph.from_state.tolist(), graph.grown.tolist(), strict=True))
    assert graph.states[grown[k]] == (4, 3)


def test_the_bundle_climbs_to_the_maximum_of_a_polyhedron() -> None:
    rng = random.Random(2)
    slopes = np.array([[rng.uniform(-1, 1) for _ in range(4)] for _ in range(12)])
    slopes = np.vstack((slopes, -slopes.sum(axis=0)))  # 0 is in their hull: bounded
    peak = np.array([1.0, 2.0, 0.5, 3.0])

    def function(point: np.ndarray) -> tuple[float, np.ndarray]:
        values = slopes @ (point - peak)
        least = int(values.argmin())
        return float(values[least]), slopes[least]

    best = maximise(
        function, np.zeros(4), lower=np.zeros(4), upper=np.full(4, 5.0), step=1.0,
        most_evaluations=200, relative_gap=0.0,
    )  # fmt: skip
    assert -1e-3 < best.value <= 1e-12


def test_a_search_cut_short_proves_nothing_but_may_find() -> None:
    instance = unit_instance(2, requests=9, output=6)
    bound = hindsight_bound(instance, states=(40,))
    most = int(instance.output_tokens.sum()) * len(instance)
    few = search(bound, known=most, widths=(2,))
    assert few.schedule is not None
    require_valid(instance, few.schedule, policies=NONPREEMPTIVE)
    trace = simulate(instance, few.schedule)
    assert round(float(trace.finish_s.sum())) == few.total >= bound.total
    stopped = search(bound, known=most, most_nodes=3)
    assert not stopped.proven
    limits = msgspec.structs.replace(instance.limits, batch_requests=2)
    with pytest.raises(UnsupportedError, match="kv_tokens"):
        search(hindsight_bound(msgspec.structs.replace(instance, limits=limits)), known=most)


def test_what_is_left_out_still_bounds() -> None:
    open_ends = 0
    for seed in range(40):
        instance = unit_instance(seed, requests=4)
        expected, _ = optimum(instance, NONPREEMPTIVE, objective=LATENCY)
        total = round(expected * len(instance))
        bound = hindsight_bound(instance, states=(1,))
        for options in ({"widths": (1,)}, {"widths": (3,)}, {"memory_bytes": 1}):
            found = search(bound, known=2 * total, **options)
            assert bound.total <= found.bound <= total <= found.total, (seed, options)
            open_ends += not found.proven
    assert open_ends > 20


def test_full_memory_ends_in_a_bound() -> None:
    instance = unit_instance(2, requests=10)
    bound = hindsight_bound(instance, states=(1,))
    most = 2 * int(instance.output_tokens.sum()) * len(instance)
    proven = search(bound, known=most)
    assert proven.proven
    assert proven.schedule is not None
    gaps = []
    for memory_bytes in (1, 10_000, 100_000):
        found = search(bound, known=most, widths=(None,), memory_bytes=memory_bytes)
        assert bound.total <= found.bound <= proven.total <= found.total
        gaps.append(found.total - found.bound)
    assert gaps[0] > 0


def test_more_requests_than_bits_are_refused() -> None:
    bound = hindsight_bound(unit_instance(2, requests=63, output=1), states=(1,))
    with pytest.raises(UnsupportedError, match="62"):
        search(bound, known=10**6)


def test_loops_compile_where_nothing_can_be_cached() -> None:
    # Code without a file has no place for a cache, like a file in folders that are read-only.
    scope: dict[str, Callable[[int], int]] = {}
    exec("def twice(n):\n    return 2 * n\n", scope)
    assert compiled(scope["twice"])(21) == 42


def test_other_laws_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="what it processes"):
        hindsight_bound(random_instance(1, cost=preset("study").cost))
