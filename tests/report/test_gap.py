"""The terms of a gap add up, and each is what it says."""

from __future__ import annotations

import pytest

from optsched.bounds import lower_bound
from optsched.instance import Instance
from optsched.io.generate import azure_like, uniform
from optsched.report import eviction_costs, explain_gap
from optsched.schedule import Kind, Schedule, from_steps
from optsched.simulate import loads, simulate
from optsched.warmstart import scheduler, schedulers
from tests.tiny import LINEAR, random_instance

P, E = int(Kind.PROCESS), int(Kind.EVICT)


def terms(instance: Instance, schedule: Schedule) -> dict[str, float]:
    trace, bound = simulate(instance, schedule), lower_bound(instance)
    found = explain_gap(instance, schedule, trace, bound)
    total = sum(t.seconds for t in found if t.part_of is None)
    assert total == pytest.approx(trace.makespan_s - bound.value_s, abs=1e-9 * trace.makespan_s)
    overhead = next((t.seconds for t in found if t.name == "batch overhead"), 0.0)
    parts = sum(t.seconds for t in found if t.part_of == "batch overhead")
    assert parts == pytest.approx(overhead, abs=1e-9 * trace.makespan_s)
    return {t.name: t.seconds for t in found}


@pytest.mark.parametrize("seed", range(80))
def test_terms_add_up(seed: int) -> None:
    instance = random_instance(seed, arrivals=seed % 3 == 0, tight=seed % 2 == 0, most_requests=4)
    for name in ("vllm", "sarathi", "mc-sf", "rank-i"):
        terms(instance, scheduler(name)(instance))


@pytest.mark.parametrize("name", list(schedulers()))
def test_on_a_workload(name: str) -> None:
    instance = azure_like(150, seed=1, kv_tokens=20_000)
    schedule = scheduler(name)(instance)
    found = terms(instance, schedule)
    assert ("refills" in found) == (schedule.evictions > 0)
    assert all(found.get(t, 0.0) >= -1e-9 for t in ("chunks", "uneven batches", "idle"))


def test_an_eviction_by_hand() -> None:
    # Two requests of I = 3, O = 3, M = 8: both fill (6), r1 is evicted while r0 decodes to its
    # end, and then refills its prompt and first token (4 tokens) instead of decoding.
    instance = uniform(2, 3, 3, kv_tokens=8)
    schedule = from_steps(
        [(0, P, 1, 3), (0, P, 2, 1), (0, P, 3, 1), (1, P, 1, 3), (1, E, 2, 0), (1, P, 3, 4),
         (1, P, 4, 1)]
    )  # fmt: skip
    cost = instance.cost
    beta = cost.pieces[0][1]
    refill = cost.p_sq * 16 + cost.p_req + 3 * beta
    decode = cost.d_kv * 3 + cost.d_req
    [eviction] = eviction_costs(instance, schedule)
    assert (eviction.request, eviction.batch, eviction.refilled_batch) == ("r1", 2, 3)
    assert eviction.tokens == 3
    assert eviction.seconds == pytest.approx(refill - decode)
    assert terms(instance, schedule)["refills"] == pytest.approx(refill - decode)


@pytest.mark.parametrize("seed", range(60))
def test_evictions_add_up_under_one_piece(seed: int) -> None:
    instance = random_instance(
        seed, cost=LINEAR, most_requests=4, most_prompt=8, most_output=6, tight=seed % 2 == 0
    )
    for name in ("vllm", "sarathi", "vllm-hy"):
        schedule = scheduler(name)(instance)
        costs = eviction_costs(instance, schedule)
        assert len(costs) == schedule.evictions
        tokens = int(loads(instance, schedule).refilled_tokens.sum())
        assert sum(e.tokens for e in costs) == tokens
        assert sum(e.seconds for e in costs) == pytest.approx(
            terms(instance, schedule).get("refills", 0.0), abs=1e-9
        )
