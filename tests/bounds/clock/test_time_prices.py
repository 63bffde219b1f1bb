"""Prices of time: whatever they are, they prove no more than the optimum; and what is refused."""

from __future__ import annotations

import random
from fractions import Fraction

import msgspec
import pytest

from optsched.bounds.clock.entry import clock_bound
from optsched.bounds.clock.pace_choice import PaceOptions, paces_for
from optsched.bounds.clock.time_prices import PRICES
from optsched.bounds.verify.clock.paces import paces_of
from optsched.bounds.verify.clock.time_prices import priced_mean
from optsched.bounds.verify.refuted import RefutedError
from optsched.cost import CostModel
from optsched.errors import InvalidInputError
from optsched.instance import Call, Instance, Limits, Request
from optsched.io.generate import azure_like, mix
from optsched.objective import Objective
from optsched.simulate import objective_value, simulate
from optsched.time_pricing import TimePrices
from optsched.warmstart import scheduler
from tests.bounds.clock.draw import best, random_clock, random_paces

ROUNDING = Fraction(1, 10**9)


def random_prices(rng: random.Random, instance: Instance) -> TimePrices:
    """Any prices at all, on any cells, with any classes."""
    optimum = best(instance, Objective.MEAN_LATENCY)
    cells = rng.choice([1, 3, 10, 40, 200])
    knots = sorted({0, cells, *(rng.randrange(cells + 1) for _ in range(rng.randint(0, 6)))})
    high = rng.choice([1, 300, 3 * 256])
    prices = [rng.randint(0, high) for _ in knots]
    if rng.random() < 0.5:
        prices.sort(reverse=True)
    outputs = {r.output_tokens for r in instance.requests}
    finals = {r.final_tokens for r in instance.requests}
    kept = {n for n in outputs if n == min(outputs) or rng.random() < 0.7}
    between = {f for f in finals if f in (min(finals), max(finals)) or rng.random() < 0.5}
    blocks = {n for n in range(1, max(outputs) + 2) if rng.random() < 0.5}
    good = rng.random() < 0.5
    options = PaceOptions(levels=rng.randint(1, 8), memory_from=rng.uniform(0.5, 1.2))
    return TimePrices(
        cell_s=optimum * rng.choice([0.5, 2.0, 4.0]) / cells, knots=tuple(knots),
        prices=tuple(prices), price_bits=8,
        paces=paces_for(instance, options) if good else random_paces(rng, instance),
        finals=tuple(sorted(between)), outputs=tuple(sorted(kept)),
        blocks=tuple(sorted({0} | blocks)),
    )  # fmt: skip


@pytest.mark.parametrize("first", range(0, 160, 40))
def test_any_prices_are_below_the_optimum(first: int) -> None:
    positive = 0
    for seed in range(first, first + 40):
        instance = random_clock(seed)
        optimum = Fraction(best(instance, Objective.MEAN_LATENCY))
        for draw in range(6):
            prices = random_prices(random.Random(10 * seed + draw), instance)
            proven = priced_mean(instance, prices)
            assert proven <= optimum * (1 + ROUNDING), (seed, draw)
            positive += proven > 0
    assert positive >= 60, "prices that prove nothing would pass"


def test_any_prices_are_below_the_optimal_ttft() -> None:
    for seed in range(200, 240):
        instance = random_clock(seed)
        optimum = Fraction(best(instance, Objective.MEAN_TTFT))
        for draw in range(4):
            prices = random_prices(random.Random(10 * seed + draw), instance)
            proven = priced_mean(instance, prices, first=1, whole=0)
            assert proven <= optimum * (1 + ROUNDING), (seed, draw)


def test_the_search_beats_the_bound_without_residence() -> None:
    instance = mix(64, "SISO+LILO", kv_tokens=20_000)
    parts = clock_bound(instance, Objective.MEAN_LATENCY, effort="quick").parts
    value = objective_value(
        instance, simulate(instance, scheduler("shortest-work")(instance)), Objective.MEAN_LATENCY
    )
    assert parts[PRICES] <= value
    assert parts[PRICES] > 1.05 * parts["B6 k-th times"]


def test_arrivals_of_many_sizes() -> None:
    instance = azure_like(150, kv_tokens=30_000)
    bound = clock_bound(instance, Objective.MEAN_LATENCY, effort="normal")
    value = objective_value(
        instance, simulate(instance, scheduler("shortest-work")(instance)), Objective.MEAN_LATENCY
    )
    assert 0 < bound.parts[PRICES] <= value


def prices_of_two() -> tuple[Instance, TimePrices]:
    instance = Instance(
        name="two", limits=Limits(kv_tokens=20, batch_tokens=20),
        cost=CostModel(pieces=((1.0, 0.125),)),
        requests=tuple(Request(id=n, prompt_tokens=3, output_tokens=4) for n in "ab"),
    )  # fmt: skip
    prices = TimePrices(
        cell_s=0.125, knots=(0, 100), prices=(512, 0), price_bits=8,
        paces=paces_for(instance, PaceOptions(levels=3)), finals=(6,), outputs=(4,),
        blocks=(0, 1, 2, 3),
    )  # fmt: skip
    return instance, prices


def test_paces_that_charge_too_much_are_refused() -> None:
    instance, prices = prices_of_two()
    assert priced_mean(instance, prices) > 0
    last = prices.paces[-1]
    for wrong in (
        msgspec.structs.replace(last, memory_s=last.memory_s * 1.01),
        msgspec.structs.replace(last, pieces=(1.01,)),
        msgspec.structs.replace(last, pieces=(0.5, 0.5)),
    ):
        paces = (*prices.paces[:-1], wrong)
        with pytest.raises(RefutedError, match="pace"):
            paces_of(instance.cost, instance.limits, paces)
    with pytest.raises(RefutedError, match="shortest batch"):
        paces_of(instance.cost, instance.limits, prices.paces[1:])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"finals": (5,)}, "final KV size"),
        ({"finals": (7, 9)}, "final KV size"),
        ({"outputs": (5,)}, "output length"),
        ({"prices": (2**40, 0)}, "too high"),
        ({"cell_s": 1e-9}, "cells"),
    ],
)
def test_prices_that_do_not_fit_are_refused(change: dict[str, object], reason: str) -> None:
    instance, prices = prices_of_two()
    with pytest.raises(RefutedError, match=reason):
        priced_mean(instance, msgspec.structs.replace(prices, **change))


def test_calls_are_refused() -> None:
    instance, prices = prices_of_two()
    call = Call(after_tokens=1, duration_s=1.0, response_tokens=1)
    first, second = instance.requests
    calling = msgspec.structs.replace(first, calls=(call,))
    instance = msgspec.structs.replace(instance, requests=(calling, second))
    with pytest.raises(RefutedError, match="calls"):
        priced_mean(instance, prices)


@pytest.mark.parametrize(
    "change", [{"knots": (1, 100)}, {"prices": (1,)}, {"prices": (-1, 0)}, {"cell_s": 0.0},
               {"blocks": (1, 2)}, {"outputs": ()}]
)  # fmt: skip
def test_malformed_prices(change: dict[str, object]) -> None:
    _, prices = prices_of_two()
    with pytest.raises(InvalidInputError):
        TimePrices(**{**msgspec.structs.asdict(prices), **change})  # type: ignore[arg-type]
