"""``solve`` on calls and on KV that can be swapped, against the exhaustive search."""

from __future__ import annotations

import msgspec
import pytest

from optsched.check import check, handlings
from optsched.errors import InfeasibleError
from optsched.handling import HANDLINGS
from optsched.instance import Call, Instance, Limits, Request
from optsched.objective import Objective
from optsched.result import ALL_SCHEDULES, UNCHUNKED, Result
from optsched.simulate import objective_value, simulate
from optsched.solve import SolveOptions, solve
from tests.oracle import optimum
from tests.tiny import LINEAR, random_instance

OBJECTIVES = (Objective.MAKESPAN, Objective.MEAN_LATENCY, Objective.MEAN_TTFT)
ONE_AT_A_TIME = Instance(
    name="tools", cost=LINEAR,
    limits=Limits(kv_tokens=20, batch_tokens=20, host_kv_tokens=20),
    requests=(
        Request(
            id="agent", prompt_tokens=8, output_tokens=3,
            calls=(Call(after_tokens=1, duration_s=0.2, response_tokens=4),),
        ),
        Request(id="chat", prompt_tokens=9, output_tokens=5),
    ),
)  # fmt: skip


def verify(instance: Instance, result: Result, best: float) -> None:
    """The value is that of a valid schedule, nothing contradicts the exhaustive search."""
    assert result.schedule is not None
    assert result.value is not None
    assert result.bound is not None
    assert check(instance, result.schedule, policies=result.policies) == ()
    objective = Objective(result.objective)
    trace = simulate(instance, result.schedule)
    assert objective_value(instance, trace, objective) == pytest.approx(result.value, rel=1e-9)
    assert result.value >= best * (1 - 1e-7)
    assert result.bound <= best * (1 + 1e-7)
    if result.optimal:
        assert result.value == pytest.approx(best, rel=1e-6)
    assert result.handling == handlings(instance, result.schedule)


@pytest.mark.parametrize("host_room", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_tiny_instances(seed: int, host_room: bool) -> None:
    instance = random_instance(
        5100 + seed, calls=True, host_room=host_room, arrivals=seed % 2 == 0, pages=seed % 3 == 0,
        most_requests=2, most_prompt=4, most_output=3,
    )  # fmt: skip
    objective = OBJECTIVES[seed % 3]
    best, _ = optimum(instance, (), objective=objective)
    result = solve(instance, SolveOptions(objective=objective, time_limit_s=20.0))
    verify(instance, result, best)
    assert result.optimal


@pytest.mark.parametrize("handling", HANDLINGS)
@pytest.mark.parametrize("policy", ["{}", "{}:agent"])
def test_a_handling_is_obeyed(handling: str, policy: str) -> None:
    policies = (policy.format(handling),)
    best, _ = optimum(ONE_AT_A_TIME, policies, objective=Objective.MAKESPAN)
    result = solve(ONE_AT_A_TIME, SolveOptions(policies=policies, time_limit_s=20.0))
    verify(ONE_AT_A_TIME, result, best)
    assert result.optimal
    for call in result.handling:
        assert call.handling == handling or call.resumed == call.batch + 1


def test_what_is_proven_without_chunks_is_not_called_optimal_over_all() -> None:
    options = SolveOptions(formulation="network", objective=Objective.MEAN_LATENCY)
    result = solve(ONE_AT_A_TIME, options)
    best, _ = optimum(ONE_AT_A_TIME, (), objective=Objective.MEAN_LATENCY)
    verify(ONE_AT_A_TIME, result, best)
    assert result.scope == ALL_SCHEDULES
    assert result.unchunked is not None
    assert result.unchunked.scope == UNCHUNKED
    least, _ = optimum(ONE_AT_A_TIME, ("no-chunk",), objective=Objective.MEAN_LATENCY)
    assert result.unchunked.bound == pytest.approx(least, rel=1e-6)


def test_a_prompt_that_takes_several_batches_is_chunked() -> None:
    limits = msgspec.structs.replace(ONE_AT_A_TIME.limits, batch_tokens=6)
    instance = msgspec.structs.replace(ONE_AT_A_TIME, limits=limits)
    best, _ = optimum(instance, (), objective=Objective.MAKESPAN)
    result = solve(instance, SolveOptions(time_limit_s=20.0))
    verify(instance, result, best)
    assert [s.termination for s in result.steps if s.method == "label setting"] == ["infeasible"]


def test_a_request_whose_response_does_not_fit_is_refused() -> None:
    huge = Request(
        id="agent", prompt_tokens=8, output_tokens=3,
        calls=(Call(after_tokens=1, duration_s=0.2, response_tokens=40),),
    )  # fmt: skip
    instance = Instance(
        name="huge", cost=LINEAR, limits=Limits(kv_tokens=20, batch_tokens=20), requests=(huge,)
    )
    with pytest.raises(InfeasibleError, match="agent"):
        solve(instance)
