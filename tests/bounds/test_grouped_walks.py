"""Closed walks over groups of stages (B4): below every optimum, and refuted where changed."""

from __future__ import annotations

import random
from fractions import Fraction

import msgspec
import numpy as np
import pytest

from optsched.bounds import lower_bound
from optsched.bounds.closed_walks import closed_walk_bound
from optsched.bounds.exact_walks import walk_value
from optsched.bounds.grouped_walks import grouped_walk_bound
from optsched.bounds.token_time import Line
from optsched.bounds.verify.refuted import RefutedError
from optsched.bounds.walk_ground import walk_ground
from optsched.bounds.walk_repair import ClosedWalkBound, rows_of
from optsched.errors import InvalidInputError
from optsched.instance import Instance
from optsched.io.generate import uniform
from optsched.walk_pricing import WalkPricing
from optsched.walks.sweeps import BatchPrices, after_a_batch
from tests.oracle import optimum
from tests.tiny import LINEAR, random_instance

UP_TO_ROUNDING = 1 + 1e-12
SECONDS = 60.0


def line_of(instance: Instance) -> Line:
    """The first piece of the batch-time law, which alone is below it."""
    alpha, beta = instance.cost.pieces[0]
    most = instance.limits.batch_tokens
    return Line(intercept_s=alpha, slope_s=beta, knee_tokens=most, excess_s=0.0)


def bound_of(instance: Instance, *widths: int, most_contents: int = 3000) -> ClosedWalkBound | None:
    return grouped_walk_bound(
        instance, line_of(instance), most_contents=most_contents, time_limit_s=SECONDS,
        widths=widths,
    )  # fmt: skip


def require_bound(instance: Instance, *widths: int) -> ClosedWalkBound:
    bound = bound_of(instance, *widths)
    assert bound is not None
    return bound


@pytest.mark.parametrize("width", [2, 3])
def test_below_the_optimum(width: int) -> None:
    tried, gained = 0, 0
    for seed in range(30):
        instance = random_instance(seed, cost=LINEAR, most_requests=4, most_output=5)
        bound = bound_of(instance, width, most_contents=random.Random(seed).choice([3000, 30]))
        if bound is None:
            continue
        makespan_s, _ = optimum(instance)
        exact = walk_value(instance, bound.pricing)
        assert Fraction(bound.value_s) <= exact <= Fraction(bound.value_s) + Fraction(1, 10**9)
        assert float(exact) <= makespan_s * UP_TO_ROUNDING, instance
        tried += 1
        gained += bound.value_s > lower_bound(instance).value_s * (1 + 1e-9)
    assert tried >= 10
    assert gained >= 1, "it never proved more than the other bounds"


def test_groups_of_one_stage_prove_what_the_linear_program_proves() -> None:
    instance = uniform(1024, 32, 8, kv_tokens=100)
    exact = closed_walk_bound(instance, time_limit_s=SECONDS)
    assert exact is not None
    assert exact.left_out == 0
    assert require_bound(instance, 1).value_s == pytest.approx(exact.value_s, rel=3e-4)


def test_narrower_groups_prove_more_and_need_fewer_contents_than_stages() -> None:
    instance = uniform(1024, 32, 16, kv_tokens=140)
    wide, narrow = require_bound(instance, 8), require_bound(instance, 8, 2)
    exact = closed_walk_bound(instance, time_limit_s=SECONDS)
    assert exact is not None
    assert exact.left_out == 0
    assert lower_bound(instance).value_s < wide.value_s < narrow.value_s <= exact.value_s
    assert wide.contents < narrow.contents < exact.contents


def test_many_small_requests_leave_small_stages_out() -> None:
    instance = uniform(1024, 1, 16, kv_tokens=40)
    bound = require_bound(instance, 4)
    assert bound.left_out > 0
    assert bound.value_s > lower_bound(instance).value_s * 1.005
    assert Fraction(bound.value_s) <= walk_value(instance, bound.pricing)


def test_where_groups_do_not_apply() -> None:
    pages = msgspec.structs.replace(uniform(8, 32, 8, kv_tokens=64).limits, block_tokens=4)
    instance = msgspec.structs.replace(uniform(8, 32, 8, kv_tokens=64), limits=pages)
    assert bound_of(instance, 2) is None
    assert bound_of(uniform(8, 1, 32, kv_tokens=100_000), 2) is None


def test_a_changed_number_is_refuted_or_proves_no_more_than_the_optimum() -> None:
    rng = random.Random(3)
    refuted = accepted = 0
    for seed in range(30):
        instance = random_instance(seed, cost=LINEAR, most_requests=3, most_output=5)
        bound = bound_of(instance, 2)
        if bound is None:
            continue
        makespan_s, _ = optimum(instance)
        for _ in range(12):
            try:
                value = walk_value(instance, changed(bound.pricing, rng))
            except (RefutedError, InvalidInputError):
                refuted += 1
            else:
                accepted += 1
                assert float(value) <= makespan_s * UP_TO_ROUNDING, instance
    assert refuted >= 30
    assert accepted >= 30


def changed(pricing: WalkPricing, rng: random.Random) -> WalkPricing:
    """``pricing`` with one number changed, by a little or a lot."""
    change = rng.choice([-1, 1]) * 2 ** rng.randint(0, pricing.unit_bits)
    name = rng.choice(["followed", "later", "potentials", "growth", "widths"])
    if name == "growth":
        return replaced(pricing, growth=max(0, pricing.growth + change))
    if name == "potentials":
        numbers = list(pricing.potentials)
        numbers[rng.randrange(len(numbers))] += change
        return replaced(pricing, potentials=tuple(numbers))
    parts = [list(own) for own in getattr(pricing, name)]
    own = rng.choice(parts)
    own[rng.randrange(len(own))] += rng.choice([-1, 1]) if name == "widths" else change
    return replaced(pricing, **{name: tuple(tuple(own) for own in parts)})


def replaced(pricing: WalkPricing, **fields: object) -> WalkPricing:
    """``pricing`` with other fields, validated."""
    return WalkPricing(**{**msgspec.structs.asdict(pricing), **fields})


@pytest.mark.parametrize("widths", [(2, 3, 3), (1, 3, 4), (1,) * 8])
def test_one_pass_covers_every_batch(widths: tuple[int, ...]) -> None:
    instance = uniform(8, 5, 8, kv_tokens=37)
    rows = rows_of(walk_ground(instance, [0], 0.009, 7e-5, 40, [widths]))
    group = [(k, within) for k, width in enumerate(widths) for within in range(width)]
    rng = random.Random(1)
    numbers = np.random.default_rng(1)
    phi = numbers.integers(-1000, 1000, size=rows.fits.shape)
    first, later = numbers.integers(-300, 300, size=(2, len(widths)))
    fill = tuple(numbers.integers(-300, 600, size=width) for width in widths)
    nothing = np.zeros(rows.fits.shape, dtype=np.int64)
    moves = BatchPrices(first=first, later=later, fill=fill, batch=nothing)
    after = after_a_batch(rows, phi, moves)
    places = {
        tuple(k for k in items if k >= 0): row
        for row, items in enumerate(rows.contents.items.tolist())
    }

    def at(values: np.ndarray, stages: list[int]) -> int:
        kinds = tuple(sorted(group[stage][0] for stage in stages))
        return int(values[places[kinds], sum(group[stage][1] for stage in stages)])

    batches, closest = 0, 10**6
    while batches < 4000:
        before = [rng.randrange(8) for _ in range(rng.randint(0, 4))]
        decodes = [stage + 1 for stage in before if stage < 7 and rng.random() < 0.5]
        held = list(before)
        for stage in decodes:
            held.remove(stage - 1)
        held = [stage for stage in held if rng.random() < 0.5]
        fills = [rng.randrange(8) for _ in range(rng.randint(0, 2))]
        reached = [*held, *decodes, *fills]
        if max(sum(5 + stage for stage in own) for own in (before, reached)) > 37:
            continue
        batches += 1
        cost = sum(int(fill[group[stage][0]][group[stage][1]]) for stage in fills)
        for stage in decodes:
            kind, within = group[stage]
            cost -= int(later[kind] if within else first[kind])
        slack = at(phi, before) + cost - at(after, reached)
        assert slack >= 0, (before, held, decodes, fills)
        closest = min(closest, slack)
    assert closest <= 50, "no batch comes near to the best one"
