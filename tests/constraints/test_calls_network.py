"""The network with calls and swapping against the exhaustive search over unchunked schedules."""

from __future__ import annotations

import random

import msgspec
import numpy as np
import pytest

from optsched.check import check, handlings
from optsched.constraints.calls_network import FAMILIES, build
from optsched.errors import InfeasibleError, InvalidInputError, UnsupportedError
from optsched.handling import HANDLINGS
from optsched.instance import Call, Instance, Limits, Request
from optsched.model.calls_network import CallsNetworkVariables
from optsched.model.horizon import batch_horizon
from optsched.objective import Objective
from optsched.schedule import Kind, Schedule, from_steps
from optsched.solvers import solver
from optsched.solvers.lp import solve_lp
from optsched.solvers.outcome import Outcome, SolverOptions, Termination
from tests.constraints.clock_cases import close, cost_of
from tests.oracle import optimum
from tests.tiny import LINEAR, random_instance

SECONDS = (Objective.MAKESPAN, Objective.MEAN_LATENCY, Objective.MEAN_TTFT, Objective.MAX_LATENCY)
POLICIES = ("no-evict", "no-hybrid", "no-swap", "fcfs")
SEEDS = [range(k, k + 24) for k in range(0, 144, 24)]


def _case(seed: int) -> tuple[Instance, list[str], Objective]:
    """An instance with calls, host room, or both, some policies, and an objective."""
    rng = random.Random(f"calls network {seed}")
    calls = rng.random() < 0.85
    instance = random_instance(
        seed, most_requests=rng.choice([1, 2, 2, 3]), most_prompt=6, most_output=4, calls=calls,
        host_room=not calls or rng.random() < 0.5, arrivals=rng.random() < 0.5,
        pages=rng.random() < 0.3, tight=rng.random() < 0.3,
        cost=LINEAR if rng.random() < 0.3 else None,
    )  # fmt: skip
    policies = [policy for policy in POLICIES if rng.random() < 0.12]
    if rng.random() < 0.3:
        policies.append(rng.choice(HANDLINGS))
    if rng.random() < 0.2:
        policies.append(f"{rng.choice(HANDLINGS)}:{rng.choice(instance.requests).id}")
    return instance, policies, rng.choice(SECONDS)


def _solved(variables: CallsNetworkVariables) -> tuple[float, Outcome]:
    milp = build(variables)
    outcome = solver("highs")(milp, SolverOptions(relative_gap=0.0))
    value = np.nan if outcome.point is None else milp.value(outcome.point)
    return value, outcome


def _equals_the_search(
    seed: int, instance: Instance, policies: list[str], objective: Objective
) -> bool:
    """Whether there is a schedule at all; all else is asserted."""
    try:
        best_value, best = optimum(instance, [*policies, "no-chunk"], objective=objective)
    except InfeasibleError:
        return False
    most = int(instance.output_tokens.sum())
    if not objective.maximised:
        horizon = batch_horizon(instance, objective, best_value, unchunked=True, policies=policies)
        assert horizon.rigorous, seed
        most = horizon.batches
    else:
        best_value = instance.total_weight - best_value
    variables = CallsNetworkVariables(
        instance,
        least=1,
        most=most,
        policies=policies,
        objective=objective,
        cutoff=None if objective.maximised else best_value,
    )
    milp = build(variables)
    if best.batch_count <= most:
        start = variables.encode(best)
        assert milp.matrix().violation(start) < 1e-4, seed  # times are in microseconds
        assert (milp.lower <= start).all(), seed
        assert (start <= milp.upper).all(), seed
        assert milp.value(start) == close(best_value), seed
    value, outcome = _solved(variables)
    assert outcome.termination is Termination.FINISHED, seed
    assert outcome.point is not None
    schedule = variables.decode(outcome.point)
    assert check(instance, schedule, policies=[*policies, "no-chunk"]) == (), seed
    assert value == close(best_value), seed
    assert cost_of(instance, schedule, objective) == close(best_value), seed
    found = [name for each in variables.handlings(outcome.point) for name in each]
    assert found == [call.handling for call in handlings(instance, schedule)], seed
    return True


@pytest.mark.parametrize("seeds", SEEDS, ids=lambda seeds: f"from-{seeds.start}")
def test_optimum_equals_the_exhaustive_one(seeds: range) -> None:
    assert sum(_equals_the_search(seed, *_case(seed)) for seed in seeds) >= len(seeds) // 2


@pytest.mark.parametrize("seed", range(700, 712))
def test_goodput_equals_the_exhaustive_one(seed: int) -> None:
    instance = random_instance(
        seed, most_requests=2, most_prompt=4, most_output=3, calls=True,
        host_room=seed % 2 == 0, arrivals=seed % 3 == 0, slos=True,
    )  # fmt: skip
    requests = [msgspec.structs.replace(r, tpot_slo_s=None) for r in instance.requests]
    judged = msgspec.structs.replace(instance, requests=tuple(requests))
    assert _equals_the_search(seed, judged, [], Objective.GOODPUT)


@pytest.mark.parametrize("objective", SECONDS)
def test_a_condition_at_the_optimum_can_be_met_and_one_below_cannot(objective: Objective) -> None:
    compared = 0
    for seed in range(900, 906):
        instance, policies, _ = _case(seed)
        try:
            best, _ = optimum(instance, [*policies, "no-chunk"], objective=objective)
        except InfeasibleError:
            continue
        compared += 1
        most = int(instance.output_tokens.sum())
        within = CallsNetworkVariables(
            instance, least=1, most=most, policies=policies, at_most={objective: best}
        )
        _, outcome = _solved(within)
        assert outcome.point is not None, seed
        assert cost_of(instance, within.decode(outcome.point), objective) == close(best), seed
        try:
            below = CallsNetworkVariables(
                instance, least=1, most=most, policies=policies,
                at_most={objective: best * (1 - 1e-4)},
            )  # fmt: skip
        except (InfeasibleError, InvalidInputError):
            continue  # the windows of the requests, or the bounds on ends, say so already
        assert _solved(below)[1].point is None, seed
    assert compared >= 3


def test_what_only_strengthens_changes_no_optimum() -> None:
    defining = dict(list(FAMILIES.items())[:-5])
    gained = 0
    for seed in range(6):
        instance = random_instance(
            seed, most_output=3, calls=True, host_room=seed % 2 == 0, arrivals=seed % 3 == 0
        )
        objective = SECONDS[seed % 4]
        variables = CallsNetworkVariables(
            instance, least=1, most=int(instance.output_tokens.sum()), objective=objective
        )
        full, plain = build(variables), build(variables, defining)
        values = []
        for milp in (full, plain):
            outcome = solver("highs")(milp, SolverOptions(relative_gap=0.0))
            assert outcome.point is not None, seed
            values.append(milp.value(outcome.point))
        assert values[0] == close(values[1]), seed
        strong, weak = solve_lp(full).bound, solve_lp(plain).bound
        assert strong is not None, seed
        assert weak is not None, seed
        assert strong >= weak - 1e-9, seed
        gained += strong > weak * (1 + 1e-4)
    assert gained >= 2


def _one_call(**limits: int) -> Instance:
    """A request that calls a tool after its first token, and one that runs beside it."""
    call = Call(after_tokens=1, duration_s=0.05, response_tokens=2)
    return Instance(
        name="one call", cost=LINEAR, limits=Limits(kv_tokens=20, batch_tokens=64, **limits),
        requests=(
            Request(id="a", prompt_tokens=4, output_tokens=3, calls=(call,)),
            Request(id="b", prompt_tokens=4, output_tokens=4),
        ),
    )  # fmt: skip


def _steps(between: list[tuple[int, int, int, int]], resumed: int, tokens: int) -> Schedule:
    """Both are filled in batch 1; b decodes in batches 2 to 4; a resumes as told, then decodes."""
    b = [(1, Kind.PROCESS, 1, 4), *((1, Kind.PROCESS, j, 1) for j in (2, 3, 4))]
    a = [(0, Kind.PROCESS, 1, 4), *between, (0, Kind.PROCESS, resumed, tokens)]
    return from_steps([*a, (0, Kind.PROCESS, resumed + 1, 1), *b])


@pytest.mark.parametrize(
    ("between", "tokens", "handling"),
    [
        ([], 3, "preserve"),
        ([(0, Kind.EVICT, 2, 0)], 7, "discard"),
        ([(0, Kind.EVICT, 4, 0)], 7, "discard"),
        ([(0, Kind.SWAP_OUT, 2, 0), (0, Kind.EVICT, 3, 0)], 7, "discard"),
        ([(0, Kind.SWAP_OUT, 3, 0), (0, Kind.SWAP_IN, 5, 0)], 3, "swap"),
        ([(0, Kind.SWAP_OUT, 2, 0), (0, Kind.SWAP_IN, 4, 0)], 3, "swap"),
    ],
)
def test_schedules_of_every_handling_have_a_point(
    between: list[tuple[int, int, int, int]], tokens: int, handling: str
) -> None:
    instance = _one_call(host_kv_tokens=10)
    schedule = _steps(between, 5, tokens)
    assert check(instance, schedule) == ()
    for objective in SECONDS:
        variables = CallsNetworkVariables(instance, least=1, most=7, objective=objective)
        milp, point = build(variables), variables.encode(schedule)
        assert milp.matrix().violation(point) < 1e-6
        assert variables.handlings(point) == ((handling,), ())
        decoded = variables.decode(point)
        assert [each.handling for each in handlings(instance, decoded)] == [handling]
        # What is dropped in the end may be dropped earlier, which is no dearer.
        assert milp.value(point) == close(cost_of(instance, decoded, objective))
        assert milp.value(point) <= cost_of(instance, schedule, objective) + 1e-9
        if handling != "discard":
            assert decoded.same_as(schedule)


@pytest.mark.parametrize("handling", HANDLINGS)
def test_policies_fix_the_handling_of_one_request(handling: str) -> None:
    instance = _one_call(host_kv_tokens=10)
    variables = CallsNetworkVariables(
        instance, least=1, most=7, policies=[f"{handling}:a"], objective=Objective.MEAN_LATENCY
    )
    _, outcome = _solved(variables)
    assert outcome.point is not None
    assert variables.handlings(outcome.point) == ((handling,), ())


def test_identical_requests_are_put_in_order() -> None:
    request = Request(id="a", prompt_tokens=4, output_tokens=2)
    instance = Instance(
        name="twins", cost=LINEAR, limits=Limits(kv_tokens=9, batch_tokens=64, host_kv_tokens=9),
        requests=(request, msgspec.structs.replace(request, id="b")),
    )  # fmt: skip
    variables = CallsNetworkVariables(instance, least=1, most=4)
    late_first = from_steps(
        [(1, Kind.PROCESS, 1, 4), (1, Kind.PROCESS, 2, 1), (0, Kind.PROCESS, 3, 4),
         (0, Kind.PROCESS, 4, 1)]
    )  # fmt: skip
    point = variables.encode(late_first)
    assert build(variables).matrix().violation(point) < 1e-6
    assert _first_batches(variables.decode(point)) == [1, 3]


def _first_batches(schedule: Schedule) -> list[int]:
    """Of every request, the first batch in which something happens to it."""
    requests = np.unique(schedule.request)
    return [int(schedule.first_batch[schedule.request == i].min()) for i in requests]


def test_what_is_not_covered_is_refused() -> None:
    instance = _one_call()
    with pytest.raises(UnsupportedError, match="no-hold"):
        CallsNetworkVariables(instance, least=1, most=7, policies=["no-hold"])
    with pytest.raises(UnsupportedError, match="policy 'lifo'"):
        CallsNetworkVariables(instance, least=1, most=7, policies=["lifo"])
    paced = msgspec.structs.replace(
        instance, requests=(msgspec.structs.replace(instance.requests[0], tpot_slo_s=0.1),)
    )
    with pytest.raises(UnsupportedError, match="TPOT"):
        CallsNetworkVariables(paced, least=1, most=7, objective=Objective.GOODPUT)
    with pytest.raises(InfeasibleError, match="within 3 batches"):
        CallsNetworkVariables(instance, least=1, most=3)
    chunked = from_steps(
        [(0, Kind.PROCESS, 1, 2), (0, Kind.PROCESS, 2, 2), (0, Kind.PROCESS, 3, 3),
         (0, Kind.PROCESS, 4, 1), (1, Kind.PROCESS, 1, 4), (1, Kind.PROCESS, 2, 1),
         (1, Kind.PROCESS, 3, 1), (1, Kind.PROCESS, 4, 1)]
    )  # fmt: skip
    assert check(instance, chunked) == ()
    with pytest.raises(UnsupportedError, match="several batches"):
        CallsNetworkVariables(instance, least=1, most=7).encode(chunked)
