"""Certificates prove what is reported, and nothing that is not so."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from optsched.bounds import lower_bound
from optsched.bounds.certificate import certify, certify_prices
from optsched.bounds.lagrangian import lagrangian_bound
from optsched.bounds.time_arguments import at_most
from optsched.bounds.verify.refuted import RefutedError
from optsched.bounds.verify.verdict import proven_bound, verify
from optsched.certificate import (
    Certificate,
    ChainCount,
    Line,
    LineTime,
    MemoryCount,
    PathTime,
    PhasesTime,
    WeightCount,
)
from optsched.errors import InvalidInputError
from optsched.instance import Instance, Limits, Request
from optsched.io import preset, read_certificate, write_certificate
from optsched.pricing import PricedBatches
from tests.bounds.arguments import random_argument, random_prices
from tests.bounds.draw import random_augmented, random_plain
from tests.bounds.test_azure import trace
from tests.bounds.workloads import shaped, uniform
from tests.oracle import optimum

BLOCK = 50  # instances per test
UP_TO_ROUNDING = 1 + Fraction(1, 10**12)  # of the optimum, which is a sum of doubles


@cache
def plain(seed: int) -> tuple[Instance, Fraction]:
    """A tiny instance without calls, and what no proof may exceed."""
    instance = random_plain(seed)
    return instance, Fraction(optimum(instance)[0]) * UP_TO_ROUNDING


@cache
def augmented(seed: int) -> tuple[Instance, Fraction]:
    """The same with calls and swapping."""
    instance = random_augmented(seed)
    return instance, Fraction(optimum(instance)[0]) * UP_TO_ROUNDING


def drawn(first: int) -> Iterator[tuple[int, Instance, Fraction]]:
    """A block of instances, a fifth of them with calls."""
    for seed in range(first, first + BLOCK):
        yield seed, *(augmented(seed) if seed % 5 == 0 else plain(seed))


@pytest.mark.parametrize("first", range(0, 12 * BLOCK, BLOCK))
def test_the_exact_value_agrees_with_the_bound_and_is_below_the_optimum(first: int) -> None:
    for seed, instance, most in drawn(first):
        bound = lower_bound(instance)
        certificate = certify(instance, bound)
        verdict = verify(certificate)
        assert verdict.accepted, (seed, verdict.reason)
        assert verdict.proven_s is not None
        assert Fraction(certificate.bound_s) <= verdict.proven_s <= most, seed
        assert certificate.bound_s == pytest.approx(bound.value_s, rel=1e-9), seed


@pytest.mark.parametrize("first", range(0, 8 * BLOCK, BLOCK))
def test_no_choices_prove_more_than_the_optimum(first: int) -> None:
    kinds: Counter[str] = Counter()
    tight = 0
    for seed, instance, most in drawn(first):
        rng, best = random.Random(seed), Fraction(0)
        for _ in range(40):
            argument = random_argument(rng, instance)
            try:
                proven = proven_bound(instance, argument)
            except RefutedError:
                kinds["refuted"] += 1
                continue
            assert proven <= most, (seed, argument)
            kinds[type(argument).__name__] += 1
            best = max(best, proven)
        tight += best * (1 + Fraction(1, 10**9)) >= most
    assert set(kinds) == {
        "refuted", "LineTime", "BalancedTime", "PhasesTime", "PathTime", "ArrivalTime",
    }  # fmt: skip
    assert tight >= BLOCK / 4, "proofs that never meet the optimum would pass everything else"


@pytest.mark.parametrize("first", range(0, 2 * BLOCK, BLOCK))
def test_prices_prove_no_more_than_the_optimum(first: int) -> None:
    for seed in range(first, first + BLOCK):
        instance, most = plain(seed)
        found = lagrangian_bound(instance, effort="quick")
        verdict = verify(certify_prices(instance, found))
        assert verdict.accepted, (seed, verdict.reason)
        assert verdict.proven_s is not None
        assert found.value_s * (1 - 1e-9) <= verdict.proven_s <= most, seed


@pytest.mark.parametrize("first", range(0, 4 * BLOCK, BLOCK))
def test_no_prices_prove_more_than_the_optimum(first: int) -> None:
    accepted = refuted = 0
    for seed in range(first, first + BLOCK):
        instance, most = plain(seed)
        rng, batches = random.Random(seed), lower_bound(instance).batches
        for _ in range(10):
            argument = random_prices(rng, instance, batches)
            try:
                proven = proven_bound(instance, argument)
            except RefutedError:
                refuted += 1
                continue
            accepted += 1
            assert proven <= most, (seed, argument)
    assert min(accepted, refuted) > 0


def numbers(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every number of a JSON value with its path."""
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            yield from numbers(item, (*path, key))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path, value


def changed(value: Any) -> set[Any]:
    """Other numbers in the place of ``value``."""
    found = {value + 1, value - 1, 2 * value, -value, 0, value // 2, 10**15}
    if isinstance(value, float):
        found |= {math.nextafter(value, math.inf), math.nextafter(value, 0.0)}
        found |= {value * (1 + 1e-9), value * (1 - 1e-9), value / 2, 1e300, 5e-324}
    return {other for other in found if other != value}


def with_number(text: str, path: tuple[Any, ...], number: Any) -> str:
    """The file with one number changed."""
    tree = json.loads(text)
    inside = tree
    for key in path[:-1]:
        inside = inside[key]
    inside[path[-1]] = number
    return json.dumps(tree)


def mutants() -> Iterator[tuple[str, Certificate, Fraction]]:
    """Certificates of every kind, with what no proof may exceed."""
    wanted = {"line", "balanced", "phases", "critical-path", "arrivals"}
    for seed in range(200):
        instance, most = augmented(seed) if seed % 5 == 0 else plain(seed)
        certificate = certify(instance)
        kind = str(msgspec.to_builtins(certificate.argument)["type"])
        if kind in wanted:
            wanted.discard(kind)
            yield kind, certificate, most
    assert not wanted, "a kind of argument was not met"
    priced = (
        (certify_prices(instance, found), most)
        for instance, most in map(plain, range(200))
        if (found := lagrangian_bound(instance, effort="quick")).pricing.horizons
    )
    yield "priced-batches", *next(priced)
    instance = shaped([(4, 2), (3, 2), (2, 1), (2, 1)], kv_tokens=7)
    most = Fraction(optimum(instance)[0])
    count = WeightCount(pages=(2, 3, 4, 5), weights=(1, 2, 3, 3))
    line = Line(intercept_s=1.0, slope_s=0.0, knee_tokens=1)
    argument = LineTime(count=count, line=line)
    yield (
        "weights",
        Certificate(
            instance=instance, digest=instance.digest, proof="weights", argument=argument,
            bound_s=at_most(proven_bound(instance, argument)),
        ),
        most,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "certificate", "most"), [pytest.param(*case, id=case[0]) for case in mutants()]
)
def test_one_number_changed_is_refuted_or_still_valid(
    kind: str, certificate: Certificate, most: Fraction, tmp_path: Path
) -> None:
    path = tmp_path / "certificate.json"
    write_certificate(certificate, path)
    text = path.read_text()
    assert verify(read_certificate(path)).accepted
    outcomes: Counter[str] = Counter()
    for place, number in numbers(json.loads(text)):
        for other in changed(number):
            path.write_text(with_number(text, place, other))
            try:
                claim = read_certificate(path)
            except InvalidInputError:
                outcomes["broken"] += 1
                continue
            verdict = verify(claim)
            outcomes["accepted" if verdict.accepted else "refuted"] += 1
            if verdict.accepted:
                assert claim.instance.digest == certificate.digest, (place, other)
                assert Fraction(claim.bound_s) <= most, (place, other)
                assert verdict.proven_s is not None
                assert verdict.proven_s <= most, (place, other)
    assert min(outcomes["broken"], outcomes["refuted"], outcomes["accepted"]) > 0


def test_the_next_double_above_what_is_proven_is_refuted() -> None:
    for seed in range(40):
        certificate = certify(random_plain(seed))
        proven = verify(certificate).proven_s
        assert proven is not None
        best = at_most(proven)
        above = math.nextafter(best, math.inf)
        for claim, accepted in ((best, True), (above, False)):
            other = msgspec.structs.replace(certificate, bound_s=claim)
            assert verify(other).accepted == accepted


def test_a_digest_of_another_instance_is_refuted() -> None:
    certificate, other = certify(random_plain(0)), random_plain(1)
    verdict = verify(certificate, about=other.digest)
    assert not verdict.accepted
    assert verdict.reason is not None
    assert other.digest in verdict.reason
    verdict = verify(msgspec.structs.replace(certificate, instance=other))
    assert not verdict.accepted
    assert verify(certificate, about=certificate.digest).accepted


def test_a_default_spelt_out_is_the_same_instance(tmp_path: Path) -> None:
    certificate = certify(uniform(2, 4, 2, 16))
    path = tmp_path / "certificate.json"
    write_certificate(certificate, path)
    tree = json.loads(path.read_text())
    for request in tree["instance"]["requests"]:
        request |= {"arrival_s": 0.0, "weight": 1.0, "calls": []}
    path.write_text(json.dumps(tree))
    assert verify(read_certificate(path)).accepted


def test_an_instance_without_a_schedule_is_refuted() -> None:
    instance = shaped([(9, 2)], kv_tokens=9)
    for argument in (PathTime(request="r0"), LineTime(
        count=ChainCount(), line=Line(intercept_s=1.0, slope_s=0.0, knee_tokens=1)
    )):  # fmt: skip
        with pytest.raises(RefutedError, match="'r0' cannot run"):
            proven_bound(instance, argument)


def test_a_line_above_the_law_is_refuted() -> None:
    instance = uniform(4, 16, 8, 64)
    ((alpha, beta),) = instance.cost.pieces
    for intercept, slope, holds in (
        (alpha, beta, True),
        (math.nextafter(alpha, 1.0), beta, False),
        (alpha, math.nextafter(beta, 1.0), False),
        (alpha, beta / 2, True),
    ):
        line = Line(intercept_s=intercept, slope_s=slope, knee_tokens=1)
        certificate = Certificate(
            instance=instance, digest=instance.digest, bound_s=0.0, proof="line",
            argument=LineTime(count=MemoryCount(), line=line),
        )  # fmt: skip
        assert verify(certificate).accepted == holds


@pytest.mark.parametrize("name", ["llama3-70b-4xa100", "infermax-70b-4xa100"])
@pytest.mark.parametrize("arrivals", [False, True])
def test_the_azure_hour(name: str, arrivals: bool, tmp_path: Path) -> None:
    chosen = preset(name)
    requests = tuple(
        Request(
            id=f"r{k}", prompt_tokens=i, output_tokens=o, arrival_s=at if arrivals else 0.0
        )
        for k, (i, o, at) in enumerate(trace())
    )  # fmt: skip
    instance = Instance(
        name="hour", limits=Limits(kv_tokens=100_000, batch_tokens=chosen.batch_tokens),
        cost=chosen.cost, requests=requests,
    )  # fmt: skip
    bound = lower_bound(instance)
    path = tmp_path / "hour.json"
    write_certificate(certify(instance, bound), path)
    certificate = read_certificate(path)
    assert verify(certificate, about=instance.digest).accepted
    assert certificate.bound_s == pytest.approx(bound.value_s, rel=1e-12)


def test_crafted_sizes_are_refused_at_once() -> None:
    prices = {"unit_bits": 0, "memory": (0,), "tokens": (0,), "prefill": (0,), "requests": (0,)}
    for sizes in (
        {"most_batches": 10**30, "bucket_batches": 10**30, "stride": 1},
        {"most_batches": 10, "bucket_batches": 10**12, "stride": 1},
        {"most_batches": 10, "bucket_batches": 10**12, "stride": 10**12},
    ):
        with pytest.raises(InvalidInputError):
            PricedBatches(**sizes, **prices)  # type: ignore[arg-type]
    line = Line(intercept_s=0.1, slope_s=0.1, knee_tokens=1)
    with pytest.raises(InvalidInputError, match="lines"):
        PhasesTime(count=MemoryCount(), remaining=0, lines=(line,) * 100, intervals=100_000)
