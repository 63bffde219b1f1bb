"""Ctrl-C ends everything that was still to come, and what is known by then is kept."""

from __future__ import annotations

from collections.abc import Callable

from optsched.objective import Objective
from optsched.solve import SolveOptions, assess, solve
from optsched.solve.price import policy_prices
from optsched.warmstart import scheduler
from tests.tiny import random_instance


def interrupting(at: int) -> tuple[list[str], Callable[[str], None]]:
    """What was reported, and a report that is interrupted the ``at``-th time."""
    told: list[str] = []

    def report(what: str) -> None:
        told.append(what)
        if len(told) == at:
            raise KeyboardInterrupt

    return told, report


def test_no_second_objective_is_begun() -> None:
    options = SolveOptions(objective=Objective.MEAN_LATENCY, then=Objective.MEAN_TTFT)
    told, report = interrupting(1)
    result = solve(random_instance(6001, arrivals=True), options, report=report)
    assert len(told) == 1
    assert result.interrupted
    assert result.tie is None


def test_what_was_known_is_kept() -> None:
    """Even before anything was tried, and though the last resort breaks a limit."""
    instance = random_instance(6001, most_prompt=5, most_output=3)
    known = assess(instance, scheduler("mc-sf")(instance), "known")
    limits = {Objective.MAKESPAN: known.makespan_s}
    _, report = interrupting(1)
    options = SolveOptions(objective=Objective.MEAN_TTFT, subject_to=limits)
    result = solve(instance, options, known=[known], report=report)
    assert result.value == known.values[Objective.MEAN_TTFT]
    assert result.termination == "interrupted"


def test_no_further_policy_is_begun() -> None:
    instance = random_instance(6001, arrivals=True)
    options = SolveOptions(objective=Objective.MEAN_LATENCY)
    told, report = interrupting(1)
    rows = policy_prices(instance, ("no-evict", "fcfs"), options, report)
    assert len(told) == 1
    assert [row.policy for row in rows] == [None]
    begun: list[str] = []

    def second(what: str) -> None:
        begun.append(what)
        if what.startswith("no-evict"):
            raise KeyboardInterrupt

    rows = policy_prices(instance, ("no-evict", "fcfs"), options, second)
    assert [row.policy for row in rows] == [None, "no-evict"]
    assert begun[-1].startswith("no-evict")
