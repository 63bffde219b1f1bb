"""Right answers whatever the unit of the batch-time law: nanoseconds to gigaseconds per batch."""

from __future__ import annotations

import random
from collections.abc import Collection

import msgspec
import numpy as np
import pytest

from optsched.constraints import compact, network
from optsched.cost import CostModel
from optsched.instance import Instance, Limits, Request
from optsched.model.compact import CompactVariables
from optsched.model.horizon import most_batches
from optsched.model.milp import Milp
from optsched.model.network import NetworkVariables, bounding_variables
from optsched.solvers import solver
from optsched.solvers.lp import solve_lp
from optsched.solvers.outcome import Outcome, SolverOptions, Termination
from optsched.solvers.scaling import in_solver_units
from optsched.solvers.tighten import tighten
from tests.oracle import optimum
from tests.tiny import random_instance

COEFFICIENTS = ("d0", "d_kv", "d_req", "p0", "p_sq", "p_kv", "p_req")
# Powers of ten that a law in milliseconds is multiplied by.
POWERS = range(-6, 7, 2)


def in_units(cost: CostModel, power: int, spread: random.Random | None = None) -> CostModel:
    """``cost`` times 10^power; with ``spread`` every coefficient by up to 10^3 more or less."""

    def factor() -> float:
        return 10.0 ** (power + (spread.randint(-3, 3) if spread else 0))

    whole = factor()
    return CostModel(
        pieces=tuple((alpha * whole, beta * whole) for alpha, beta in cost.pieces),
        **{name: getattr(cost, name) * factor() for name in COEFFICIENTS},
    )


def solved(milp: Milp, back_end: str = "highs") -> Outcome:
    outcome = solver(back_end)(milp, SolverOptions(time_limit_s=60))
    assert outcome.termination in (Termination.FINISHED, Termination.GAP_REACHED)
    return outcome


def program(instance: Instance, formulation: str, policies: Collection[str], best: float) -> Milp:
    """The program that holds every schedule of up to the optimum and a batch more."""
    most = most_batches(instance, best) + 1
    if formulation == "compact":
        return compact.build(CompactVariables(instance, most, tuple(policies)))
    build = NetworkVariables if "no-chunk" in policies else bounding_variables
    variables = build(instance, least=1, most=most, policies=policies)
    hull = network.Hull(variables.instance, lambda milp: solve_lp(milp).point)
    rows = tighten(
        network.build(variables), lambda point: hull.separate(variables, point), rounds=20
    )
    assert rows.bound is None or rows.bound <= best * (1 + 1e-9)
    return rows.milp


def assert_right(milp: Milp, outcome: Outcome, best: float, *, exact: bool = True) -> None:
    assert outcome.point is not None
    assert outcome.bound is not None
    assert outcome.bound <= best * (1 + 1e-9)
    if exact:
        assert milp.value(outcome.point) == pytest.approx(best, rel=1e-7)
        assert outcome.bound >= best * (1 - 2e-6)


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("formulation", ["compact", "network"])
@pytest.mark.parametrize("mixed", [False, True])
def test_the_optimum_at_any_scale(formulation: str, power: int, mixed: bool) -> None:
    seen = 0
    for seed in range(5):
        rng = random.Random(seed)
        instance = random_instance(seed, most_requests=2, most_prompt=4, most_output=3)
        cost = in_units(instance.cost, power, rng if mixed else None)
        instance = msgspec.structs.replace(instance, cost=cost)
        policies = ("no-chunk", rng.choice(["no-evict", "no-hold"]))
        best, _ = optimum(instance, policies)
        milp = program(instance, formulation, policies, best)
        assert_right(milp, solved(milp), best)
        seen += 1
    assert seen == 5


def shape(
    pieces: tuple[tuple[float, float], ...], requests: list[tuple[int, int]], limits: Limits,
    **coefficients: float,
) -> Instance:  # fmt: skip
    return Instance(
        name="found",
        limits=limits,
        cost=CostModel(pieces=pieces, **coefficients),
        requests=tuple(
            Request(id=f"r{i}", prompt_tokens=prompt, output_tokens=output)
            for i, (prompt, output) in enumerate(requests)
        ),
    )


THOUSANDS = shape(
    ((1000.0, 0.0),), [(1, 2)] * 3,
    Limits(kv_tokens=4, batch_tokens=4, prefill_tokens=2, block_tokens=3),
    d0=1000.0, d_kv=5.0, p0=1.0, p_mc=2.0, p_req=20.0,
)  # fmt: skip
MILLIONS = shape(
    ((1e6, 0.0), (7e5, 1e5), (4e5, 2e5)), [(2, 3)] * 3,
    Limits(kv_tokens=10, batch_tokens=3, prefill_tokens=8, batch_requests=2, block_tokens=5),
    d_req=3e4, p_sq=100.0, p_mc=200.0, p_req=100.0,
)  # fmt: skip
STEEP = shape(
    ((0.0, 1000.0), (5000.0, 0.0)), [(5, 1)],
    Limits(kv_tokens=6, batch_tokens=4, prefill_tokens=6, block_tokens=3),
    d_req=1000.0, p0=1000.0, p_sq=0.01, p_mc=2000.02, p_kv=1000.0,
)  # fmt: skip
NANOSECONDS = shape(
    ((-5e-10, 2e-9), (-5e-9, 6e-9)), [(2, 2)] * 2, Limits(kv_tokens=5, batch_tokens=8),
    p_sq=1e-14, p_mc=2e-14, p_kv=1e-14, p_req=1e-10,
)  # fmt: skip
UNEVEN = shape(
    ((0.0, 7e-5), (1e-3, 2e-3), (1e-3, 2e-3)), [(3, 1), (1, 1), (1, 1)],
    Limits(
        kv_tokens=6, batch_tokens=2, prefill_tokens=2, batch_requests=1, block_tokens=5
    ),
    d_kv=1e-7, d_req=1e-3, p0=0.05, p_sq=1e-4, p_mc=2e-4, p_kv=1e-8,
)  # fmt: skip


@pytest.mark.parametrize("back_end", ["highs", "pulp:CBC"])
def test_presolve_does_not_lose_the_optimum_of_large_costs(back_end: str) -> None:
    # With costs of 1e9 HiGHS 1.15 called 9078 (and without a start, 11122) optimal.
    best, _ = optimum(THOUSANDS, ("no-hold",))
    assert best == pytest.approx(6126)
    milp = compact.build(CompactVariables(THOUSANDS, most_batches(THOUSANDS, 9078.0), ("no-hold",)))
    assert_right(milp, solved(milp, back_end), best)


@pytest.mark.parametrize("instance", [MILLIONS, STEEP, NANOSECONDS])
def test_a_bound_of_any_law(instance: Instance) -> None:
    best, _ = optimum(instance, ("no-evict",))
    milp = program(instance, "network", ("no-evict",), best)
    assert_right(milp, solved(milp), best, exact=False)


@pytest.mark.parametrize("back_end", ["highs", "cpsat"])
@pytest.mark.parametrize(
    ("instance", "policies"),
    [(NANOSECONDS, ("no-evict", "no-hold")), (UNEVEN, ("no-evict", "no-hybrid"))],
)
def test_the_optimum_of_small_and_uneven_laws(
    back_end: str, instance: Instance, policies: tuple[str, ...]
) -> None:
    if back_end == "cpsat":
        pytest.importorskip("ortools")
    best, _ = optimum(instance, policies)
    milp = program(instance, "compact", policies, best)
    outcome = solved(milp, back_end)
    assert milp.value(outcome.point) == pytest.approx(best, rel=1e-7)
    assert outcome.bound <= best * (1 + 1e-7)


@pytest.mark.parametrize("power", range(-9, 10))
def test_what_the_solver_gets_is_moderate(power: int) -> None:
    cost = in_units(random_instance(0).cost, 0)
    law = CostModel(pieces=((10.0**power, 10.0 ** (power - 3)), (0.0, 10.0**power)), d0=cost.d0)
    instance = msgspec.structs.replace(random_instance(7), cost=law)
    for milp in (
        network.build(NetworkVariables(instance, least=1, most=12, policies=("no-chunk",))),
        compact.build(CompactVariables(instance, 12)),
    ):
        scaled = in_solver_units(milp)
        costs = np.abs(scaled.milp.cost[milp.integer])
        entries = np.abs(scaled.milp.matrix().values)
        assert np.abs(scaled.milp.cost).max() <= 1e6 * (1 + 1e-9)
        assert max(costs.max(initial=0.0), entries.max()) >= 1e3 / 2
        assert entries.max() <= 2e6
        point = np.random.default_rng(power + 9).random(milp.columns)
        there = scaled.start(point)
        assert np.array_equal(scaled.point(there), point)
        assert scaled.seconds(scaled.milp.value(there)) == pytest.approx(milp.value(point))
        activity = scaled.milp.matrix().activity(there)
        assert activity == pytest.approx(milp.matrix().activity(point) * scaled.row_units)
