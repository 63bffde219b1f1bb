"""B3: never above the optimum, for the prices that are searched and for any other; and figures."""

from __future__ import annotations

import random
from fractions import Fraction

import msgspec
import numpy as np
import pytest

from optsched.bounds import batch_count, lower_bound
from optsched.bounds.coarsening import prompt_cells
from optsched.bounds.exact_lagrangian import ground, lagrangian_value
from optsched.bounds.lagrangian import lagrangian_bound
from optsched.bounds.path_total import demand
from optsched.bounds.verify.refuted import RefutedError
from optsched.cost import CostModel
from optsched.errors import InvalidInputError, UnsupportedError
from optsched.instance import Call, Instance, Request
from optsched.io.generate import mix
from optsched.pricing import BatchPricing, PricedBatches
from tests.bounds.draw import random_plain
from tests.bounds.workloads import UNIT, shaped, uniform
from tests.oracle import optimum
from tests.tiny import random_instance

BLOCK = 50  # instances per test
UP_TO_ROUNDING = 1 + 1e-9
NOTHING = BatchPricing(
    cells=(10**6,), counted=False, knee_tokens=1, excess_s=0.0, beyond_slope_s=0.0, horizons=()
)


@pytest.mark.parametrize("first", range(0, 6 * BLOCK, BLOCK))
def test_searched_prices_never_exceed_the_optimum(first: int) -> None:
    closeness = []
    for seed in range(first, first + BLOCK):
        instance = random_plain(seed)
        makespan_s, _ = optimum(instance)
        found = lagrangian_bound(instance)
        assert found.value_s <= makespan_s * UP_TO_ROUNDING, seed
        exact = lagrangian_value(instance, found.pricing, found.least_batches)
        assert found.value_s == pytest.approx(float(exact), rel=1e-12)
        assert Fraction(found.value_s) <= exact
        closeness.append(found.value_s / makespan_s)
    assert sum(value > 1 - 1e-9 for value in closeness) >= BLOCK / 3


def drawn_pricing(rng: random.Random, instance: Instance, least: int) -> BatchPricing:
    """Any prices: on scales that matter, and often the same over time."""
    block, bits = instance.limits.block_tokens, 40
    scale = max(abs(alpha) for alpha, _ in instance.cost.pieces)
    horizons, most = [], least - 1
    for _ in range(rng.choice([1, 1, 2])):
        most += rng.randint(1, 6)
        stride = block * rng.choice([1, 1, 2, 3])
        bucket = stride * rng.choice([1, 1, 2])
        buckets = -(-most // bucket)

        def column(seconds: float, buckets: int = buckets) -> tuple[int, ...]:
            top = int(seconds * 2**bits)
            if rng.random() < 0.5:
                return (rng.randint(0, top),) * buckets
            return tuple(rng.randint(0, top) for _ in range(buckets))

        serves = scale / 2 if instance.limits.batch_requests and rng.random() < 0.5 else 0.0
        horizons.append(
            PricedBatches(
                most_batches=most, bucket_batches=bucket, stride=stride, unit_bits=bits,
                memory=column(1.2 * scale / instance.limits.kv_tokens),
                tokens=column(rng.choice([0.0, 1e-3, 5e-3])),
                prefill=column(rng.choice([0.0, 0.0, 1e-3])), requests=column(serves),
            )
        )  # fmt: skip
    largest = int(instance.prompt_tokens.max())
    own = tuple(sorted({r.prompt_tokens for r in instance.requests}))
    return BatchPricing(
        cells=rng.choice([own, (largest,), (largest + 2,)]),
        counted=instance.cost.d0 > 0 and rng.random() < 0.5, knee_tokens=rng.randint(1, 5),
        excess_s=rng.choice([0.0, 0.0, 1e-4, 1e-3]), beyond_slope_s=rng.choice([0.0, 1e-4]),
        horizons=tuple(horizons),
    )  # fmt: skip


@pytest.mark.parametrize("first", range(0, 6 * BLOCK, BLOCK))
def test_no_prices_at_all_exceed_the_optimum(first: int) -> None:
    evaluated, closest = 0, 0.0
    for seed in range(first, first + BLOCK):
        rng = random.Random(seed)
        instance = random_plain(seed) if seed % 2 else random_instance(seed, most_output=5)
        if seed % 7 == 0:  # KV that comes back from host memory is no refill
            limits = msgspec.structs.replace(instance.limits, host_kv_tokens=5)
            instance = msgspec.structs.replace(instance, limits=limits)
        makespan_s, _ = optimum(instance)
        least = batch_count(instance).batches
        for _ in range(12):
            try:
                value = lagrangian_value(instance, drawn_pricing(rng, instance, least), least)
            except RefutedError:
                continue
            assert value <= makespan_s * UP_TO_ROUNDING, seed
            evaluated += 1
            closest = max(closest, float(value) / makespan_s)
    assert evaluated > 4 * BLOCK
    assert closest > 0.95


def test_more_effort_never_proves_less_and_a_target_ends_the_search() -> None:
    instance = uniform(48, 1, 24, 300)
    values = [lagrangian_bound(instance, effort=e).value_s for e in ("quick", "normal", "thorough")]
    assert values == sorted(values)
    assert values[0] > lower_bound(instance).value_s
    target = (lower_bound(instance).value_s + values[0]) / 2
    early = lagrangian_bound(instance, effort="thorough", target_s=target)
    assert target <= early.value_s <= values[2]


def test_what_other_bounds_prove_spares_hopeless_work() -> None:
    instance = uniform(48, 1, 24, 300)
    quick = lagrangian_bound(instance, effort="quick")
    spared = lagrangian_bound(instance, effort="thorough", known_s=2 * quick.value_s)
    assert spared.pricing == quick.pricing


def test_long_outputs_of_the_study() -> None:
    """1024 requests of 512 tokens: 1681 batches were known to be needed, 1692 to suffice."""
    instance = uniform(1024, 1, 512, 100_000)
    found = lagrangian_bound(instance, effort="quick")
    assert batch_count(instance).batches == 1394
    assert found.batches is not None
    assert 1630 <= found.batches <= 1692
    assert lower_bound(instance).value_s * 1.02 < found.value_s


def test_several_pieces_gain_where_outputs_are_long() -> None:
    instance = uniform(1024, 1, 512, 100_000, "llama2-7b-a100")
    found = lagrangian_bound(instance, effort="quick")
    assert found.value_s > 1.02 * lower_bound(instance).value_s
    assert found.batches is None


def test_a_mix_of_short_and_long_outputs() -> None:
    instance = mix(256, "SISO+SILO", kv_tokens=25_000)
    found = lagrangian_bound(instance, effort="quick")
    assert found.value_s > lower_bound(instance).value_s
    exact = lagrangian_value(instance, found.pricing, found.least_batches)
    assert found.value_s == pytest.approx(float(exact), rel=1e-12)


def test_many_prompt_sizes_share_evaluations_at_a_price() -> None:
    shapes = [(1 + k % 12, 48) for k in range(96)]
    instance = shaped(shapes, CostModel(pieces=((9e-3, 7e-5),), p_sq=2e-8), kv_tokens=1200)
    found = lagrangian_bound(instance, effort="quick")
    assert found.value_s > 1.01 * lower_bound(instance).value_s
    joint = msgspec.structs.replace(found.pricing, cells=(12,))
    shared = lagrangian_value(instance, joint, found.least_batches)
    assert 0.9 * found.value_s < shared <= found.value_s * UP_TO_ROUNDING
    many = demand(np.arange(1, 2000), np.full(1999, 5))
    cells = prompt_cells(many)
    assert len(cells) < 100
    assert cells[-1] == 1999


def refill_seconds(instance: Instance) -> list[float]:
    base = ground(instance, counted=False)
    assert base is not None
    return [excess / base.units.per_second for excess in base.refill]


def test_a_refill_may_end_as_a_decode() -> None:
    # Attention S^2 for a whole refill, (S - 1)^2 for one that ends as a decode, which is free.
    cost = CostModel(pieces=((1.0, 0.0),), p_sq=1.0)
    assert refill_seconds(shaped([(1, 4)], cost)) == [0, 0, 1, 4, 9]


def test_a_refill_that_gets_cheaper_is_priced_at_the_least_of_larger_sizes() -> None:
    cost = CostModel(pieces=((1.0, 0.0),), p_req=10.0, d_kv=1.0)
    assert refill_seconds(shaped([(1, 4)], cost)) == [0, 0, 7, 7, 7]  # 10 against a decode of 3


def test_kv_may_come_back_from_host_memory() -> None:
    cost = CostModel(pieces=((1.0, 0.0),), p_req=5.0, swap_tok=0.0625)
    instance = shaped([(1, 4)] * 2, cost, kv_tokens=5)
    limits = msgspec.structs.replace(instance.limits, host_kv_tokens=10)
    swapping = msgspec.structs.replace(instance, limits=limits)
    assert refill_seconds(swapping) == [0, 0, 0.125, 0.25, 0.375]
    found = lagrangian_bound(swapping)
    assert found.value_s <= optimum(swapping)[0] * UP_TO_ROUNDING


def test_without_prices_the_bound_is_that_of_the_batches() -> None:
    instance = shaped([(1, 4)] * 3, UNIT, kv_tokens=6)
    assert lagrangian_value(instance, NOTHING, 7) == 7
    assert optimum(instance)[0] == 7


def test_prices_for_a_known_optimum() -> None:
    """One price of memory that makes the area: 3 (1 + 2 + 3 + 4) = 30 tokens of 6 a batch."""
    instance = shaped([(1, 4)] * 3, UNIT, kv_tokens=6)
    horizon = PricedBatches(
        most_batches=12, bucket_batches=12, stride=1, unit_bits=40, memory=(2**40 // 6,),
        tokens=(0,), prefill=(0,), requests=(0,),
    )  # fmt: skip
    pricing = msgspec.structs.replace(NOTHING, horizons=(horizon,))
    assert float(lagrangian_value(instance, pricing, 1)) == pytest.approx(5)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"memory": (2**62,) * 12}, "64 bits"),
        ({"bucket_batches": 1, "most_batches": 2, "memory": (0, 0), "tokens": (0, 0),
          "prefill": (0, 0), "requests": (0, 0)}, "needs more batches"),
    ],
)  # fmt: skip
def test_prices_that_prove_nothing_are_refused(change: dict[str, object], why: str) -> None:
    instance = shaped([(1, 4)] * 3, UNIT, kv_tokens=6)
    nothing = (0,) * 12
    horizon = PricedBatches(
        most_batches=12, bucket_batches=1, stride=1, unit_bits=40, memory=nothing,
        tokens=nothing, prefill=nothing, requests=nothing,
    )  # fmt: skip
    changed = msgspec.structs.replace(horizon, **change)
    with pytest.raises(RefutedError, match=why):
        lagrangian_value(
            instance, msgspec.structs.replace(NOTHING, horizons=(changed,)), 1
        )  # fmt: skip


def test_prompts_without_a_cell_and_strides_within_a_page_are_refused() -> None:
    instance = shaped([(3, 2)] * 2, UNIT, kv_tokens=8, block_tokens=2)
    with pytest.raises(RefutedError, match="in no cell"):
        lagrangian_value(instance, msgspec.structs.replace(NOTHING, cells=(2,)), 1)
    horizon = PricedBatches(
        most_batches=4, bucket_batches=4, stride=1, unit_bits=10, memory=(1,), tokens=(0,),
        prefill=(0,), requests=(0,),
    )  # fmt: skip
    with pytest.raises(RefutedError, match="page size"):
        lagrangian_value(instance, msgspec.structs.replace(NOTHING, horizons=(horizon,)), 1)


def test_negative_prices_and_wrong_lengths_are_refused() -> None:
    def priced(memory: tuple[int, ...]) -> PricedBatches:
        zeros = (0,) * 2
        return PricedBatches(
            most_batches=8, bucket_batches=4, stride=2, unit_bits=10, memory=memory, tokens=zeros,
            prefill=zeros, requests=zeros,
        )  # fmt: skip

    assert priced((1, 2)).memory == (1, 2)
    with pytest.raises(InvalidInputError, match="memory"):
        priced((1, -2))
    with pytest.raises(InvalidInputError, match="memory"):
        priced((1, 2, 3))


def test_calls_are_refused() -> None:
    call = (Call(after_tokens=1, duration_s=0.1, response_tokens=2),)
    request = Request(id="a", prompt_tokens=2, output_tokens=3, calls=call)
    plain = shaped([(2, 3)])
    instance = Instance(name="c", limits=plain.limits, cost=plain.cost, requests=(request,))
    with pytest.raises(UnsupportedError, match="calls"):
        lagrangian_bound(instance)
    with pytest.raises(RefutedError, match="calls"):
        lagrangian_value(instance, NOTHING, 1)


def test_pricing_survives_json() -> None:
    found = lagrangian_bound(uniform(64, 1, 32, 700), effort="quick")
    text = msgspec.json.encode(found)
    assert msgspec.json.decode(text, type=type(found)) == found
