"""Bounds in seconds: each where it decides, and figures that were derived by hand."""

from __future__ import annotations

import json
from dataclasses import replace as with_changes

import msgspec
import numpy as np
import pytest

from optsched.bounds import lower_bound
from optsched.bounds.events import token_runs
from optsched.bounds.path import critical_path
from optsched.bounds.piecewise import (
    Workload,
    chunk_rereads,
    decode_share,
    jensen,
    work_and_decodes,
)
from optsched.bounds.work import StepLaw
from optsched.cost import CostModel
from optsched.errors import InfeasibleError
from optsched.instance import Call, Instance, Limits, Request
from tests.bounds.workloads import shaped, uniform
from tests.oracle import optimum
from tests.tiny import LINEAR


def workload(instance: Instance) -> Workload:
    return Workload(runs=token_runs(instance), limits=instance.limits, cost=instance.cost)


EXACT = [
    ("B1 batch count", shaped([(3, 2)] * 2, LINEAR, kv_tokens=5)),
    ("B1 batch count", shaped([(4, 2)] * 3, LINEAR, prefill_tokens=4)),
    ("B2 packing", shaped([(2, 3)] * 3, CostModel(pieces=((1.0, 0.0),)), kv_tokens=6)),
    ("L4 chunk re-reads", shaped([(6, 1)], CostModel(pieces=((1.0, 0.0), (-3.0, 2.0)), p_kv=0.1))),
    ("L3 phases", shaped([(6, 4)] * 2, CostModel(pieces=((1.0, 0.0), (-3.0, 1.0))))),
    ("critical path", shaped([(1, 3)], CostModel(pieces=((1.0, 0.1),), d0=0.25, p0=0.5))),
]


@pytest.mark.parametrize(("proof", "instance"), EXACT)
def test_each_bound_where_it_equals_the_optimum(proof: str, instance: Instance) -> None:
    bound = lower_bound(instance)
    assert bound.proof == proof
    assert bound.value_s == pytest.approx(optimum(instance)[0], rel=1e-12)


def test_jensen_balances_tokens_over_the_batches() -> None:
    # 12 tokens in at least 3 batches, flat up to 4 tokens: three batches of 4.
    instance = shaped([(10, 3)], CostModel(pieces=((1.0, 0.0), (-7.0, 2.0))))
    assert jensen(workload(instance), 3) == 3.0
    # With 4 batches forced there is no less; with 2 allowed a third is worth it.
    assert jensen(workload(instance), 4) == 4.0
    assert jensen(workload(instance), 1) == 3.0


def test_set_up_of_decodes_counted_and_shared() -> None:
    cost = CostModel(pieces=((1.0, 0.0),), d0=0.5, p_req=2.0)
    load = workload(shaped([(1, 4), (1, 2)], cost, kv_tokens=10))
    steps = StepLaw(cost=cost, fill_tokens=4096, token_s=0.0)
    # A refill costs 2, a decode 0 and its batch 0.5: three batches have decodes, and two fills.
    assert work_and_decodes(load, steps) == 2 * 2.0 + 3 * 0.5
    # If a refill costs less than d0 more, only shares S / M are sure: (2 + 3 + 4 + 2) / 10 of d0.
    cheap = msgspec.structs.replace(cost, p_req=0.4)
    steps = with_changes(steps, cost=cheap)
    assert work_and_decodes(with_changes(load, cost=cheap), steps) == pytest.approx(
        2 * 0.4 + 0.5 * 1.1
    )
    assert decode_share(load).tolist() == pytest.approx([0.05 * s for s in range(5)])


def test_prefill_set_ups_are_paid_once_per_batch_of_prompts() -> None:
    cost = CostModel(pieces=((1.0, 0.0),), p0=0.25)
    bound = lower_bound(shaped([(4, 2)] * 3, cost, prefill_tokens=4))
    assert bound.value_s == 4 + 3 * 0.25


def test_the_critical_path_waits_for_arrivals_and_pauses() -> None:
    calls = (Call(after_tokens=1, duration_s=5.0, response_tokens=0),)
    requests = (
        Request(id="a", prompt_tokens=1, output_tokens=1),
        Request(id="b", prompt_tokens=1, output_tokens=2, calls=calls, arrival_s=2.0),
    )
    limits = Limits(kv_tokens=8, batch_tokens=8)
    cost = CostModel(pieces=((1.0, 0.0),))
    instance = Instance(name="c", limits=limits, cost=cost, requests=requests)
    assert critical_path(instance, token_runs(instance)) == 2 + 1 + 5 + 1
    bound = lower_bound(instance)
    assert (bound.value_s, bound.proof) == (9.0, "critical path")


def test_arrivals_bound_what_comes_late() -> None:
    requests = tuple(
        Request(id=str(k), prompt_tokens=3, output_tokens=2, arrival_s=10.0 * (k > 0))
        for k in range(4)
    )
    limits = Limits(kv_tokens=5, batch_tokens=8)
    cost = CostModel(pieces=((1.0, 0.0),))
    bound = lower_bound(Instance(name="late", limits=limits, cost=cost, requests=requests))
    assert bound.proof == "B5 arrivals"
    assert bound.value_s == 16.0  # at 10 s three requests arrive that never share a batch
    assert bound.parts["B1 batch count"] == 8.0


@pytest.mark.parametrize(
    ("prompt", "output"), [(128, 32), (128, 128), (1024, 32), (1024, 128), (1024, 1024)]
)
def test_phases_pay_where_few_requests_have_long_prompts(prompt: int, output: int) -> None:
    parts = lower_bound(uniform(32, prompt, output, 100_000, "llama2-7b-a100")).parts
    assert parts["L3 phases"] > 1.01 * max(parts["L1 Jensen"], parts["L2 mixtures"])


def test_rereads_pay_for_long_prompts_on_a_law_that_favours_chunks() -> None:
    load = workload(uniform(1024, 1024, 32, 100_000, "llama2-7b-a100"))
    assert chunk_rereads(load, 1) > 1.002 * chunk_rereads(
        with_changes(load, cost=msgspec.structs.replace(load.cost, p_kv=0.0)), 1
    )


@pytest.mark.parametrize(
    ("count", "prompt", "output", "kv_tokens", "value_s"),
    [
        (1024, 32, 32, 100, 146.9656),  # the area alone gives 145.1
        (1024, 48, 32, 100, 278.2511),
        (12, 8, 12, 19, 1.115125),  # 122 batches, which the optimum has too
        (8, 8, 8, 16, 0.549),
    ],
)
def test_figures_of_the_study(
    count: int, prompt: int, output: int, kv_tokens: int, value_s: float
) -> None:
    bound = lower_bound(uniform(count, prompt, output, kv_tokens))
    assert bound.value_s == pytest.approx(value_s, rel=1e-4)
    assert bound.proof == "B2 packing"


def test_a_bound_is_json_and_names_its_proof() -> None:
    bound = lower_bound(shaped([(3, 2)] * 2, LINEAR, kv_tokens=5))
    read = json.loads(msgspec.json.encode(bound))
    assert read["parts"][read["proof"]] == read["value_s"]
    assert read["batches"] == 4
    assert read["batches_proof"] == "B1 majority"
    assert msgspec.json.decode(msgspec.json.encode(bound), type=type(bound)) == bound


def test_the_proof_is_the_simplest_of_those_that_are_equal_up_to_rounding() -> None:
    bound = lower_bound(uniform(1024, 1, 512, 100_000))
    assert bound.proof == "B1 batch count"
    assert bound.parts["L1 Jensen"] == pytest.approx(bound.value_s, rel=1e-12)
    assert max(bound.parts.values()) == pytest.approx(bound.value_s, rel=1e-12)


def test_a_request_that_cannot_run_alone_is_refused() -> None:
    with pytest.raises(InfeasibleError, match="'r0'"):
        lower_bound(shaped([(9, 2)], kv_tokens=9))


@pytest.mark.parametrize("factor", [2, 5])
def test_more_copies_never_lower_the_bound(factor: int) -> None:
    few, many = uniform(4, 16, 8, 64), uniform(4 * factor, 16, 8, 64)
    assert lower_bound(many).value_s > lower_bound(few).value_s
    assert np.isfinite(lower_bound(many).value_s)


@pytest.mark.parametrize("batch_tokens", [18, 4096, 10**9, 10**12])
def test_a_huge_token_budget_takes_no_digits(batch_tokens: int) -> None:
    # One request alone: a fill of 12 tokens and 6 decodes, each 0.001 + 0.003 n: 0.061 s.
    instance = Instance(
        name="huge C",
        limits=Limits(kv_tokens=18, batch_tokens=batch_tokens),
        cost=CostModel(pieces=((0.001, 0.003),)),
        requests=(Request(id="r0", prompt_tokens=12, output_tokens=7),),
    )
    assert lower_bound(instance).value_s == pytest.approx(0.061, rel=1e-12)
