"""Label setting against the exhaustive search, on random tiny instances."""

from __future__ import annotations

import sys

import pytest

from optsched.check import check
from optsched.errors import InfeasibleError, UnsupportedError
from optsched.instance import Instance
from optsched.labels import search
from optsched.objective import Objective
from optsched.simulate import objective_value, simulate
from tests.oracle import optimum
from tests.tiny import random_instance

OBJECTIVES = (
    Objective.MAKESPAN, Objective.MEAN_LATENCY, Objective.MEAN_TTFT, Objective.MAX_LATENCY,
)  # fmt: skip
POLICIES = (
    (), (), ("no-evict",), ("no-swap",), ("no-hybrid",), ("fcfs",), ("preserve",), ("discard",),
    ("swap",), ("discard:r0",), ("preserve", "swap:r0"),
)  # fmt: skip


def drawn(seed: int) -> Instance:
    return random_instance(
        40_000 + seed, calls=seed % 5 > 0, host_room=seed % 2 == 0, arrivals=seed % 3 == 0,
        pages=seed % 4 == 0, tight=seed % 7 == 0,
    )  # fmt: skip


def roomy(seed: int) -> Instance:
    """An instance that needs no chunks."""
    return random_instance(
        40_000 + seed, calls=True, host_room=seed % 2 == 0, arrivals=seed % 3 == 0,
        pages=seed % 4 == 0,
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(150))
def test_equal_to_the_exhaustive_search(seed: int) -> None:
    instance, objective = drawn(seed), OBJECTIVES[seed % 4]
    policies = POLICIES[seed % len(POLICIES)]
    if any(":" in p for p in policies) and instance.requests[0].id != "r0":
        policies = ()
    try:
        best, _ = optimum(instance, ("no-chunk", *policies), objective=objective)
    except InfeasibleError:
        try:
            found = search(instance, objective, policies=policies)
        except InfeasibleError:
            return
        assert found.proven
        assert found.schedule is None
        return
    found = search(instance, objective, policies=policies)
    assert found.proven
    assert found.value == pytest.approx(best, rel=1e-9)
    assert found.schedule is not None
    assert check(instance, found.schedule, policies=("no-chunk", *policies)) == ()
    trace = simulate(instance, found.schedule)
    assert objective_value(instance, trace, objective) == pytest.approx(best, rel=1e-9)


def test_a_search_that_stops_early_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[search.__module__], "_LOOK", 1)
    stopped = 0
    for seed in range(40):
        instance, objective = roomy(500 + seed), OBJECTIVES[seed % 4]
        best, _ = optimum(instance, ("no-chunk",), objective=objective)
        found = search(instance, objective, most_labels=2 + seed % 8)
        assert found.bound <= best * (1 + 1e-9)
        if not found.proven:
            assert found.value is None
            stopped += 1
    assert stopped >= 15


@pytest.mark.parametrize("seed", range(12))
def test_a_cutoff_at_the_optimum_is_proven(seed: int) -> None:
    instance, objective = roomy(700 + seed), OBJECTIVES[seed % 4]
    best, _ = optimum(instance, ("no-chunk",), objective=objective)
    found = search(instance, objective, cutoff=best)
    assert found.proven
    assert found.value is None or found.value == pytest.approx(best, rel=1e-9)
    assert found.bound == pytest.approx(best, rel=1e-9)


def test_what_is_not_covered_is_refused() -> None:
    instance = drawn(1)
    with pytest.raises(UnsupportedError, match="no-hold"):
        search(instance, Objective.MAKESPAN, policies=("no-hold",))
    with pytest.raises(UnsupportedError, match="goodput"):
        search(instance, Objective.GOODPUT)


def test_an_interrupt_leaves_a_bound() -> None:
    instance = random_instance(40_900, calls=True, host_room=True, most_requests=3)
    best, _ = optimum(instance, ("no-chunk",), objective=Objective.MEAN_LATENCY)

    def interrupt(_: str) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules[search.__module__], "_LOOK", 1)
        found = search(instance, Objective.MEAN_LATENCY, report=interrupt)
    assert found.interrupted
    assert not found.proven
    assert found.bound <= best * (1 + 1e-9)
