"""Targets: yes with a schedule, no with a proof and with what conflicts."""

from __future__ import annotations

import pytest

from optsched.errors import InvalidInputError, UnknownNameError
from optsched.instance import Instance, Limits, Request
from optsched.io import preset
from optsched.objective import Objective
from optsched.simulate import objective_value, simulate
from optsched.solve import SolveOptions, evaluate, solve
from optsched.solve.conflict import explain_refusal
from optsched.solve.target import target_value
from tests.oracle import optimum
from tests.tiny import random_instance


@pytest.mark.parametrize("objective", [o for o in Objective if not o.maximised])
@pytest.mark.parametrize("factor", [0.9, 0.999, 1.001, 1.2])
@pytest.mark.parametrize("seed", range(3))
def test_the_answer_is_right(objective: Objective, factor: float, seed: int) -> None:
    instance = random_instance(9200 + seed, arrivals=seed == 0, most_prompt=4, most_output=3)
    best, _ = optimum(instance, objective=objective)
    options = SolveOptions(objective=objective, target=factor * best)
    result = solve(instance, options)
    assert result.target is not None
    assert result.target.answer == ("yes" if factor > 1 else "no")
    if factor > 1:
        assert result.schedule is not None
        trace = simulate(instance, result.schedule)
        assert objective_value(instance, trace, objective) <= factor * best
    else:
        assert result.bound is not None
        assert factor * best < result.bound <= best * (1 + 1e-9)


def test_a_target_is_a_number_or_a_fraction_of_a_scheduler() -> None:
    instance = random_instance(9300)
    for objective in (Objective.MAKESPAN, Objective.MEAN_TTFT):
        reached = evaluate(instance, "sarathi").values[objective]
        assert target_value(instance, objective, "sarathi") == reached
        assert target_value(instance, objective, "0.9*sarathi") == 0.9 * reached
        assert target_value(instance, objective, "sarathi * 0.9") == 0.9 * reached
    assert target_value(instance, Objective.MAKESPAN, "1.5e-2") == 0.015
    assert target_value(instance, Objective.GOODPUT, "all") == len(instance)
    assert target_value(instance, Objective.GOODPUT, "0.5*all") == len(instance) / 2
    for wrong in ("nan", "-1", "inf", "a*b"):
        with pytest.raises(InvalidInputError, match="target"):
            target_value(instance, Objective.MAKESPAN, wrong)
    with pytest.raises(UnknownNameError, match="sarahti"):
        target_value(instance, Objective.MAKESPAN, "0.9*sarahti")


def slos(**slo_s: float) -> Instance:
    """Four requests that fit in memory one at a time; ``slo_s`` by id limits the TTFT."""
    return Instance(
        name="slos", limits=Limits(kv_tokens=8, batch_tokens=64), cost=preset("unit").cost,
        requests=tuple(
            Request(id=name, prompt_tokens=6, output_tokens=2, ttft_slo_s=slo_s.get(name))
            for name in "abcd"
        ),
    )  # fmt: skip


def test_slos_that_cannot_be_met_together_are_named() -> None:
    """Each takes a batch of one second for its first token: two cannot both be first, and b has
    time enough. Twice as long is what a and c need."""
    instance = slos(a=1.0, b=4.0, c=1.0)
    options = SolveOptions(objective=Objective.GOODPUT, target=4.0)
    result = solve(instance, options)
    assert result.target is not None
    assert result.target.answer == "no"
    conflict = explain_refusal(instance, options, result, solve, time_limit_s=60)
    assert set(conflict.requests) == {"a", "c"}
    assert conflict.rules == ("kv_capacity",)
    assert conflict.relaxed_target == 3.0
    assert conflict.slo_factor == pytest.approx(2.0, rel=0.02)
    assert conflict.irreducible
    assert solve(slos(a=2.0, b=4.0, c=2.0), options).target.answer == "yes"  # type: ignore[union-attr]


def test_a_target_below_the_optimum_names_rules_and_requests() -> None:
    """Without limits all four fit in two batches; under M = 8 any three take more than five."""
    instance = slos()
    options = SolveOptions(target=5.0)
    result = solve(instance, options)
    conflict = explain_refusal(instance, options, result, solve, time_limit_s=60)
    assert conflict.rules == ("kv_capacity",)
    assert len(conflict.requests) == 3
    assert conflict.relaxed_target == pytest.approx(8.0)
    assert conflict.slo_factor is None
