"""Each family of the network formulation is needed: without it, its own rule is broken."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from optsched.check import check
from optsched.constraints.network import FAMILIES, Hull, build
from optsched.constraints.network.rounding import thresholds
from optsched.cost import CostModel
from optsched.instance import Instance, Limits, Request
from optsched.model.milp import Milp
from optsched.model.network import NetworkVariables
from optsched.objective import Objective
from optsched.schedule import Kind, from_steps
from optsched.simulate import simulate
from optsched.solvers import solver
from optsched.solvers.outcome import SolverOptions, Termination
from tests.oracle import optimum
from tests.tiny import LINEAR, random_instance

DEAR_DECODES = CostModel(pieces=((1.0, 0.0),), d_req=10.0)
PIECES = CostModel(pieces=((1.0, 0.0), (0.5, 0.25)))
PHASES = CostModel(pieces=((1.0, 0.0),), d0=0.5, p0=0.25)


def _instance(
    shapes: Sequence[tuple[int, int]], cost: CostModel = LINEAR, **limits: int
) -> Instance:
    return Instance(
        name="families",
        limits=Limits(**{"kv_tokens": 100, "batch_tokens": 100, **limits}),
        cost=cost,
        requests=tuple(
            Request(id=f"r{i}", prompt_tokens=prompt, output_tokens=output)
            for i, (prompt, output) in enumerate(shapes)
        ),
    )


def _minimum(milp: Milp) -> np.ndarray:
    outcome = solver("highs")(milp, SolverOptions(relative_gap=0.0))
    assert outcome.termination is Termination.FINISHED, outcome.message
    assert outcome.point is not None
    return outcome.point


def _linear(milp: Milp) -> np.ndarray:
    return _minimum(milp)


def _broken(variables: NetworkVariables, without: str) -> set[str]:
    """Rules that the optimum of the program without a family (and its strengthening) breaks."""
    kept = {name: f for name, f in FAMILIES.items() if name not in (without, "rounding")}
    schedule = variables.decode(_minimum(build(variables, kept)))
    policies = tuple(variables.policies | {"no-chunk"})
    return {v.rule for v in check(variables.instance, schedule, policies=policies)}


@pytest.mark.parametrize(
    ("rule", "instance", "batches", "policies"),
    [
        # Two requests that do not fit together, in half the batches that they need.
        ("kv_capacity", _instance([(4, 3), (3, 3)], kv_tokens=6), 3, ()),
        # Two prompts in one batch that takes one.
        ("batch_tokens", _instance([(4, 2), (3, 2)], batch_tokens=4), 2, ()),
        ("prefill_tokens", _instance([(4, 2), (3, 2)], prefill_tokens=4), 2, ()),
        ("batch_requests", _instance([(4, 2), (3, 2)], batch_requests=1), 2, ()),
        # A decode is so dear that a batch for the eviction alone pays.
        ("progress", _instance([(2, 2)], DEAR_DECODES), 3, ()),
        # The prompts end in one batch after the other, or one request waits too long.
        ("no-hybrid", _instance([(2, 2), (3, 3)], batch_tokens=3), 4, ("no-hybrid",)),
        # One of two requests is all that the batch needs.
        ("completion", _instance([(2, 1), (2, 1)]), 1, ()),
    ],
)
def test_without_a_family_exactly_its_rule_is_broken(
    rule: str, instance: Instance, batches: int, policies: tuple[str, ...]
) -> None:
    variables = NetworkVariables(instance, least=batches, most=batches, policies=policies)
    assert _broken(variables, rule) == {rule}


def test_without_residency_what_is_not_cached_is_evicted() -> None:
    # Refills are cheap and decodes dear: a request is evicted in the batch that should fill it.
    instance = _instance([(1, 2), (1, 2)], DEAR_DECODES)
    variables = NetworkVariables(instance, least=1, most=3)
    assert "residency" in _broken(variables, "residency")


@pytest.mark.parametrize(
    ("family", "instance"),
    [
        ("batch_time", _instance([(4, 1), (4, 1)], PIECES)),
        ("phases", _instance([(4, 2), (4, 2)], PHASES)),
    ],
)
def test_without_a_price_family_the_program_is_too_cheap(family: str, instance: Instance) -> None:
    variables = NetworkVariables(instance, least=1, most=4)
    for families, priced_right in (
        (FAMILIES, True),
        ({name: f for name, f in FAMILIES.items() if name != family}, False),
    ):
        milp = build(variables, families)
        point = _minimum(milp)
        makespan = simulate(instance, variables.decode(point)).makespan_s
        assert (milp.value(point) == pytest.approx(makespan, rel=1e-6)) is priced_right


@pytest.mark.parametrize(
    ("column", "entry", "value"),
    [
        ("begun", 0, 0),  # tokens of a fill that has not begun
        ("tokens", 0, 0),  # a begun fill without tokens
        ("begun", 1, 1),  # a second partial first fill
        ("tokens", 2, 1),  # tokens that vanish before the fill is complete
        ("wait", 2, 0),  # a partial fill of a request that is elsewhere
    ],
)
def test_chunking_rows_refuse(column: str, entry: int, value: int) -> None:
    # r0 is filled over batches 1 to 3 and holds 2 and 4 tokens in between; r1 follows.
    instance = _instance([(5, 1), (4, 1)])
    variables = NetworkVariables(instance, least=1, most=5, chunking=True)
    process = Kind.PROCESS
    steps = [(0, process, 1, 2), (0, process, 2, 2), (0, process, 3, 1), (1, process, 4, 4)]
    point = variables.encode(from_steps(steps))
    rows = FAMILIES["chunking"](instance, variables)
    assert rows.violation(point) == 0.0
    partials = variables.partials
    # The entries of r0 after batch 1, of r1 after batch 1, and of r0 after batch 2.
    r0, r1 = (
        np.flatnonzero(partials.type == t)[np.argsort(partials.batch[partials.type == t])]
        for t in (1, 0)
    )
    point[getattr(partials, column)[[r0[0], r1[0], r0[1]][entry]]] = value
    if entry == 1:
        point[partials.tokens[r1[0]]] = 1
    assert rows.violation(point) > 0.5


# Families that only arrivals, objectives of the clock and conditions need.
CLOCKED = (
    "arrival", "at_most", "clock", "counts", "deadlines", "earliest_ends", "exact_time", "fcfs",
    "goodput", "intervals", "left", "max_latency", "no-hold", "pace", "shares",
)  # fmt: skip


@pytest.mark.parametrize("name", sorted(set(FAMILIES) - set(CLOCKED)))
def test_families_bear_the_names_of_their_blocks(name: str) -> None:
    instance = _instance(
        [(4, 2), (3, 2)], CostModel(pieces=((1.0, 0.0), (0.5, 0.25)), d0=0.5), kv_tokens=8,
        batch_tokens=6, prefill_tokens=4, batch_requests=1,
    )  # fmt: skip
    variables = NetworkVariables(instance, least=1, most=8, chunking=True, policies=("no-hybrid",))
    block = FAMILIES[name](instance, variables)
    assert block.name == name
    assert block.rows > 0
    assert block.starts[-1] == block.columns.size
    assert block.columns.max() < variables.columns


@pytest.mark.parametrize("name", CLOCKED)
def test_families_of_the_clock_bear_the_names_of_their_blocks(name: str) -> None:
    requests = tuple(
        Request(
            id=f"r{i}", prompt_tokens=3, output_tokens=2, arrival_s=0.5 * i, ttft_slo_s=4.0,
            tpot_slo_s=2.0, latency_slo_s=6.0,
        )
        for i in range(3)
    )  # fmt: skip
    instance = Instance(
        name="clocked", limits=Limits(kv_tokens=8, batch_tokens=8), cost=LINEAR, requests=requests
    )
    variables = NetworkVariables(
        instance, least=1, most=6, policies=("fcfs", "no-hold"), objective=Objective.MEAN_LATENCY,
        at_most={Objective.GOODPUT: 1.0, Objective.MAX_LATENCY: 9.0},
    )  # fmt: skip
    block = FAMILIES[name](instance, variables)
    assert block.name == name
    assert block.rows > 0
    assert block.columns.max() < variables.columns
    plain = NetworkVariables(_instance([(4, 2), (3, 2)]), least=1, most=8)
    assert FAMILIES[name](plain.instance, plain).rows == 0


def test_thresholds_are_the_smallest_of_their_right_side() -> None:
    assert thresholds(64, 16, 23) == [22, 17, 13]
    assert thresholds(16, 8, 15) == [9, 6]
    assert thresholds(10, 20, 20) == []


def test_hull_rows_hold_at_every_schedule_and_raise_the_bound() -> None:
    requests = tuple(Request(id=f"r{i}", prompt_tokens=8, output_tokens=8) for i in range(8))
    instance = Instance(
        name="B8 I8 O8 M16", limits=Limits(kv_tokens=16, batch_tokens=4096),
        cost=CostModel(pieces=((9e-3, 7e-5),), d_kv=3e-7, p_sq=2e-8, p_kv=3e-8, p_req=5e-5),
        requests=requests,
    )  # fmt: skip
    variables = NetworkVariables(instance, least=56, most=62)
    plain = {name: f for name, f in FAMILIES.items() if name != "rounding"}
    hull = Hull(instance, _linear)
    values = []
    for _ in range(10):
        milp = build(variables, {**plain, "hull": hull.rows})
        relaxed = Milp(**{**vars(milp), "integer": np.zeros(milp.columns, dtype=bool)})
        point = _linear(relaxed)
        values.append(relaxed.value(point))
        if hull.separate(variables, point) is None:
            break
    # One request of 8 tokens counts half of one that is larger, and two of those fill a batch.
    assert hull.found == {(1, 2, 2, 2, 2, 2, 2, 2): 2}
    assert values == pytest.approx([0.5129950, 0.5497552], abs=1e-6)


def test_hull_and_rounding_rows_cut_off_no_schedule() -> None:
    separated = 0
    for seed in range(25):
        instance = random_instance(seed, most_requests=4, most_prompt=5, pages=True)
        _, best = optimum(instance, ["no-chunk"])
        variables = NetworkVariables(instance, least=1, most=best.batch_count + 1)
        start = variables.encode(best)
        hull = Hull(instance, _linear)
        # Points that are far from any schedule: its own with flow strewn over other arcs.
        rng = np.random.default_rng(seed)
        for _ in range(3):
            strewn = rng.random(start.size) * (rng.random(start.size) < 0.3)
            hull.separate(variables, start + 3 * strewn)
        assert hull.rows(instance, variables).violation(start) == 0.0, seed
        assert FAMILIES["rounding"](instance, variables).violation(start) == 0.0, seed
        separated += bool(hull.found)
    assert separated >= 20
