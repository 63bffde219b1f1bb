"""No bound on an objective of the clock is better than the optimum, and certificates prove it."""

from __future__ import annotations

import random
from collections import Counter
from fractions import Fraction
from pathlib import Path

import pytest

from optsched.bounds.clock import certify_clock, clock_bound
from optsched.bounds.verify.describe import describe
from optsched.bounds.verify.refuted import RefutedError
from optsched.bounds.verify.verdict import proven_value, verify
from optsched.errors import InvalidInputError
from optsched.instance import Instance
from optsched.io import read_certificate, write_certificate
from optsched.objective import Objective
from tests.bounds.clock.draw import CLOCK, best, random_argument, random_clock, random_equal
from tests.bounds.draw import random_calling

BLOCK = 25  # instances per test
ROUNDING = Fraction(1, 10**9)  # of the optimum, which is a sum of doubles


def allows(objective: Objective, bound: Fraction | float, optimum: float) -> bool:
    """Whether a bound is on the right side of the optimum, up to rounding."""
    if objective.maximised:
        return Fraction(bound) >= Fraction(optimum) * (1 - ROUNDING)
    return Fraction(bound) <= Fraction(optimum) * (1 + ROUNDING)


def require_proven(instance: Instance, objective: Objective, effort: str) -> float:
    """Check every part and the certificate; returns how close the best is, 1 if it is optimal."""
    optimum = best(instance, objective)
    bound = clock_bound(instance, objective, effort=effort)
    for name, value in bound.parts.items():
        assert allows(objective, value, optimum), (name, instance)
    certificate = certify_clock(instance, bound)
    verdict = verify(certificate)
    assert verdict.accepted, (verdict.reason, instance)
    assert verdict.proven_s is not None
    assert allows(objective, verdict.proven_s, optimum), (bound.proof, instance)
    assert certificate.bound_s == pytest.approx(bound.value, rel=1e-9, abs=1e-12)
    return bound.value / optimum if optimum else 1.0


@pytest.mark.parametrize("first", range(0, 5 * BLOCK, BLOCK))
@pytest.mark.parametrize("objective", CLOCK)
def test_bounds_of_tiny_instances(objective: Objective, first: int) -> None:
    closeness = [
        require_proven(random_clock(seed), objective, "quick")
        for seed in range(first, first + BLOCK)
    ]
    exact = sum(abs(value - 1) < 1e-9 for value in closeness)
    assert exact >= BLOCK / 6, "bounds that never meet the optimum would pass everything else"


@pytest.mark.parametrize(
    "objective", [Objective.MEAN_LATENCY, Objective.MEAN_TTFT, Objective.GOODPUT]
)
def test_more_effort_is_no_worse(objective: Objective) -> None:
    for seed in range(1000, 1010):
        instance = random_clock(seed)
        require_proven(instance, objective, "normal")
        quick = clock_bound(instance, objective, effort="quick").value
        better = clock_bound(instance, objective, effort="normal").value
        slack = 1e-6 * quick
        assert better <= quick + slack if objective.maximised else better >= quick - slack


def test_bounds_of_equal_requests() -> None:
    closeness = [
        require_proven(random_equal(seed), Objective.MEAN_LATENCY, "quick") for seed in range(30)
    ]
    assert sum(value > 1 - 1e-9 for value in closeness) >= 8


@pytest.mark.parametrize("first", range(0, 4 * BLOCK, BLOCK))
@pytest.mark.parametrize(
    "objective", [Objective.MEAN_LATENCY, Objective.MEAN_TTFT, Objective.GOODPUT]
)
def test_no_choices_prove_more_than_the_optimum(objective: Objective, first: int) -> None:
    kinds: Counter[str] = Counter()
    for seed in range(first, first + BLOCK):
        instance = random_equal(seed) if seed % 3 == 0 else random_clock(seed)
        rng, optimum = random.Random(seed), best(instance, objective)
        for _ in range(15):
            argument = random_argument(rng, instance, objective)
            try:
                proven = proven_value(instance, objective, argument)
            except RefutedError:
                kinds["refuted"] += 1
                continue
            kinds[type(argument).__name__] += 1
            assert allows(objective, proven, optimum), (seed, argument)
    proving = {"PricedWork"} if objective.maximised else {"OrderedMean", "GroupedMean"}
    assert set(kinds) - {"UniformMean"} == {"refuted", *proving}
    assert ("UniformMean" in kinds) == (objective is Objective.MEAN_LATENCY)


@pytest.mark.parametrize("objective", CLOCK)
def test_bounds_with_calls_and_swapping(objective: Objective) -> None:
    for seed in range(30):
        # The search takes long to find the best goodput of three requests.
        instance = random_calling(seed, most_requests=2 if objective.maximised else 3)
        require_proven(instance, objective, "quick")


@pytest.mark.parametrize(
    "objective", [Objective.MEAN_LATENCY, Objective.MEAN_TTFT, Objective.GOODPUT]
)
def test_no_choices_prove_more_than_the_optimum_with_calls(objective: Objective) -> None:
    kinds: Counter[str] = Counter()
    for seed in range(100, 125):
        instance = random_calling(seed, most_requests=2 if objective.maximised else 3)
        rng, optimum = random.Random(seed), best(instance, objective)
        for _ in range(10):
            argument = random_argument(rng, instance, objective)
            try:
                proven = proven_value(instance, objective, argument)
            except RefutedError:
                continue
            kinds[type(argument).__name__] += 1
            assert allows(objective, proven, optimum), (seed, argument)
    proving = {"PricedWork"} if objective.maximised else {"OrderedMean", "GroupedMean"}
    assert proving <= set(kinds)


def test_files_keep_every_kind_of_argument(tmp_path: Path) -> None:
    kinds = set()
    for objective in CLOCK:
        for seed in range(12):
            instance = random_equal(seed) if seed % 3 == 0 else random_clock(seed)
            certificate = certify_clock(instance, clock_bound(instance, objective, effort="quick"))
            path = tmp_path / f"{objective}-{seed}.json"
            write_certificate(certificate, path)
            assert read_certificate(path).argument == certificate.argument
            assert read_certificate(path).objective is objective
            assert verify(read_certificate(path)).accepted
            kinds.add(type(certificate.argument).__name__)
            assert all(line.strip() for line in describe(certificate.argument))
    assert {"OrderedMean", "GroupedMean", "WindowTime", "OwnLatency", "PricedWork"} <= kinds
    assert "UniformMean" in kinds


def test_the_makespan_is_left_to_other_bounds() -> None:
    with pytest.raises(InvalidInputError, match="best_bound bounds the makespan"):
        clock_bound(random_clock(0), Objective.MAKESPAN)
