"""What a stage takes from a program: nothing where none can exist, and only prices that hold."""

from __future__ import annotations

import time
from dataclasses import replace

import msgspec
import pytest

from optsched.errors import SolverError
from optsched.instance import Instance, Limits, Request
from optsched.io import preset
from optsched.objective import Objective
from optsched.result import ALL_SCHEDULES
from optsched.solve import SolveOptions, assess, solve
from optsched.solve.plan import Stage
from optsched.solve.program import program
from optsched.solve.search import Search
from optsched.solve.stage import _require_price
from optsched.warmstart import scheduler
from tests.tiny import LINEAR, random_instance


def four() -> Instance:
    """One request at a time, two batches of a second each."""
    return Instance(
        name="four", limits=Limits(kv_tokens=8, batch_tokens=64), cost=preset("unit").cost,
        requests=tuple(Request(id=i, prompt_tokens=6, output_tokens=2) for i in "abcd"),
    )  # fmt: skip


@pytest.mark.parametrize("objective", [Objective.MAKESPAN, Objective.MEAN_TTFT])
@pytest.mark.parametrize(
    ("limited", "limit"),
    [
        (Objective.MEAN_LATENCY, 0.0), (Objective.MEAN_LATENCY, 1.0),
        (Objective.MEAN_LATENCY, 4.9), (Objective.MAX_LATENCY, 0.5), (Objective.MAX_LATENCY, 7.0),
        (Objective.GOODPUT, 5.0),
    ],
)  # fmt: skip
def test_limits_out_of_reach_are_infeasible_however_far(
    objective: Objective, limited: Objective, limit: float
) -> None:
    result = solve(four(), SolveOptions(objective=objective, subject_to={limited: limit}))
    assert result.termination == "infeasible"
    assert result.schedule is None


@pytest.mark.parametrize("formulation", ["network", "compact"])
def test_a_target_that_no_batches_reach_is_refused(formulation: str) -> None:
    options = SolveOptions(
        objective=Objective.MAX_LATENCY, target=7.5, formulation=formulation, effort="quick"
    )
    result = solve(four(), options)
    assert result.target is not None
    assert result.target.answer == "no"


def test_slack_is_allowed_beyond_the_cutoff_only() -> None:
    """A solver that runs out of time may hold a schedule worse than the cutoff in a point whose
    times have slack; no tighter point of it is in the program."""
    instance = random_instance(7, most_prompt=4, most_output=3)
    found = assess(instance, scheduler("sarathi")(instance), "sarathi")
    search = Search(
        instance=instance, options=SolveOptions(), policies=frozenset(), scope=ALL_SCHEDULES,
        deadline=time.monotonic() + 60, report=lambda _: None, candidates=[found],
    )  # fmt: skip
    stage = Stage(formulation="compact", chunking=True, relaxed=False, scope=ALL_SCHEDULES)
    ready = program(search, stage)
    dearer, cheaper = 1.1 * found.makespan_s, 0.9 * found.makespan_s
    beyond = replace(ready, cutoff=0.99 * found.makespan_s)
    within = replace(ready, cutoff=1.01 * found.makespan_s)
    _require_price(search, beyond, stage, found.schedule, dearer)
    for wrong, price in ((within, dearer), (within, cheaper), (beyond, cheaper)):
        with pytest.raises(SolverError, match="this is a bug"):
            _require_price(search, wrong, stage, found.schedule, price)


def test_a_class_of_schedules_without_any_is_no_failure() -> None:
    """A prompt of six tokens takes two batches of three, so no schedule is unchunked."""
    limits = Limits(kv_tokens=8, batch_tokens=3)
    instance = msgspec.structs.replace(four(), limits=limits, cost=LINEAR)
    instance = msgspec.structs.replace(instance, requests=instance.requests[:2])
    result = solve(instance, SolveOptions(objective=Objective.MEAN_LATENCY))
    assert result.optimal
    ended = {step.method: step.termination for step in result.steps}
    assert ended["network"] == "infeasible"
    assert "failed" not in ended.values()
