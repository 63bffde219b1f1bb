"""A mean under a limit on the other one: no more than the best schedule within it."""

from __future__ import annotations

import random
from fractions import Fraction
from functools import cache
from itertools import permutations
from pathlib import Path

import msgspec
import numpy as np
import pytest

from optsched.bounds.clock import certify_clock, clock_bound
from optsched.bounds.clock.chains import chained_sum
from optsched.bounds.clock.limited import CHAINS
from optsched.bounds.clock.limited import PRICES as PRICED
from optsched.bounds.verify.clock.chains import Job, least_mean_times
from optsched.bounds.verify.clock.value import weighted_mean
from optsched.bounds.verify.refuted import RefutedError
from optsched.bounds.verify.verdict import proven_value, verify
from optsched.clock_certificate import LimitedMean, MachineChains
from optsched.errors import InvalidInputError
from optsched.instance import Instance
from optsched.io import read_certificate, write_certificate
from optsched.io.generate import uniform
from optsched.objective import Objective
from tests.bounds.arguments import random_line
from tests.bounds.clock.draw import random_shares
from tests.bounds.clock.search import frontier
from tests.bounds.clock.test_time_prices import random_prices
from tests.bounds.draw import random_augmented
from tests.oracle import optimum
from tests.tiny import random_instance

ROUNDING = Fraction(1, 10**9)
TTFT, LATENCY = Objective.MEAN_TTFT, Objective.MEAN_LATENCY
BLOCK = 30


@cache
def tiny(seed: int) -> tuple[Instance, tuple[tuple[float, float], ...]]:
    """An instance with the mean TTFT and latency of its best schedules."""
    requests, prompt, output = [(2, 4, 3), (3, 2, 2)][seed % 5 == 0]
    instance = random_instance(
        40_000 + seed, most_requests=requests, most_prompt=prompt, most_output=output,
        arrivals=seed % 2 == 0, pages=seed % 3 == 0, tight=seed % 4 == 0,
    )  # fmt: skip
    return instance, tuple(frontier(instance))


@pytest.mark.parametrize("seed", range(12))
def test_the_search_agrees_with_the_oracle(seed: int) -> None:
    instance, best = tiny(seed)
    for part, objective in enumerate((TTFT, LATENCY)):
        least = min(values[part] for values in best)
        assert least == pytest.approx(optimum(instance, objective=objective)[0])


@pytest.mark.parametrize("first", range(0, 4 * BLOCK, BLOCK))
def test_bounds_under_limits_of_tiny_instances(first: int) -> None:
    """At every limit where the best value changes, and between."""
    closeness = []
    for seed in range(first, first + BLOCK):
        instance, best = tiny(seed)
        objective = (TTFT, LATENCY)[seed % 7 == 0]
        points = best if objective is TTFT else [(b, a) for a, b in best]
        limited = LATENCY if objective is TTFT else TTFT
        limit = random.Random(seed).choice(points)[1] * (1 + 1e-12)
        within = min(value for value, other in points if other <= limit)
        bound = clock_bound(instance, objective, effort="quick", subject_to={limited: limit})
        assert {CHAINS, PRICED} <= set(bound.parts)
        for name, value in bound.parts.items():
            assert Fraction(value) <= Fraction(within) * (1 + ROUNDING), (name, seed)
        verdict = verify(certify_clock(instance, bound))
        assert verdict.accepted, verdict.reason
        closeness.append(bound.value / within)
    assert sum(value > 1 - 1e-9 for value in closeness) >= BLOCK / 6


@pytest.mark.parametrize("first", range(0, 4 * BLOCK, BLOCK))
def test_no_choices_prove_more_than_the_best_weighted_sum(first: int) -> None:
    proving = 0
    for seed in range(first, first + BLOCK):
        instance, best = tiny(seed)
        rng = random.Random(seed)
        for _ in range(6):
            weights = rng.choice([1, 7, 4096]), rng.choice([1, 50, 4096])
            if rng.random() < 0.5:
                inner = MachineChains(
                    line=random_line(rng, instance), shares=random_shares(rng, instance)
                )
            else:
                inner = random_prices(rng, instance)
            argument = LimitedMean(first=weights[0], whole=weights[1], weighted=inner)
            try:
                proven = weighted_mean(instance, argument)
            except RefutedError:
                continue
            proving += 1
            least = min(weights[0] * ttft + weights[1] * latency for ttft, latency in best)
            assert proven <= Fraction(least) * (1 + ROUNDING), (seed, argument)
    assert proving > 2 * BLOCK


@pytest.mark.parametrize("objective", [TTFT, LATENCY])
def test_bounds_under_limits_with_calls_and_swapping(objective: Objective) -> None:
    limited = LATENCY if objective is TTFT else TTFT
    for seed in range(12):
        instance = random_augmented(seed)
        part = objective is LATENCY
        point = random.Random(seed).choice(frontier(instance))
        limits = {limited: point[not part] * (1 + 1e-12)}
        bound = clock_bound(instance, objective, effort="quick", subject_to=limits)
        for name, value in bound.parts.items():
            assert Fraction(value) <= Fraction(point[part]) * (1 + ROUNDING), (name, seed)
        assert verify(certify_clock(instance, bound)).accepted


@pytest.mark.parametrize("seed", range(10))
def test_least_mean_times_against_all_orders(seed: int) -> None:
    """Where everything is there from the start some order without interruption is best."""
    rng = random.Random(seed)
    jobs = [Job(0, rng.randint(0, 9), rng.randint(1, 9)) for _ in range(5)]

    def total(order: tuple[Job, ...]) -> Fraction:
        now, value = 0, Fraction(0)
        for job in order:
            value += job.weight * (now + Fraction(job.work, 2))
            now += job.work
        return value

    least = min(map(total, permutations(jobs)))
    assert least - Fraction(1, 10**12) <= least_mean_times(jobs) <= least


@pytest.mark.parametrize("seed", range(10))
def test_chains_in_doubles_against_all_orders(seed: int) -> None:
    rng = random.Random(seed)
    fill, rest = (np.array([rng.choice([0.5, 1.0, 3.0, 9.0]) for _ in range(3)]) for _ in "fr")
    first, whole = rng.choice([0.1, 1.0]), rng.choice([0.1, 1.0])
    least = np.inf
    for order in set(permutations([0, 0, 1, 1, 2, 2])):
        now, total, seen = 0.0, 0.0, set()
        for request in order:
            now += rest[request] if request in seen else fill[request]
            total += now * (whole if request in seen else first)
            seen.add(request)
        least = min(least, total)
    assert chained_sum(np.zeros(3), fill, rest, first, whole) == pytest.approx(least)


def test_a_tight_limit_costs_first_tokens() -> None:
    """Where prompts take much of the work, all of them first is bad for latency."""
    instance = uniform(32, 512, 16, kv_tokens=2000)
    least = clock_bound(instance, LATENCY, effort="quick").value
    alone = clock_bound(instance, TTFT, effort="quick").value
    tight = clock_bound(instance, TTFT, effort="quick", subject_to={LATENCY: 1.02 * least})
    loose = clock_bound(instance, TTFT, effort="quick", subject_to={LATENCY: 10 * least})
    assert tight.value > 1.5 * alone
    assert loose.value == alone
    assert loose.subject_to == {}
    assert tight.subject_to == {LATENCY: 1.02 * least}


def test_a_certificate_needs_its_limit(tmp_path: Path) -> None:
    instance = uniform(24, 512, 16, kv_tokens=2000)
    least = clock_bound(instance, LATENCY, effort="quick").value
    bound = clock_bound(instance, TTFT, effort="quick", subject_to={LATENCY: 1.05 * least})
    certificate = certify_clock(instance, bound)
    assert certificate.subject_to == {LATENCY: 1.05 * least}
    path = tmp_path / "certificate.json"
    write_certificate(certificate, path)
    assert read_certificate(path) == msgspec.structs.replace(
        certificate, instance=read_certificate(path).instance
    )
    assert verify(read_certificate(path)).accepted
    looser = msgspec.structs.replace(certificate, subject_to={LATENCY: 1.2 * least})
    assert not verify(looser).accepted
    without = verify(msgspec.structs.replace(certificate, subject_to={}))
    assert without.reason == "the argument needs a limit on mean-latency, and there is none"
    other = verify(msgspec.structs.replace(certificate, subject_to={Objective.MAX_LATENCY: 1.0}))
    assert not other.accepted
    with pytest.raises(RefutedError, match="bounds a mean"):
        proven_value(instance, Objective.GOODPUT, certificate.argument, {LATENCY: 1.0})


def test_limits_and_weights_that_cannot_be() -> None:
    instance = uniform(4, 16, 4)
    bound = clock_bound(instance, TTFT, effort="quick")
    certificate = certify_clock(instance, bound)
    with pytest.raises(InvalidInputError, match="subject_to"):
        msgspec.structs.replace(certificate, subject_to={LATENCY: float("nan")})
    line, shares = (
        random_line(random.Random(0), instance),
        random_shares(random.Random(0), instance),
    )
    with pytest.raises(InvalidInputError, match="first"):
        LimitedMean(first=0, whole=1, weighted=MachineChains(line=line, shares=shares))
