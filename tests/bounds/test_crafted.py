"""Certificates that would take a check very long: closed forms, or refused with a reason."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import pytest

from optsched.bounds.certificate import certify
from optsched.bounds.lagrangian import covers, lagrangian_bound
from optsched.bounds.verify.refuted import RefutedError
from optsched.bounds.verify.steps import steps_of
from optsched.bounds.verify.units import cost_doubles, units_for
from optsched.bounds.verify.verdict import proven_bound
from optsched.bounds.verify.work import MOST_SIZES, own_work
from optsched.bounds.verify.workload import Workload
from optsched.certificate import (
    Argument,
    BalancedTime,
    ChainCount,
    Line,
    LineTime,
    MemoryCount,
    PathTime,
    PricedTime,
    WalkTime,
    WeightCount,
)
from optsched.cost import CostModel
from optsched.errors import UnsupportedError
from optsched.instance import Call, Instance, Limits, Request
from optsched.pricing import BatchPricing, PricedBatches
from optsched.walk_pricing import WalkPricing

COST = CostModel(pieces=((9e-3, 7e-5),), d0=1e-3, d_kv=3e-7, p_sq=2e-8, p_kv=3e-8, p_req=5e-5)
DEAR_DECODES = CostModel(pieces=((9e-3, 7e-5),), d_kv=1.0)
LINE = Line(intercept_s=9e-3, slope_s=7e-5, knee_tokens=1)
HUGE = 10**7


def huge(cost: CostModel, requests: int = 3, calls: int = 0) -> Instance:
    """Requests of the largest sizes that an instance may have, with responses of that size."""
    own = tuple(
        Call(after_tokens=k, duration_s=0.0, response_tokens=HUGE) for k in range(1, calls + 1)
    )
    return Instance(
        name="huge", limits=Limits(kv_tokens=10**12, batch_tokens=4096), cost=cost,
        requests=tuple(
            Request(id=f"r{k}", prompt_tokens=HUGE, output_tokens=HUGE, calls=own)
            for k in range(requests)
        ),
    )  # fmt: skip


def small(outputs: tuple[int, ...] = (10, 10), prompt: int = 10) -> Instance:
    return Instance(
        name="small", limits=Limits(kv_tokens=10**7, batch_tokens=4096), cost=COST,
        requests=tuple(
            Request(id=f"r{k}", prompt_tokens=prompt, output_tokens=output)
            for k, output in enumerate(outputs)
        ),
    )  # fmt: skip


def prompts_up_to(most: int) -> Instance:
    """One request of one token for each size of prompt."""
    return Instance(
        name="prompts", limits=Limits(kv_tokens=most, batch_tokens=4096), cost=COST,
        requests=tuple(
            Request(id=f"r{k}", prompt_tokens=k, output_tokens=1) for k in range(1, most + 1)
        ),
    )  # fmt: skip


def priced(*horizons: tuple[int, int, int], cell: int = HUGE) -> PricedTime:
    """Zero prices for each (most batches, batches of a bucket, stride)."""
    made = []
    for most, bucket, stride in horizons:
        none = (0,) * -(-most // bucket)
        made.append(
            PricedBatches(
                most_batches=most, bucket_batches=bucket, stride=stride, unit_bits=0,
                memory=none, tokens=none, prefill=none, requests=none,
            )
        )  # fmt: skip
    pricing = BatchPricing(
        cells=(cell,), counted=False, knee_tokens=1, excess_s=0.0, beyond_slope_s=0.0,
        horizons=tuple(made),
    )  # fmt: skip
    return PricedTime(count=ChainCount(), pricing=pricing)


@pytest.mark.parametrize("calls", [0, 200])
@pytest.mark.parametrize(
    "argument",
    [
        LineTime(count=MemoryCount(), line=LINE),
        LineTime(count=MemoryCount(threshold_pages=10**6, rounding=100), line=LINE),
        LineTime(count=WeightCount(pages=(HUGE,), weights=(1,)), line=LINE),
        BalancedTime(count=ChainCount()),
        PathTime(request="r0"),
    ],
    ids=lambda argument: type(argument).__name__,
)
def test_the_largest_requests_are_summed_in_closed_form(argument: Argument, calls: int) -> None:
    if isinstance(argument, LineTime) and isinstance(argument.count, WeightCount):
        with pytest.raises(RefutedError, match="knapsack is too large"):
            proven_bound(huge(COST, calls=calls), argument)
    else:
        alone = proven_bound(huge(COST, 1, calls), PathTime(request="r0"))
        assert proven_bound(huge(COST, calls=calls), argument) > alone * (1 - 1e-2)


@dataclass(frozen=True)
class Case:
    """An argument that is refused, and why."""

    why: str
    instance: Instance
    argument: Argument


WALK = WalkPricing(
    intercept_s=0.0, slope_s=0.0, unit_bits=0, small=((1,),), followed=((0,),), potentials=(0, 0)
)
WIDE = WalkPricing(
    intercept_s=0.0, slope_s=0.0, unit_bits=0, small=((),), followed=((0,),), potentials=(0,),
    widths=((HUGE,),), later=((0,),),
)  # fmt: skip
TYPES = 10_000
MANY_TYPES = WalkPricing(
    intercept_s=0.0, slope_s=0.0, unit_bits=0, small=((),) * TYPES, followed=((0,),) * TYPES,
    potentials=(0,) * 10_000,
)  # fmt: skip
CASES = [
    Case("19999999 sizes", huge(DEAR_DECODES), BalancedTime(count=ChainCount())),
    Case("19999999 sizes", huge(DEAR_DECODES), PathTime(request="r0")),
    Case("rounding", small(), LineTime(count=MemoryCount(rounding=10**9), line=LINE)),
    Case("sizes are too many", huge(COST), priced((HUGE, HUGE, HUGE))),
    Case("too long to be checked", small(), priced((HUGE, HUGE, 1))),
    Case("too many steps", small((900_000,)), priced((10**6, 10**6, 1))),
    Case("refills are too many", small((900_000,)), priced(
        *((HUGE - k, HUGE, 100_000) for k in range(30, 0, -1))
    )),
    Case("stages in all", prompts_up_to(TYPES), WalkTime(pricing=MANY_TYPES)),
    Case("stages are too many", huge(COST), WalkTime(pricing=WIDE)),
    Case("free pages are too many", small((2,), 9 * 10**6), WalkTime(pricing=WALK)),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[case.why for case in CASES])
def test_what_would_take_long_is_refused(case: Case) -> None:
    with pytest.raises(RefutedError, match=case.why):
        proven_bound(case.instance, case.argument)


def test_cells_without_a_request_cost_nothing() -> None:
    """Otherwise as many as a file holds, times requests and horizons, take minutes."""
    instance = small(tuple(range(1, 501)), 20_000)
    one = priced(*((10**6 + k, HUGE, HUGE) for k in range(5)), cell=20_000)
    pricing = msgspec.structs.replace(one.pricing, cells=tuple(range(1, 20_001)))
    many = msgspec.structs.replace(one, pricing=pricing)
    assert proven_bound(instance, many) == proven_bound(instance, one)


def test_closed_forms_equal_sums_over_all_sizes() -> None:
    instance = small((40, 7))
    for cost in (COST, CostModel(pieces=((0.01, 1e-4),), d_kv=4e-3, d0=0.1, p_sq=2e-5)):
        units = units_for(cost_doubles(cost), 1)
        workload = Workload(instance.requests, instance.limits, cost)
        steps = steps_of(cost, 16, units, units.of(cost.pieces[0][1]))
        decode = steps.decodes(set_up=units.of(cost.d0), per_page=3, block_tokens=2)
        expected = [
            steps.fill(10)
            + sum(min(decode(size), steps.fill(size)) for size in range(11, 10 + outputs))
            for outputs in (40, 7)
        ]
        assert own_work(workload, steps.fill, decode, steps.floor) == expected


def test_bounds_without_a_check_in_time_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    larger = small((MOST_SIZES, 10))
    assert not covers(larger)
    with pytest.raises(UnsupportedError, match="more than 1000000 KV tokens"):
        lagrangian_bound(larger)
    monkeypatch.setattr("optsched.bounds.verify.work.MOST_SIZES", 20)
    instance = Instance(
        name="dear", limits=larger.limits, cost=DEAR_DECODES, requests=small((30,)).requests
    )
    with pytest.raises(UnsupportedError, match="no certificate: refills may be cheaper"):
        certify(instance)
