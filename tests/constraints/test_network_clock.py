"""Every objective, with and without arrivals, under every policy, against the exhaustive search."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from optsched.check import POLICIES as CHECKED
from optsched.check import check
from optsched.constraints.network import FAMILIES, Family, build, most_used
from optsched.cost import CostModel
from optsched.errors import InfeasibleError, UnsupportedError
from optsched.instance import Instance, Limits, Request
from optsched.model.horizon import batch_horizon
from optsched.model.network import NetworkVariables
from optsched.objective import Objective
from optsched.schedule import Kind, Schedule, from_steps
from optsched.simulate import simulate
from optsched.solvers import solver
from optsched.solvers.lp import solve_lp
from optsched.solvers.outcome import Outcome, SolverOptions, Termination
from tests.constraints.clock_cases import clock_case, close, cost_of, to_minimise
from tests.oracle import optimum
from tests.tiny import LINEAR

PROCESS = Kind.PROCESS
SEEDS = [range(k, k + 24) for k in range(0, 192, 24)]


def _solved(
    variables: NetworkVariables, families: Mapping[str, Family] = FAMILIES
) -> tuple[float, Outcome]:
    milp = build(variables, families)
    outcome = solver("highs")(milp, SolverOptions(relative_gap=0.0))
    value = np.nan if outcome.point is None else milp.value(outcome.point)
    return value, outcome


def _first_tokens_are_in_order(instance: Instance, schedule: Schedule) -> bool:
    first, release = simulate(instance, schedule).first_token_s, instance.release_s
    earlier = release[:, None] < release[None, :]
    return not (earlier & (first[:, None] > first[None, :] + 1e-12)).any()


@pytest.mark.parametrize("seeds", SEEDS, ids=lambda seeds: f"from-{seeds.start}")
def test_unchunked_optimum_equals_the_exhaustive_one(seeds: range) -> None:
    compared = 0
    for seed in seeds:
        instance, policies, objective = clock_case(seed)
        try:
            best_value, best = optimum(instance, [*policies, "no-chunk"], objective=objective)
        except InfeasibleError:
            continue
        expected = to_minimise(instance, objective, best_value)
        horizon = batch_horizon(instance, objective, best_value, unchunked=True, policies=policies)
        assert horizon.rigorous, seed
        variables = NetworkVariables(
            instance, least=1, most=horizon.batches, policies=policies, objective=objective
        )
        milp = build(variables)
        if best.batch_count <= horizon.batches:
            start = variables.encode(best)
            assert milp.matrix().violation(start) < 1e-6, seed
            assert (milp.lower <= start).all(), seed
            assert (start <= milp.upper).all(), seed
            assert milp.value(start) == close(expected), seed
            again = variables.encode(variables.decode(start))
            assert milp.value(again) == close(expected), seed

        value, outcome = _solved(variables)
        assert outcome.termination is Termination.FINISHED, seed
        assert outcome.point is not None
        schedule = variables.decode(outcome.point)
        assert value == close(expected), seed
        assert cost_of(instance, schedule, objective) == close(expected), seed
        known = [policy for policy in [*policies, "no-chunk"] if policy in CHECKED]
        assert check(instance, schedule, policies=known) == (), seed
        if "nonpreemptive" in policies:
            implied = ["no-evict", "no-hold", "no-chunk"]
            assert check(instance, schedule, policies=implied) == (), seed
        if "fcfs" in policies:
            assert _first_tokens_are_in_order(instance, schedule), seed
        compared += 1
    assert compared >= 12


@pytest.mark.parametrize("objective", list(Objective))
def test_a_condition_at_the_optimum_can_be_met_and_one_below_cannot(objective: Objective) -> None:
    compared = 0
    for seed in range(300, 309):
        instance, policies, _ = clock_case(seed)
        try:
            best_value, best = optimum(instance, [*policies, "no-chunk"], objective=objective)
        except InfeasibleError:
            continue
        step = 0.125 if objective.maximised else -1e-4 * best_value
        for limit, possible in ((best_value, True), (best_value + step, False)):
            variables = NetworkVariables(
                instance, least=1, most=int(instance.output_tokens.sum()), policies=policies,
                objective=Objective.MAKESPAN, at_most={objective: limit},
            )  # fmt: skip
            _, outcome = _solved(variables)
            assert (outcome.point is not None) is possible, (seed, limit)
            if outcome.point is not None:
                schedule = variables.decode(outcome.point)
                reached = cost_of(instance, schedule, objective)
                assert reached == close(to_minimise(instance, objective, best_value)), seed
                assert build(variables).matrix().violation(variables.encode(schedule)) < 1e-2, seed
        assert best.batch_count >= 1
        compared += 1
    assert compared >= 5


def test_the_relaxation_shortens_the_horizon_by_no_optimal_schedule() -> None:
    shortened = compared = 0
    objectives = (Objective.MAKESPAN, Objective.MEAN_LATENCY, Objective.MAX_LATENCY)
    for seed in range(400, 430):
        objective = objectives[seed % 3]
        instance, policies, _ = clock_case(seed)
        try:
            value, best = optimum(instance, [*policies, "no-chunk"], objective=objective)
        except InfeasibleError:
            continue
        horizon = batch_horizon(instance, objective, value, unchunked=True, policies=policies)
        variables = NetworkVariables(
            instance, least=1, most=horizon.batches, policies=policies, objective=objective,
            at_most={objective: value},
        )  # fmt: skip
        most, late = most_used(variables, lambda linear: solve_lp(linear).bound)
        starts = simulate(instance, best).start_s
        assert best.batch_count <= most <= horizon.batches, seed
        assert int((starts >= instance.release_s.max()).sum()) <= late <= most, seed
        narrow = NetworkVariables(
            instance, least=1, most=most, most_late=late, policies=policies, objective=objective
        )
        assert build(narrow).value(narrow.encode(best)) == close(value), seed
        shortened += most < horizon.batches
        compared += 1
    assert compared >= 20
    assert shortened >= 1


# Seeds of ``clock_case`` for which the program is too optimistic without the family; objectives and
# policies are those of the case unless given.
NEEDED: list[tuple[str, int, list[str] | None, Objective | None]] = [
    ("kv_capacity", 3, None, None),
    ("residency", 10, None, None),
    ("progress", 44, None, None),
    ("no-hybrid", 234, None, None),
    ("no-hold", 302, ["no-hold"], Objective.MEAN_LATENCY),
    ("fcfs", 381, ["fcfs"], Objective.MEAN_TTFT),
    ("batch_time", 5, None, None),
    ("phases", 0, None, None),
    ("clock", 0, None, None),
    ("arrival", 16, None, None),
    ("counts", 0, None, None),
    ("shares", 0, None, None),
    ("max_latency", 16, None, None),
    ("left", 34, None, None),
    ("deadlines", 38, None, None),
    ("goodput", 38, None, None),
    ("pace", 135, None, None),
]


@pytest.mark.parametrize(("family", "seed", "given", "objective"), NEEDED)
def test_without_a_family_the_program_is_too_optimistic(
    family: str, seed: int, given: list[str] | None, objective: Objective | None
) -> None:
    instance, policies, objective = clock_case(seed, objective)
    policies = policies if given is None else given
    best, _ = optimum(instance, [*policies, "no-chunk"], objective=objective)
    variables = NetworkVariables(
        instance, least=1, most=int(instance.output_tokens.sum()), policies=policies,
        objective=objective,
    )  # fmt: skip
    strengthening = ("rounding", "earliest_ends", "intervals")
    needed = {name: rows for name, rows in FAMILIES.items() if name not in strengthening}
    assert _solved(variables, needed)[0] == close(to_minimise(instance, objective, best))
    del needed[family]
    assert _solved(variables, needed)[0] < to_minimise(instance, objective, best) - 1e-5


def test_a_program_that_waits_deliberately_meets_too_many_objectives() -> None:
    # One request per batch of 1 s. The first one meets its TPOT only if it starts at 0.5 s: its
    # third token has to wait for the request that arrives at 2.5 s and must run at once. The one
    # that arrives at 0.2 s gives batches an interval in which they could start late.
    requests = (
        Request(id="r0", prompt_tokens=1, output_tokens=3, ttft_slo_s=1.7, tpot_slo_s=1.6),
        Request(id="r1", prompt_tokens=1, output_tokens=1, arrival_s=0.2, weight=0.0),
        Request(id="r2", prompt_tokens=1, output_tokens=1, arrival_s=2.5, latency_slo_s=1.05),
    )
    instance = Instance(
        name="late", limits=Limits(kv_tokens=9, batch_tokens=9, batch_requests=1),
        cost=CostModel(pieces=((1.0, 0.0),)), requests=requests,
    )  # fmt: skip
    assert optimum(instance, objective=Objective.GOODPUT)[0] == 1.0
    variables = NetworkVariables(instance, least=1, most=5, objective=Objective.GOODPUT)
    assert _solved(variables)[0] == close(1.0)
    inexact = {name: rows for name, rows in FAMILIES.items() if name != "exact_time"}
    assert _solved(variables, inexact)[0] == close(0.0)


def _instance(*arrivals: float, **limits: int) -> Instance:
    return Instance(
        name="clock",
        limits=Limits(**{"kv_tokens": 40, "batch_tokens": 100, **limits}),
        cost=LINEAR,
        requests=tuple(
            Request(id=f"r{i}", prompt_tokens=4, output_tokens=2, arrival_s=arrival)
            for i, arrival in enumerate(arrivals)
        ),
    )


def test_requests_that_differ_in_arrival_only_are_one_type_where_that_loses_nothing() -> None:
    instance = _instance(0.0, 0.01, 0.02)
    for objective, policies, types in (
        (Objective.MAKESPAN, (), 1),
        (Objective.MEAN_LATENCY, (), 1),
        (Objective.MEAN_TTFT, ("no-hold",), 1),
        (Objective.MEAN_TTFT, ("fcfs",), 3),
        (Objective.MAX_LATENCY, (), 3),
        (Objective.GOODPUT, (), 3),
    ):
        variables = NetworkVariables(
            instance, least=1, most=6, objective=objective, policies=policies
        )
        assert len(variables.types) == types, objective


def test_slots_before_an_arrival_are_as_many_as_batches_can_start_there() -> None:
    # A batch takes at least 9.07 ms, and three tokens are all that one request has.
    cost = LINEAR
    instance = Instance(
        name="slots", limits=Limits(kv_tokens=40, batch_tokens=100), cost=cost,
        requests=tuple(
            Request(id=f"r{i}", prompt_tokens=4, output_tokens=3, arrival_s=arrival)
            for i, arrival in enumerate((0.0, 0.02, 1.02))
        ),
    )  # fmt: skip
    variables = NetworkVariables(instance, least=1, most=9, most_late=4)
    assert np.diff(variables.slots.first).tolist() == [3, 6, 4]
    assert variables.slots.arrivals_s.tolist() == [0.0, 0.02, 1.02]


@pytest.mark.parametrize(
    ("steps", "arguments", "message"),
    [
        # Held in a batch that processes the other request.
        (
            [(0, PROCESS, 1, 4), (1, PROCESS, 2, 4), (0, PROCESS, 3, 1), (1, PROCESS, 3, 1)],
            {"policies": ("no-hold",)},
            "it is held",
        ),
        (
            [(1, PROCESS, 1, 4), (0, PROCESS, 2, 4), (0, PROCESS, 3, 1), (1, PROCESS, 3, 1)],
            {"policies": ("fcfs",)},
            "not in order of arrival",
        ),
        # Three batches from the last arrival on.
        (
            [(0, PROCESS, 1, 4), (1, PROCESS, 2, 4), (0, PROCESS, 3, 1), (1, PROCESS, 4, 1)],
            {"most_late": 2},
            "one too many between two arrivals",
        ),
    ],
)
def test_encode_refuses_schedules_outside_its_class(
    steps: list[tuple[int, int, int, int]], arguments: dict[str, object], message: str
) -> None:
    variables = NetworkVariables(_instance(0.0, 0.5), least=1, most=6, **arguments)  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match=message):
        variables.encode(from_steps(steps))
