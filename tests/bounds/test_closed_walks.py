"""Closed walks (B4): below every optimum, equal to known ones, and refuted where changed."""

from __future__ import annotations

import random
from fractions import Fraction

import msgspec
import pytest

from optsched.bounds import lower_bound
from optsched.bounds.closed_walks import ClosedWalkBound, closed_walk_bound
from optsched.bounds.exact_walks import contents, walk_value
from optsched.bounds.verify.refuted import RefutedError
from optsched.bounds.walk_ground import walk_ground
from optsched.bounds.walk_repair import rows_of
from optsched.instance import Call, Instance, Request
from optsched.io.generate import uniform
from optsched.simulate import simulate
from optsched.walk_pricing import WalkPricing
from optsched.warmstart import scheduler
from tests.bounds.draw import random_augmented, random_plain
from tests.oracle import optimum
from tests.tiny import LINEAR, random_instance

UP_TO_ROUNDING = 1 + 1e-12
MOST_STATES = (3000, 30, 8)  # everything followed; small stages left out; hardly anything followed


def require_below(instance: Instance, makespan_s: float) -> float:
    """Check the bound at every detail, in doubles and exactly; returns how close the best is."""
    closest = 0.0
    for most_states in MOST_STATES:
        bound = closed_walk_bound(instance, time_limit_s=60, most_states=most_states)
        if bound is None:
            continue
        exact = walk_value(instance, bound.pricing)
        assert bound.contents <= most_states
        assert Fraction(bound.value_s) <= exact <= Fraction(bound.value_s) + Fraction(1, 10**9)
        assert float(exact) <= makespan_s * UP_TO_ROUNDING, (most_states, instance)
        closest = max(closest, float(exact) / makespan_s)
    assert closest > 0, "nothing was proved at any detail"
    return closest


@pytest.mark.parametrize("first", range(0, 240, 40))
def test_below_the_optimum_over_all_features(first: int) -> None:
    for seed in range(first, first + 40):
        instance = random_plain(seed)
        require_below(instance, optimum(instance)[0])


@pytest.mark.parametrize("first", range(0, 160, 40))
def test_below_the_optimum_and_often_equal_under_the_linear_law(first: int) -> None:
    closeness, gained = [], 0
    for seed in range(first, first + 40):
        instance = random_instance(seed, cost=LINEAR, most_requests=4, most_output=5)
        makespan_s, _ = optimum(instance)
        closeness.append(require_below(instance, makespan_s))
        gained += closeness[-1] * makespan_s > lower_bound(instance).value_s * (1 + 1e-9)
    assert sum(value > 1 - 1e-9 for value in closeness) >= 10
    assert gained >= 1, "it never proved more than the other bounds"


@pytest.mark.parametrize("outputs", [(4, 4), (3, 5), (2, 4)])
@pytest.mark.parametrize("prompts", [(3, 3), (2, 5), (6, 1)])
def test_below_the_optimum_of_two_types(prompts: tuple[int, int], outputs: tuple[int, int]) -> None:
    requests = tuple(
        Request(id=f"r{i}", prompt_tokens=prompts[i % 2], output_tokens=outputs[i % 2])
        for i in range(4)
    )
    largest = max(r.final_tokens for r in requests)
    limits = random_instance(0).limits
    for kv_tokens in (largest, largest + 2, 2 * largest):
        instance = Instance(
            name="two-types", cost=LINEAR, requests=requests,
            limits=msgspec.structs.replace(limits, kv_tokens=kv_tokens),
        )  # fmt: skip
        require_below(instance, optimum(instance)[0])


def test_below_the_optimum_with_swapping() -> None:
    with_host_memory = 0
    for seed in range(150):
        instance = random_augmented(seed)
        if not instance.has_calls:
            with_host_memory += instance.limits.host_kv_tokens > 0
            require_below(instance, optimum(instance)[0])
    assert with_host_memory >= 10


@pytest.mark.parametrize(
    ("shape", "optimum_s"),
    [
        ((12, 32, 12, 64), 1.294244),
        ((16, 64, 16, 128), 2.364465),
        ((32, 64, 32, 128), 9.386057),
    ],
)
def test_equal_to_known_optima(shape: tuple[int, int, int, int], optimum_s: float) -> None:
    requests, prompt, output, kv_tokens = shape
    instance = uniform(requests, prompt, output, kv_tokens=kv_tokens)
    bound = require_bound(instance)
    assert bound.value_s == pytest.approx(optimum_s, abs=1e-6)
    assert bound.value_s > lower_bound(instance).value_s


def test_proves_an_evicting_schedule_of_1024_requests_optimal_within_a_ten_thousandth() -> None:
    instance = uniform(1024, 48, 32, kv_tokens=100)
    bound = require_bound(instance)
    makespan_s = float(simulate(instance, scheduler("vllm")(instance)).end_s[-1])
    assert bound.value_s == pytest.approx(286.44, abs=0.005)
    assert bound.value_s <= makespan_s <= bound.value_s * 1.0001


def test_is_nine_percent_above_the_area_where_three_requests_fit() -> None:
    bound = require_bound(uniform(1024, 32, 32, kv_tokens=100))
    assert bound.value_s == pytest.approx(159.19, abs=0.005)


def test_followed_stages_add_to_what_small_ones_prove() -> None:
    instance = uniform(1024, 32, 32, kv_tokens=100)
    values = []
    for most_states in (40, 100, 200, 400):
        bound = closed_walk_bound(instance, time_limit_s=60, most_states=most_states)
        assert bound is not None
        values.append(bound.value_s)
    assert values == sorted(values)
    assert values[0] < values[-1]


def test_a_changed_number_is_refuted_or_proves_no_more_than_the_optimum() -> None:
    rng = random.Random(7)
    refuted = accepted = 0
    for seed in range(60):
        instance = random_instance(seed, cost=LINEAR)
        makespan_s, _ = optimum(instance)
        bound = closed_walk_bound(instance, time_limit_s=60, most_states=rng.choice(MOST_STATES))
        for _ in range(8 if bound else 0):
            assert bound is not None
            try:
                value = walk_value(instance, changed(bound, rng))
            except RefutedError:
                refuted += 1
            else:
                accepted += 1
                assert float(value) <= makespan_s * UP_TO_ROUNDING, instance
    assert refuted >= 50
    assert accepted >= 50


def changed(bound: ClosedWalkBound, rng: random.Random) -> WalkPricing:
    """The pricing of ``bound`` with one number changed, by a little or a lot."""
    pricing = bound.pricing
    change = rng.choice([-1, 1]) * 2 ** rng.randint(0, pricing.unit_bits)
    name = rng.choice(["small", "followed", "potentials"])
    if name == "potentials":
        place = rng.randrange(len(pricing.potentials))
        numbers = list(pricing.potentials)
        numbers[place] += change
        return msgspec.structs.replace(pricing, potentials=tuple(numbers))
    prices = [list(own) for own in getattr(pricing, name)]
    own = rng.choice(prices)
    if own:
        place = rng.randrange(len(own))
        own[place] = own[place] + change if name == "followed" else max(0, own[place] + change)
    return msgspec.structs.replace(pricing, **{name: tuple(tuple(own) for own in prices)})


def test_a_line_above_the_law_and_a_missing_potential_are_refuted() -> None:
    instance = uniform(8, 32, 8, kv_tokens=64)
    pricing = require_bound(instance).pricing
    steeper = msgspec.structs.replace(pricing, intercept_s=pricing.intercept_s * 1.01)
    with pytest.raises(RefutedError, match="not below the batch-time law"):
        walk_value(instance, steeper)
    fewer = msgspec.structs.replace(pricing, potentials=pricing.potentials[:-1])
    with pytest.raises(RefutedError, match="a content has no potential"):
        walk_value(instance, fewer)
    more = msgspec.structs.replace(pricing, potentials=(*pricing.potentials, 0))
    with pytest.raises(RefutedError, match="more potentials than contents"):
        walk_value(instance, more)
    with pytest.raises(RefutedError, match="do not fit the types"):
        walk_value(uniform(8, 32, 9, kv_tokens=64), pricing)


@pytest.mark.parametrize("left_out", [0, 2])
def test_both_enumerations_find_the_same_contents_in_the_same_order(left_out: int) -> None:
    instance = uniform(8, 5, 6, kv_tokens=31)
    ground = walk_ground(instance, [left_out], 0.0, 0.0, 40)
    states = rows_of(ground).contents
    pages = [kind.pages for kind in ground.kinds]
    expected = list(contents(pages, ground.cap))
    found = [tuple(k for k in row if k >= 0) for row in states.items[states.lexicographic].tolist()]
    assert found == expected
    assert [ground.cap - sum(pages[k] for k in content) for content in expected] == states.free[
        states.lexicographic
    ].tolist()


def test_gives_up_where_walks_do_not_apply() -> None:
    many = uniform(32, 1, 32, kv_tokens=100_000)
    assert closed_walk_bound(many, time_limit_s=60) is None
    call = Call(after_tokens=1, duration_s=0.1, response_tokens=2)
    calling = Instance(
        name="calling", limits=many.limits, cost=LINEAR,
        requests=(Request(id="r0", prompt_tokens=3, output_tokens=3, calls=(call,)),),
    )  # fmt: skip
    assert closed_walk_bound(calling, time_limit_s=60) is None


def require_bound(instance: Instance) -> ClosedWalkBound:
    """The bound, checked exactly."""
    bound = closed_walk_bound(instance, time_limit_s=60)
    assert bound is not None
    exact = walk_value(instance, bound.pricing)
    assert Fraction(bound.value_s) <= exact <= Fraction(bound.value_s) + Fraction(1, 10**9)
    return bound
