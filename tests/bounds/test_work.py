"""B0: the cheapest chunking of a fill and the cheapest way to each token."""

from __future__ import annotations

import random

import numpy as np
import pytest

from optsched.bounds import work
from optsched.bounds.events import token_runs
from optsched.bounds.token_time import Line, lines, token_law
from optsched.bounds.work import StepLaw, no_share, run_work, step_law
from optsched.cost import CostModel
from optsched.errors import UnsupportedError
from optsched.instance import Call, Instance, Limits, Request
from optsched.io.presets import preset
from tests.bounds.draw import odd_cost
from tests.oracle_by_the_rules import known
from tests.tiny import LINEAR, random_cost


def cheapest_chunks(law: StepLaw, size: int, cached: int) -> float:
    """Least time of prefill steps from ``cached`` to ``size``, by trying all chunkings."""
    best = {cached: 0.0}
    for upto in range(cached + 1, size + 1):
        best[upto] = min(
            best[m]
            + law.token_s * (upto - m)
            + float(law.cost.prefill_time(upto - m, m))
            + law.excess_s * max(0, upto - m - law.knee_tokens)
            for m in range(max(cached, upto - law.fill_tokens), upto)
        )
    return best[size]


def fill(law: StepLaw, size: int, cached: int = 0) -> float:
    return float(law.fill_s(np.array([size]), np.array([cached]))[0])


@pytest.mark.parametrize("seed", range(60))
def test_a_fill_costs_no_more_than_its_cheapest_chunking(seed: int) -> None:
    rng = random.Random(seed)
    law = StepLaw(
        cost=odd_cost(rng), fill_tokens=rng.randint(1, 12), token_s=rng.choice([0.0, 1e-3]),
        knee_tokens=rng.randint(1, 6), excess_s=rng.choice([0.0, 1e-4, 5e-3]),
    )  # fmt: skip
    for size in range(1, 15):
        for cached in range(size):
            assert fill(law, size, cached) <= cheapest_chunks(law, size, cached) + 1e-12


@pytest.mark.parametrize("seed", range(30))
def test_a_telescoping_fill_costs_exactly_its_cheapest_chunking(seed: int) -> None:
    rng = random.Random(seed)
    law = StepLaw(cost=random_cost(rng), fill_tokens=rng.randint(1, 12), token_s=1e-3)
    for size in range(1, 15):
        assert fill(law, size) == pytest.approx(cheapest_chunks(law, size, 0))
        assert fill(law, size, size // 2) == pytest.approx(cheapest_chunks(law, size, size // 2))


def test_rereads_are_exact_where_chunks_fill_up_to_the_knee() -> None:
    cost = CostModel(pieces=((1e-3, 1e-3),), p_kv=1e-5, p_req=2e-5)
    law = StepLaw(cost=cost, fill_tokens=100, token_s=0.0, knee_tokens=4, excess_s=7e-5)
    for size in range(1, 41):
        assert fill(law, size) == pytest.approx(cheapest_chunks(law, size, 0))
    assert fill(law, 40) > cost.p_req + 1e-4  # and charge more than one free chunk


def test_rereads_never_lower_a_bound() -> None:
    cost = preset("llama2-7b-a100").cost
    limits = Limits(kv_tokens=100_000, batch_tokens=4096)
    size = np.arange(1, 5000)
    nothing = np.zeros_like(size)
    for line in lines(token_law(cost, 4096)):
        plain = step_law(cost, limits, line).fill_s(size, nothing)
        assert np.all(step_law(cost, limits, line, rereads=True).fill_s(size, nothing) >= plain)


def cheapest_events(instance: Instance, law: StepLaw) -> float:
    """W by definition: for each token the cheapest of appending and refilling, in chunks whose
    last may be a decode."""
    total = 0.0
    for request in instance.requests:
        before = 0
        for made in range(request.output_tokens):
            size = known(request, made)
            ways = [cheapest_chunks(law, size, 0)]
            if made:
                decode = law.token_s + float(law.cost.decode_time(size - 1))
                ways += [decode] if size == before + 1 else [cheapest_chunks(law, size, before)]
                for start in {0, before} if size - 1 > before else {0}:
                    ways.append(cheapest_chunks(law, size - 1, start) + decode)
            total += min(ways)
            before = size
    return total


def some_requests(calls: tuple[Call, ...] = ()) -> tuple[Request, ...]:
    return (
        Request(id="a", prompt_tokens=5, output_tokens=6, calls=calls),
        Request(id="b", prompt_tokens=1, output_tokens=1),
        Request(id="c", prompt_tokens=9, output_tokens=3),
    )


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("response", [None, 0, 1, 4])
def test_work_is_the_sum_of_the_cheapest_ways(seed: int, response: int | None) -> None:
    calls = (
        ()
        if response is None
        else (Call(after_tokens=2, duration_s=1.0, response_tokens=response),)
    )
    instance = Instance(
        name="w", limits=Limits(kv_tokens=100, batch_tokens=random.Random(seed).randint(1, 8)),
        cost=random_cost(random.Random(seed)), requests=some_requests(calls),
    )  # fmt: skip
    law = StepLaw(cost=instance.cost, fill_tokens=instance.limits.fill_tokens, token_s=1e-4)
    runs = token_runs(instance)
    found = float(run_work(runs, law, no_share(runs)).sum())
    assert found == pytest.approx(cheapest_events(instance, law))


def test_work_under_the_study_law() -> None:
    # One fill of 8 tokens and three decodes: 11 tokens in all.
    request = Request(id="a", prompt_tokens=8, output_tokens=4)
    instance = Instance(
        name="w", limits=Limits(kv_tokens=16, batch_tokens=16), cost=LINEAR, requests=(request,)
    )
    assert work(instance) == pytest.approx(11 * 7e-5 + 2e-8 * 64 + 5e-5 + 3e-7 * (8 + 9 + 10))


def test_work_takes_a_refill_where_decoding_is_dearer() -> None:
    cost = CostModel(pieces=((1.0, 0.0),), d_req=10.0, p_req=3.0)
    requests = (Request(id="a", prompt_tokens=2, output_tokens=3),)
    instance = Instance(
        name="w", limits=Limits(kv_tokens=8, batch_tokens=8), cost=cost, requests=requests
    )
    assert work(instance) == 9.0


def test_several_pieces_have_no_single_work() -> None:
    instance = Instance(
        name="w", limits=Limits(kv_tokens=8, batch_tokens=8),
        cost=CostModel(pieces=((1.0, 0.0), (0.0, 1.0))), requests=some_requests()[1:2],
    )  # fmt: skip
    with pytest.raises(UnsupportedError, match="2"):
        work(instance)


def test_a_line_without_rereads_has_no_excess() -> None:
    line = Line(intercept_s=0.0, slope_s=1.0, knee_tokens=1, excess_s=5.0)
    limits = Limits(kv_tokens=100, batch_tokens=100)
    assert step_law(LINEAR, limits, line).excess_s == 0
    assert step_law(LINEAR, limits, line, rereads=True).excess_s == 5.0
