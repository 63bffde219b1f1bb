"""Prices of time and memory for requests with calls: whatever they are, they prove no more than the
optimum, and what is written down about them is checked."""

from __future__ import annotations

import random
from fractions import Fraction
from functools import cache
from pathlib import Path

import msgspec
import pytest

from optsched.bounds.clock import certify_clock, clock_bound
from optsched.bounds.clock.call_paces import call_paces
from optsched.bounds.clock.call_prices import CALL_PRICES, call_price_bounds
from optsched.bounds.clock.found import Question
from optsched.bounds.verify.clock.call_blocks import SECOND, Blocks
from optsched.bounds.verify.clock.call_prices import call_mean
from optsched.bounds.verify.verdict import verify
from optsched.certificate import Certificate
from optsched.cost import CostModel
from optsched.errors import InvalidInputError
from optsched.instance import Call, Instance, Limits, Request
from optsched.io import read_certificate, write_certificate
from optsched.objective import Objective
from optsched.time_pricing import CallPrices
from tests.bounds.clock.draw import random_paces
from tests.bounds.draw import odd_cost
from tests.oracle import optimum
from tests.tiny import random_cost, random_instance

ROUNDING = Fraction(1, 10**9)


def busy_cost(rng: random.Random) -> CostModel:
    """Work that takes long next to what a batch takes anyway, so that requests delay each other."""
    alpha = rng.choice([0.02, 0.1, 0.4])
    pieces = [(alpha, rng.uniform(0.5, 1.0))]
    if rng.random() < 0.5:
        pieces.append((alpha - rng.uniform(0, 1), pieces[0][1] + rng.uniform(0, 1)))
    return CostModel(
        pieces=tuple(pieces), d_kv=rng.choice([0.0, 0.1]), p_kv=rng.choice([0.0, 0.1]),
        p_sq=rng.choice([0.0, 0.05]), d_req=rng.choice([0.0, 0.2]), p0=rng.choice([0.0, 0.1]),
        d0=rng.choice([0.0, 0.1]), swap_tok=rng.choice([0.0, 0.05, 0.5]),
    )  # fmt: skip


def random_calls(seed: int) -> Instance:
    """A tiny instance with calls, over everything else that there is."""
    rng = random.Random(seed)
    busy = rng.random() < 0.6
    cost = busy_cost(rng) if busy else rng.choice([odd_cost, random_cost])(rng)
    requests, prompt, output = rng.choice([(2, 6, 5), (2, 4, 4), (3, 4, 3), (1, 6, 6)])
    if busy:
        requests, prompt, output = rng.choice([(3, 4, 3), (3, 6, 3)])
    instance = random_instance(
        seed, arrivals=rng.random() < 0.6 - 0.4 * busy, pages=rng.random() < 0.3, cost=cost,
        tight=rng.random() < 0.5 - 0.3 * busy, calls=True, host_room=rng.random() < 0.5,
        most_requests=requests, most_prompt=prompt, most_output=output,
    )  # fmt: skip
    if not busy:
        return instance
    # Pauses that are short next to the work, so that requests meet.
    shorter = rng.choice([0.0, 0.1, 1.0])
    return msgspec.structs.replace(instance, requests=tuple(
        msgspec.structs.replace(r, calls=tuple(
            msgspec.structs.replace(c, duration_s=shorter * c.duration_s) for c in r.calls
        )) for r in instance.requests
    ))  # fmt: skip


def best(instance: Instance) -> float:
    return optimum(instance, objective=Objective.MEAN_LATENCY)[0]


def random_prices(rng: random.Random, instance: Instance, scale_s: float) -> CallPrices:
    """Any prices at all, on any grid, about as long as ``scale_s``."""
    bits = max(4, int(scale_s * SECOND / rng.choice([1, 3, 10, 40])).bit_length() - 1)
    buckets = rng.randint(1, int(scale_s * SECOND / 2**bits) + 2)
    high = rng.choice([2**12, 2**14, 2**15, 2**16])
    tokens = rng.choice([0, 0, 2**31, 2**33, 2**34]) // instance.limits.kv_tokens
    paces = call_paces(instance) if rng.random() < 0.8 else random_paces(rng, instance)
    block, apart = rng.choice([1, 2, 5]), rng.choice([0, 2, 9])
    blocks = [Blocks(instance, paces, block, apart).of(r) for r in instance.requests]
    length, start = int(scale_s * SECOND), min(r.arrival_s for r in instance.requests)
    milestones = []
    for request, own in zip(instance.requests, blocks, strict=True):
        at = int((request.arrival_s - start) * SECOND)
        for each in own:
            at += each.pause + each.own
            milestones.append(at)
    # As many as there are, and fewer as they end; or anything.
    many = high * len(instance) if rng.random() < 0.7 else high
    machine = [rng.randint(0, high) for _ in range(buckets)]
    if rng.random() < 0.7:
        shape = rng.choice([0, 1])
        machine = [many * (buckets - shape * k) // buckets for k in range(buckets)]
    if rng.random() < 0.5:
        step, growth = length / rng.choice([20, 100, 400]), rng.choice([0.02, 0.3])
        edges = {0}
        while max(edges) < length:
            edges.add(int(max(edges) + max(step, growth * max(edges)) + 1))
        moves = {0, *(int(1.15**k) for k in range(60)), *range(-4, 0)}
    else:
        edges = {rng.randint(-length, length) >> rng.randint(0, 6) for _ in range(20)}
        moves = {rng.randint(-9, 9) for _ in range(rng.randint(1, 9))}
        milestones = [rng.randint(0, length) for _ in milestones]
    return CallPrices(
        bucket_bits=bits, machine=tuple(machine),
        memory=tuple(rng.choice([tokens, rng.randint(0, tokens)]) for _ in range(buckets)),
        paces=paces, block=block, apart=apart, milestones=tuple(milestones),
        edges=tuple(sorted(edges)), moves=tuple(sorted(moves)),
    )  # fmt: skip


@pytest.mark.parametrize("first", [0, 12])
def test_any_prices_are_below_the_optimum(first: int) -> None:
    for seed in range(first, first + 12):
        instance = random_calls(seed)
        value = Fraction(best(instance))
        for draw in range(3):
            rng = random.Random(100 * seed + draw)
            prices = random_prices(rng, instance, float(value) * rng.choice([0.5, 1.0, 1.5]))
            assert call_mean(instance, prices) <= value * (1 + ROUNDING), (seed, draw)


@pytest.mark.parametrize("first", [200])
def test_the_search_is_below_the_optimum_and_certified(first: int) -> None:
    for seed in range(first, first + 10):
        instance = random_calls(seed)
        bound = clock_bound(instance, Objective.MEAN_LATENCY, effort="quick")
        assert CALL_PRICES in bound.parts
        assert bound.value <= best(instance) * (1 + 1e-9), seed
        certificate = certify_clock(instance, bound)
        assert certificate.bound_s == pytest.approx(bound.value, rel=1e-9)
        assert verify(certificate).accepted


def busy() -> Instance:
    """Six requests with a call each that are there from the start, and much work for each token."""
    call = Call(after_tokens=3, duration_s=2.0, response_tokens=4)
    return Instance(
        name="busy", limits=Limits(kv_tokens=200, batch_tokens=64, host_kv_tokens=100),
        cost=CostModel(pieces=((0.05, 0.1),), d_kv=0.01, swap_tok=0.01),
        requests=tuple(
            Request(id=f"r{k}", prompt_tokens=12, output_tokens=8, calls=(call,)) for k in range(6)
        ),
    )  # fmt: skip


@cache
def certified() -> Certificate:
    """The bound by prices, whatever else may be better."""
    instance = busy()
    question = Question(
        instance=instance, objective=Objective.MEAN_LATENCY, effort="normal", deadline=1e18
    )
    (found,) = call_price_bounds(question).values()
    assert isinstance(found.argument, CallPrices)
    return Certificate(
        instance=instance, digest=instance.digest, objective=Objective.MEAN_LATENCY,
        bound_s=found.value * (1 - 1e-12), proof=CALL_PRICES, argument=found.argument,
    )  # fmt: skip


def test_prices_prove_more_than_each_alone() -> None:
    bound = clock_bound(busy(), Objective.MEAN_LATENCY, effort="normal")
    assert bound.parts[CALL_PRICES] > 1.2 * bound.parts["alone"]


def test_a_certificate_is_checked(tmp_path: Path) -> None:
    certificate = certified()
    argument = certificate.argument
    assert isinstance(argument, CallPrices)
    assert verify(certificate).accepted
    write_certificate(certificate, tmp_path / "certificate.json")
    assert verify(read_certificate(tmp_path / "certificate.json")).accepted

    def refused(**changes: object) -> str:
        changed = msgspec.structs.replace(argument, **changes)
        verdict = verify(msgspec.structs.replace(certificate, argument=changed))
        assert not verdict.accepted
        assert verdict.reason is not None
        return verdict.reason

    more = msgspec.structs.replace(certificate, bound_s=certificate.bound_s * (1 + 1e-6))
    assert "less than is claimed" in str(verify(more).reason)
    other = msgspec.structs.replace(certificate, objective=Objective.MEAN_TTFT)
    assert "mean latency only" in str(verify(other).reason)
    assert "milestone" in refused(milestones=argument.milestones[1:])
    assert "milestone" in refused(block=3)
    generous = tuple(
        msgspec.structs.replace(pace, pieces=tuple(1.1 * m for m in pace.pieces))
        for pace in argument.paces
    )
    assert "charges more than" in refused(paces=generous)
    assert "prices" in refused(machine=(2**39,) * len(argument.machine))
    assert "prices" in refused(memory=(2**39,) * len(argument.memory))
    assert "less than is claimed" in refused(machine=(0,) * len(argument.machine))


def changed(rng: random.Random, prices: CallPrices) -> CallPrices:
    """``prices`` that are higher or lower, on another grid."""
    factor, noise = rng.uniform(0.6, 1.1), rng.choice([0.0, 0.0, 0.5])
    shift = rng.choice([0, 0, rng.randint(-(2**20), 2**20)])
    worth = rng.choice([0, 0, 2**24, 2**30])
    return msgspec.structs.replace(
        prices,
        machine=tuple(int(p * factor * (1 - noise * rng.random())) for p in prices.machine),
        memory=tuple(rng.randint(0, worth) for _ in prices.memory),
        milestones=tuple(max(0, m + shift) for m in prices.milestones),
        edges=tuple(e + shift // 2 for e in prices.edges),
        moves=prices.moves[:: rng.choice([1, 1, 5])],
    )


def above_alone(seeds: range, each: int) -> int:
    """Asserts that prices near those of the search prove at most the optimum; how often they prove
    more than that each request has the machine alone."""
    above = 0
    for seed in seeds:
        instance = random_calls(seed)
        value = Fraction(best(instance))
        question = Question(
            instance=instance, objective=Objective.MEAN_LATENCY, effort="normal", deadline=1e18
        )
        prices = call_price_bounds(question)[CALL_PRICES].argument
        assert isinstance(prices, CallPrices)
        alone = clock_bound(instance, Objective.MEAN_LATENCY, effort="quick").parts["alone"]
        for draw in range(each):
            proven = call_mean(instance, changed(random.Random(100 * seed + draw), prices))
            assert proven <= value * (1 + ROUNDING), (seed, draw)
            above += proven > alone * (1 + ROUNDING)
    return above


def test_changed_prices_prove_at_most_the_optimum() -> None:
    assert above_alone(range(300, 310), 3) >= 3, "prices that prove nothing would pass"


def test_prices_say_what_memory_is_worth() -> None:
    prices = certified().argument
    assert isinstance(prices, CallPrices)
    memory = prices.memory_prices
    assert len(memory.prices) == len(prices.memory)
    assert memory.bucket_s == 2.0**prices.bucket_bits / SECOND
    one = msgspec.structs.replace(prices, memory=(2**34,) * len(prices.memory)).memory_prices
    assert set(one.prices) == {1.0}


def test_crafted_prices_are_refused_as_input() -> None:
    prices = certified().argument
    assert isinstance(prices, CallPrices)
    for changes in (
        {"machine": (-1, *prices.machine[1:])}, {"memory": ()}, {"edges": (3, 1)}, {"moves": ()},
        {"paces": ()}, {"block": 0}, {"milestones": (-1,) * len(prices.milestones)},
        {"bucket_bits": 1},
    ):  # fmt: skip
        with pytest.raises(InvalidInputError):
            msgspec.structs.replace(prices, **changes)
