"""Horizons and milestones: they hold for optimal schedules, and each argument is what it says."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest

from optsched.cost import CostModel
from optsched.errors import InfeasibleError, InvalidInputError
from optsched.instance import Instance, Limits, Request
from optsched.model.completion_batches import completion_batches
from optsched.model.horizon import batch_horizon
from optsched.model.milestones import earliest_batches, earliest_ends
from optsched.objective import Objective
from optsched.simulate import simulate
from tests.oracle import optimum
from tests.tiny import random_instance

UNIT = CostModel(pieces=((1.0, 0.0),))
EVERY = (Objective.MAKESPAN, Objective.MEAN_LATENCY, Objective.MAX_LATENCY)


def _instance(*requests: tuple[int, int, float], **limits: int) -> Instance:
    return Instance(
        name="horizon",
        limits=Limits(**{"kv_tokens": 12, "batch_tokens": 12, **limits}),
        cost=UNIT,
        requests=tuple(
            Request(id=f"r{i}", prompt_tokens=prompt, output_tokens=output, arrival_s=arrival)
            for i, (prompt, output, arrival) in enumerate(requests)
        ),
    )


@pytest.mark.parametrize("seed", range(40))
def test_optimal_schedules_chunked_or_not_keep_to_horizons_and_milestones(seed: int) -> None:
    instance = random_instance(
        seed, most_output=3, arrivals=seed % 2 == 0, tight=seed % 3 == 0, pages=seed % 5 == 0
    )
    objective = list(Objective)[seed % 4]
    policies = ["no-evict"] if seed % 7 == 0 else []
    value, best = optimum(instance, policies, objective=objective)
    trace = simulate(instance, best)
    for first_tokens, times in ((True, trace.first_token_s), (False, trace.finish_s)):
        floors = earliest_ends(instance, first_tokens=first_tokens)
        assert (floors <= np.sort(times) * (1 + 1e-9)).all()
        batches = np.searchsorted(trace.end_s, np.sort(times) * (1 - 1e-12)) + 1
        assert (earliest_batches(instance, first_tokens=first_tokens) <= batches).all()
    horizon = batch_horizon(instance, objective, value, unchunked=False, policies=policies)
    assert horizon.rigorous
    if objective in EVERY:
        assert best.batch_count <= horizon.batches


def test_no_schedule_has_a_value_below_what_milestones_say() -> None:
    # Two fills of 8 of 12 tokens, one after the other: first tokens after 1 s and 2 s.
    instance = _instance((8, 1, 0.0), (8, 1, 0.0))
    for objective in (Objective.MEAN_LATENCY, Objective.MEAN_TTFT):
        assert batch_horizon(instance, objective, 1.5, unchunked=False).batches == 2
        with pytest.raises(InvalidInputError, match=r"at least 1\.5 s, which no schedule"):
            batch_horizon(instance, objective, 1.4, unchunked=False)
    for objective in (Objective.MAKESPAN, Objective.MAX_LATENCY):
        with pytest.raises(InvalidInputError, match=f"{objective.value}: got 0.5"):
            batch_horizon(instance, objective, 0.5, unchunked=False)


@pytest.mark.parametrize(
    ("objective", "cutoff", "batches", "reason"),
    [
        (Objective.MAKESPAN, 7.5, 7, "bounds the makespan"),
        # The last arrival is at 2 s.
        (Objective.MAX_LATENCY, 5.5, 7, "bounds the makespan"),
        # Ends sum to at most 12 + 2 s, and the first is after 2 s.
        (Objective.MEAN_LATENCY, 6.0, 12, "bounds the makespan"),
        # First tokens sum to 6 + 2 s and the first is after 1 s: the last is in batch 7, then
        # both requests fit together and have two tokens left at most.
        (Objective.MEAN_TTFT, 3.0, 9, "then any completion"),
    ],
)
def test_horizons_of_two_requests_by_hand(
    objective: Objective, cutoff: float, batches: int, reason: str
) -> None:
    instance = _instance((3, 2, 0.0), (3, 3, 2.0))
    horizon = batch_horizon(instance, objective, cutoff, unchunked=False)
    assert (horizon.batches, horizon.rigorous) == (batches, True)
    assert reason in horizon.reason
    unchunked = batch_horizon(instance, objective, 99.0, unchunked=True)
    assert unchunked.batches == 5
    assert "every batch generates a token" in unchunked.reason
    kept = batch_horizon(instance, objective, 99.0, unchunked=False, policies=("no-evict",))
    assert kept.batches == 9
    assert "every token is processed once" in kept.reason


def test_conditions_shorten_horizons_and_forbid_to_replace_the_rest() -> None:
    instance = _instance((3, 2, 0.0), (3, 3, 2.0))
    both = batch_horizon(
        instance, Objective.MEAN_TTFT, 3.0, unchunked=False,
        at_most={Objective.MAX_LATENCY: 5.5},
    )  # fmt: skip
    assert both.batches == 7
    neither = batch_horizon(
        instance, Objective.MEAN_TTFT, 3.0, unchunked=False, policies=("no-hold",),
        at_most={Objective.GOODPUT: 1.0},
    )  # fmt: skip
    assert not neither.rigorous
    assert "does not bound" in neither.reason


@pytest.mark.parametrize(
    ("slos", "batches"),
    [
        ({"ttft_slo_s": 4.0}, 6 + 5),
        ({"latency_slo_s": 5.0}, 7 + 5),
        ({"ttft_slo_s": 2.0, "tpot_slo_s": 1.5}, 7 + 5),
        ({"ttft_slo_s": 4.0, "latency_slo_s": 3.0}, 5 + 5),
        ({}, 0 + 5),
        ({"tpot_slo_s": 1.0}, None),
    ],
)
def test_goodput_is_settled_by_its_deadlines(slos: dict[str, float], batches: int | None) -> None:
    # What is not settled runs in two groups of 2 and 3 batches.
    instance = _instance((3, 2, 0.0), (8, 3, 2.0))
    requests = tuple(msgspec.structs.replace(r, **slos) for r in instance.requests)
    instance = msgspec.structs.replace(instance, requests=requests)
    horizon = batch_horizon(instance, Objective.GOODPUT, 1.0, unchunked=False)
    assert horizon.rigorous is (batches is not None)
    if batches is not None:
        assert horizon.batches == batches


def test_no_cutoff_leaves_what_holds_for_every_schedule() -> None:
    instance = _instance((3, 2, 0.0), (3, 3, 2.0))
    for objective in set(Objective) - {Objective.GOODPUT}:
        assert batch_horizon(instance, objective, math.inf, unchunked=True).batches == 5
        # 3 + 4 and 3 + 4 + 5 useful tokens: 19 batches, and two between any two.
        chunked = batch_horizon(instance, objective, math.inf, unchunked=False)
        assert (chunked.batches, chunked.rigorous) == (3 * 19 - 2, True)
        held = batch_horizon(instance, objective, math.inf, unchunked=False, policies=("no-hold",))
        assert not held.rigorous


@pytest.mark.parametrize("seed", range(30))
def test_useful_tokens_are_enough_where_the_machine_idles(seed: int) -> None:
    """Arrivals far apart leave room for any number of useless batches; the optimum does not need
    them: the search over all schedules finds one as good that keeps to the horizon."""
    instance = random_instance(500 + seed, most_prompt=3, most_output=2, tight=seed % 2 == 0)
    late = tuple(
        msgspec.structs.replace(r, arrival_s=50.0 * i) for i, r in enumerate(instance.requests)
    )
    instance = msgspec.structs.replace(instance, requests=late)
    objective = (*EVERY, Objective.MEAN_TTFT)[seed % 4]
    _, best = optimum(instance, objective=objective)
    horizon = batch_horizon(instance, objective, math.inf, unchunked=False)
    assert best.batch_count <= horizon.batches


@pytest.mark.parametrize(
    ("policies", "started", "unchunked", "batches"),
    [
        # Groups r0 and r1 together, r2 alone; its three fills in chunks of 5, 5 and 2 or 3 tokens.
        ((), False, False, 3 + 3 + 1),
        ((), True, False, 2 + 3 + 0),
        # Refills do not fit in a batch.
        ((), True, True, None),
        (("no-hybrid",), True, False, 2 + 2 + 3),
        (("no-evict",), True, False, None),
        (("no-evict", "no-hold"), True, True, 2),
        (("nonpreemptive",), True, True, 2),
        (("nonpreemptive",), False, True, 2 + 3 + 4),
    ],
)
def test_completions(
    policies: tuple[str, ...], started: bool, unchunked: bool, batches: int | None
) -> None:
    instance = _instance((1, 2, 0.0), (1, 3, 0.0), (12, 2, 1.0), kv_tokens=13, batch_tokens=5)
    found = completion_batches(instance, policies, unchunked=unchunked, started=started)
    assert found == batches


@pytest.mark.parametrize("seed", range(24))
def test_the_fewest_batches_from_the_start_are_no_more_than_a_completion_needs(seed: int) -> None:
    policies = [(), ("no-hybrid",), ("no-hold",), ("nonpreemptive",)][seed % 4]
    # Batches of 1 s: the optimum is their number.
    instance = random_instance(seed, cost=UNIT, most_output=3, tight=True)
    unchunked = seed % 3 == 0
    most = completion_batches(instance, policies, unchunked=unchunked, started=False)
    try:
        _, best = optimum(instance, [*policies, "no-chunk"] if unchunked else list(policies))
    except InfeasibleError:
        return
    assert most is None or best.batch_count <= most
