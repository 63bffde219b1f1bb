"""Claims about chunking: each condition is needed in words, and the claims hold on instances."""

from __future__ import annotations

import random

import msgspec
import pytest

from optsched.cost import CostModel
from optsched.instance import Instance, Limits, Request
from optsched.model.scope import (
    chunk_relaxation,
    chunking_is_exact,
    chunking_is_pointless,
    relaxation_is_valid,
)
from optsched.objective import Objective
from tests.oracle import optimum
from tests.tiny import random_instance, with_slos

STUDY = CostModel(pieces=((9e-3, 7e-5),), d_kv=3e-7, p_sq=2e-8, p_kv=3e-8, p_req=5e-5)
FREE = CostModel(pieces=((9e-3, 7e-5), (5e-3, 9e-5)), p_sq=2e-8)


def _instance(cost: CostModel, **limits: int) -> Instance:
    return Instance(
        name="scope",
        limits=Limits(**{"kv_tokens": 40, "batch_tokens": 100, **limits}),
        cost=cost,
        requests=tuple(Request(id=f"r{i}", prompt_tokens=8, output_tokens=4) for i in range(3)),
    )


def _with(cost: CostModel, **changes: object) -> CostModel:
    return msgspec.structs.replace(cost, **changes)


@pytest.mark.parametrize(
    ("instance", "policies", "reason"),
    [
        (_instance(STUDY, batch_tokens=30), (), "exceeds min"),
        (_instance(STUDY, prefill_tokens=39), (), "exceeds min"),
        (_instance(FREE), (), "several affine pieces"),
        (_instance(_with(STUDY, p0=1e-3)), (), "p0 > 0"),
        (_instance(_with(STUDY, p_mc=3e-8)), (), "p_mc < 2 p_sq"),
        (_instance(_with(STUDY, pieces=((-1e-5, 7e-5),))), (), "alpha < 0"),
        (_instance(_with(STUDY, d_kv=0.0)), (), "decoded alone"),
        (_instance(_with(STUDY, d_req=1.0)), (), "cheaper than the decode"),
        (_instance(STUDY), ("no-hold",), "no-hold"),
        (_instance(STUDY), ("no-hybrid",), "no-hybrid"),
    ],
)
def test_chunking_may_help(instance: Instance, policies: tuple[str, ...], reason: str) -> None:
    verdict = chunking_is_pointless(instance, policies)
    assert not verdict.holds
    assert reason in verdict.reason


@pytest.mark.parametrize(
    ("instance", "policies"),
    [
        (_instance(STUDY), ()),
        (_instance(STUDY, block_tokens=2, batch_requests=1), ()),
        (_instance(STUDY), ("no-hybrid", "no-evict")),
        (_instance(_with(STUDY, d_kv=0.0)), ("no-evict",)),
        (_instance(FREE), ("no-chunk",)),
    ],
)
def test_chunking_is_pointless(instance: Instance, policies: tuple[str, ...]) -> None:
    assert chunking_is_pointless(instance, policies).holds


@pytest.mark.parametrize(
    ("instance", "policies", "reason"),
    [
        (_instance(_with(FREE, p_kv=1e-8)), (), "price of their own"),
        (_instance(_with(FREE, p_req=1e-8)), (), "price of their own"),
        (_instance(_with(FREE, p_mc=3e-8)), (), "not 2 p_sq"),
        (_instance(FREE, block_tokens=2), (), "pages"),
        (_instance(FREE, batch_requests=2), (), "batch_requests"),
        (_instance(_with(FREE, d_kv=3e-7)), (), "dearer alone"),
        (_instance(_with(FREE, d0=1e-4)), (), "dearer alone"),
        (_instance(FREE), ("no-hybrid",), "no-hybrid"),
        (_instance(FREE), ("no-hold",), "no-hold"),
    ],
)
def test_chunked_network_is_not_exact(
    instance: Instance, policies: tuple[str, ...], reason: str
) -> None:
    verdict = chunking_is_exact(instance, policies)
    assert not verdict.holds
    assert reason in verdict.reason


def test_chunked_network_is_exact() -> None:
    assert chunking_is_exact(_instance(FREE, batch_requests=3)).holds
    assert chunking_is_exact(_instance(_with(FREE, d_kv=3e-7)), ("no-evict", "no-hybrid")).holds


def test_arrivals_are_outside_every_claim() -> None:
    instance = _instance(STUDY)
    late = Request(id="late", prompt_tokens=2, output_tokens=2, arrival_s=1.0)
    instance = msgspec.structs.replace(instance, requests=(*instance.requests, late))
    for claim in (chunking_is_pointless, chunking_is_exact, relaxation_is_valid):
        assert not claim(instance).holds


def test_the_relaxation_keeps_what_the_exchange_keeps() -> None:
    cost = _with(STUDY, p_mc=3e-8, p0=1e-3, d0=1e-3)
    relaxed = chunk_relaxation(_instance(cost, block_tokens=2, batch_requests=1))
    assert relaxed.cost == _with(cost, p_kv=0.0, p_sq=1.5e-8, p_mc=3e-8)
    assert relaxed.limits == Limits(kv_tokens=40, batch_tokens=100)
    assert relaxed.requests == _instance(STUDY).requests


def _one_piece(seed: int) -> Instance:
    """One piece and M <= min(C, P), the rest random."""
    rng = random.Random(seed)
    instance = random_instance(seed, most_prompt=rng.choice([3, 6]), pages=rng.random() < 0.3)
    square = rng.choice([0, 1e-5, 1e-3])
    cost = msgspec.structs.replace(
        instance.cost, pieces=instance.cost.pieces[:1], p0=0.0, p_sq=square,
        p_mc=rng.choice([2, 2, 3]) * square, d_kv=rng.choice([2, 3, 0]) * square,
        d_req=rng.choice([square, 0, 2e-4]), d0=rng.choice([0, 0, 1e-3]),
    )  # fmt: skip
    limits = msgspec.structs.replace(
        instance.limits, batch_tokens=instance.limits.kv_tokens,
        batch_requests=rng.choice([None, 1, 2]),
    )  # fmt: skip
    return msgspec.structs.replace(instance, cost=cost, limits=limits)


@pytest.mark.parametrize("seeds", [range(100), range(100, 200)], ids=str)
def test_where_chunking_is_pointless_no_chunks_lose_nothing(seeds: range) -> None:
    compared = 0
    for seed in seeds:
        instance = _one_piece(seed)
        policies = ["no-evict"] if seed % 5 == 0 else []
        if chunking_is_pointless(instance, policies).holds:
            best, _ = optimum(instance, policies)
            unchunked, _ = optimum(instance, [*policies, "no-chunk"])
            assert unchunked == pytest.approx(best, rel=1e-9), seed
            compared += 1
    assert compared >= 50


@pytest.mark.parametrize("objective", [o for o in Objective if o is not Objective.MAKESPAN])
def test_where_chunking_is_pointless_no_objective_of_the_clock_loses(objective: Objective) -> None:
    compared = 0
    for seed in range(1000, 1050):
        instance = with_slos(_one_piece(seed), random.Random(seed))
        without_tpot = [msgspec.structs.replace(r, tpot_slo_s=None) for r in instance.requests]
        instance = msgspec.structs.replace(instance, requests=tuple(without_tpot))
        policies = ["no-evict"] if seed % 5 == 0 else []
        if chunking_is_pointless(instance, policies, objective).holds:
            best, _ = optimum(instance, policies, objective=objective)
            unchunked, _ = optimum(instance, [*policies, "no-chunk"], objective=objective)
            assert unchunked == pytest.approx(best, rel=1e-9), seed
            compared += 1
    assert compared >= 20


def test_claims_name_the_objectives_that_they_leave_out() -> None:
    instance = _instance(STUDY)
    paced = [msgspec.structs.replace(r, tpot_slo_s=0.01) for r in instance.requests]
    judged = msgspec.structs.replace(instance, requests=tuple(paced))
    verdict = chunking_is_pointless(judged, (), Objective.GOODPUT)
    assert not verdict.holds
    assert "TPOT SLO" in verdict.reason
    assert chunking_is_pointless(judged, (), Objective.MEAN_LATENCY).holds
    assert chunking_is_pointless(judged, ("nonpreemptive",), Objective.GOODPUT).holds
    for claim in (chunking_is_exact, relaxation_is_valid):
        assert claim(_instance(FREE), (), Objective.MAX_LATENCY).holds
        verdict = claim(_instance(FREE), (), Objective.MEAN_TTFT)
        assert not verdict.holds
        assert "when in a fill" in verdict.reason
