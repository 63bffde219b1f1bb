"""Columns of the network formulation: types, windows, arcs, encode and decode."""

from __future__ import annotations

import itertools

import msgspec
import numpy as np
import pytest

from optsched.constraints.network import build
from optsched.cost import CostModel
from optsched.errors import InfeasibleError, InvalidInputError, UnsupportedError
from optsched.instance import Call, Instance, Limits, Request
from optsched.model.horizon import least_makespan_s, most_batches
from optsched.model.network import NetworkVariables, bounding_variables, estimated_columns
from optsched.model.network_arcs import ArcKind
from optsched.model.patterns import Items, dearest_pattern, pattern_items
from optsched.model.types import request_types
from optsched.objective import Objective
from optsched.schedule import Kind, from_steps
from optsched.simulate import simulate
from tests.oracle import optimum
from tests.tiny import LINEAR, random_instance

EVICT, PROCESS = Kind.EVICT, Kind.PROCESS


def _instance(*shapes: tuple[int, int], cost: CostModel = LINEAR, **limits: int) -> Instance:
    return Instance(
        name="network",
        limits=Limits(**{"kv_tokens": 40, "batch_tokens": 100, **limits}),
        cost=cost,
        requests=tuple(
            Request(id=f"r{i}", prompt_tokens=prompt, output_tokens=output)
            for i, (prompt, output) in enumerate(shapes)
        ),
    )


@pytest.mark.parametrize("objective", list(Objective))
@pytest.mark.parametrize("arrivals", [False, True])
def test_columns_are_estimated_from_above_but_not_by_far(
    objective: Objective, arrivals: bool
) -> None:
    instance = random_instance(7, most_requests=4, most_output=4, arrivals=arrivals, slos=True)
    batches = int(instance.output_tokens.sum())
    estimate = estimated_columns(instance, batches, objective=objective)
    variables = NetworkVariables(instance, least=1, most=batches, objective=objective)
    assert variables.columns / 4 <= estimate <= 4 * variables.columns


def test_types_group_identical_requests() -> None:
    types = request_types(_instance((4, 2), (3, 2), (4, 2)))
    assert [(t.prompt_tokens, t.output_tokens, t.members) for t in types] == [
        (3, 2, (1,)),
        (4, 2, (0, 2)),
    ]
    assert [t.count for t in types] == [1, 2]


def test_arcs_of_one_request_that_just_fits() -> None:
    variables = NetworkVariables(_instance((4, 3)), least=3, most=3)
    arcs = variables.arcs
    assert [
        (ArcKind(k).label, g, j)
        for k, g, j in zip(
            arcs.kind.tolist(), arcs.stage.tolist(), arcs.batch.tolist(), strict=True
        )
    ] == [("fill", 0, 1), ("decode", 1, 2), ("decode", 2, 3)]
    assert arcs.cached.tolist() == [4, 5, 6]
    assert arcs.tokens.tolist() == [4, 1, 1]


def test_arcs_carry_whole_pages_and_the_most_that_fit() -> None:
    variables = NetworkVariables(
        _instance((4, 2), (4, 2), (4, 2), kv_tokens=15, block_tokens=3), least=1, most=6
    )
    arcs = variables.arcs
    fill = arcs.of(ArcKind.FILL) & (arcs.stage == 0)
    assert set(arcs.pages[fill].tolist()) == {6}
    assert set(arcs.most[fill].tolist()) == {2}
    assert set(arcs.most[arcs.of(ArcKind.WAIT) & (arcs.stage == 0)].tolist()) == {3}


@pytest.mark.parametrize(
    ("policies", "absent"),
    [
        (("no-evict",), {ArcKind.EVICT, ArcKind.RESTORE}),
        (("no-hold",), {ArcKind.HOLD, ArcKind.RESTORE}),
        ((), {ArcKind.RESTORE}),
    ],
)
def test_policies_leave_out_arcs(policies: tuple[str, ...], absent: set[ArcKind]) -> None:
    variables = NetworkVariables(_instance((4, 3), (4, 3)), least=1, most=8, policies=policies)
    assert set(ArcKind) - {ArcKind(k) for k in variables.arcs.kind} == absent


def test_encode_then_decode_gives_the_schedule_back() -> None:
    # r0 is evicted in batch 2 and refilled in batch 3; r1 holds in batch 3.
    steps = [
        (0, PROCESS, 1, 4), (0, EVICT, 2, 0), (0, PROCESS, 3, 5),
        (1, PROCESS, 1, 2), (1, PROCESS, 2, 1), (1, PROCESS, 4, 1),
    ]  # fmt: skip
    instance, schedule = _instance((4, 2), (2, 3)), from_steps(steps)
    variables = NetworkVariables(instance, least=1, most=5)
    point = variables.encode(schedule)
    milp = build(variables)
    assert milp.matrix().violation(point) == 0.0
    assert milp.value(point) == pytest.approx(simulate(instance, schedule).makespan_s)
    assert variables.decode(point).same_as(schedule)


def test_encode_then_decode_gives_a_chunked_schedule_back() -> None:
    # r1 begins while r0 is filled; r0 is evicted, restored without its last token, and decodes.
    cost = msgspec.structs.replace(LINEAR, p_kv=0.0, p_req=0.0)
    steps = [
        (0, PROCESS, 1, 3), (0, PROCESS, 2, 1), (1, PROCESS, 2, 2), (1, PROCESS, 3, 3),
        (0, EVICT, 3, 0), (0, PROCESS, 4, 4), (0, PROCESS, 5, 1),
    ]  # fmt: skip
    instance, schedule = _instance((4, 2), (5, 1), cost=cost), from_steps(steps)
    variables = NetworkVariables(instance, least=1, most=6, chunking=True)
    point = variables.encode(schedule)
    milp = build(variables)
    assert milp.matrix().violation(point) == 0.0
    assert milp.value(point) == pytest.approx(simulate(instance, schedule).makespan_s)
    assert point[variables.partials.begun].sum() == 2
    assert variables.decode(point).same_as(schedule)


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([(0, PROCESS, 1, 2), (0, PROCESS, 2, 2), (0, PROCESS, 3, 1)], "another partial fill"),
        ([(0, PROCESS, 1, 4)], "1 batches"),
        ([(0, PROCESS, 7, 4), (0, PROCESS, 8, 1)], "8 batches"),
        ([(0, PROCESS, 1, 4), (0, EVICT, 2, 0), (0, PROCESS, 4, 5)], "eviction|evict"),
        ([(0, PROCESS, 1, 5), (0, PROCESS, 2, 1)], "5 of 4 tokens"),
        ([(0, PROCESS, 1, 4), (0, Kind.SWAP_OUT, 2, 0), (0, Kind.SWAP_IN, 3, 0)], "a swap"),
        ([(0, PROCESS, 1, 3), (0, EVICT, 2, 0), (0, PROCESS, 3, 4)], "partial or empty"),
        ([(0, PROCESS, 1, 4), (0, PROCESS, 2, 1), (1, PROCESS, 3, 1)], "before it has finished"),
    ],
)
def test_encode_refuses_schedules_outside_its_class(
    steps: list[tuple[int, int, int, int]], message: str
) -> None:
    instance = _instance((4, 2), (2, 2))
    variables = NetworkVariables(instance, least=2, most=6, policies=("no-evict",))
    if not any(step[0] == 1 for step in steps):
        steps = [*steps, (1, PROCESS, 1, 2), (1, PROCESS, 2, 1)] if len(steps) > 1 else steps
    with pytest.raises(UnsupportedError, match=message):
        variables.encode(from_steps(steps))


def test_encode_refuses_two_partial_first_fills() -> None:
    steps = [
        (0, PROCESS, 1, 2), (1, PROCESS, 1, 2), (0, PROCESS, 2, 2), (1, PROCESS, 2, 1),
    ]  # fmt: skip
    variables = NetworkVariables(_instance((4, 1), (3, 1)), least=1, most=3, chunking=True)
    with pytest.raises(UnsupportedError, match="2 first fills are partial after batch 1"):
        variables.encode(from_steps(steps))


def test_what_the_formulation_does_not_cover_is_refused() -> None:
    late = Request(id="late", prompt_tokens=2, output_tokens=2, arrival_s=1.0)
    calling = Request(
        id="calling", prompt_tokens=2, output_tokens=3,
        calls=(Call(after_tokens=1, duration_s=0.5, response_tokens=0),),
    )  # fmt: skip
    plain = _instance((4, 2))
    with_late, with_calling = (
        msgspec.structs.replace(plain, requests=(*plain.requests, r)) for r in (late, calling)
    )
    with pytest.raises(UnsupportedError, match="without calls"):
        NetworkVariables(with_calling, least=1, most=9)
    with pytest.raises(UnsupportedError, match="cannot chunk with arrivals"):
        NetworkVariables(with_late, least=1, most=9, chunking=True)
    with pytest.raises(UnsupportedError, match="cannot chunk for mean-ttft"):
        NetworkVariables(plain, least=1, most=9, chunking=True, objective=Objective.MEAN_TTFT)
    swapping = _instance((4, 2), host_kv_tokens=8)
    with pytest.raises(UnsupportedError, match="host_kv_tokens = 8"):
        NetworkVariables(swapping, least=1, most=9)
    assert NetworkVariables(swapping, least=1, most=9, policies=("no-swap",)).columns
    with pytest.raises(UnsupportedError, match="policy 'preserve'"):
        NetworkVariables(plain, least=1, most=9, policies=("preserve",))
    for policy in ("no-chunk", "no-hold", "nonpreemptive"):
        with pytest.raises(UnsupportedError, match="cannot chunk"):
            NetworkVariables(plain, least=1, most=9, chunking=True, policies=(policy,))
    dear = _instance((4, 2), cost=CostModel(pieces=((1.0, 0.0),), d_req=5.0))
    with pytest.raises(UnsupportedError, match="cheaper than the decode"):
        bounding_variables(dear, least=1, most=9)


def test_impossible_instances_and_horizons_are_named() -> None:
    with pytest.raises(InfeasibleError, match="needs 43 KV tokens"):
        NetworkVariables(_instance((40, 4)), least=1, most=9)
    with pytest.raises(InfeasibleError, match="fill of 20 tokens"):
        NetworkVariables(_instance((20, 2), batch_tokens=10), least=1, most=9)
    with pytest.raises(InfeasibleError, match="needs 3 batches, the horizon has 2"):
        NetworkVariables(_instance((20, 2), batch_tokens=10), least=1, most=2, chunking=True)
    late = Request(id="late", prompt_tokens=2, output_tokens=4, arrival_s=1.0)
    first = Request(id="first", prompt_tokens=2, output_tokens=1)
    instance = msgspec.structs.replace(_instance((4, 2)), requests=(late, first))
    with pytest.raises(InfeasibleError, match="needs 4 batches, the horizon has 3"):
        NetworkVariables(instance, least=1, most=9, most_late=3)
    with pytest.raises(InvalidInputError, match="least <= most"):
        NetworkVariables(_instance((4, 2)), least=4, most=3)


@pytest.mark.parametrize("seed", range(40))
def test_horizon_contains_every_optimal_schedule(seed: int) -> None:
    instance = random_instance(seed, pages=seed % 2 == 0, tight=seed % 3 == 0)
    makespan, best = optimum(instance)
    assert least_makespan_s(instance, best.batch_count) <= makespan * (1 + 1e-9)
    most = most_batches(instance, makespan)
    assert best.batch_count <= most
    assert least_makespan_s(instance, most + 1) > makespan


def test_horizon_of_one_piece_is_the_makespan_over_a_batch() -> None:
    # const = both requests' fills and decodes; 3 ms are left for each further batch of 1 s.
    instance = _instance((4, 2), (4, 2), cost=CostModel(pieces=((1.0, 0.0),), d_req=0.25))
    assert least_makespan_s(instance, 2) == pytest.approx(2.0)
    assert most_batches(instance, 5.75) == 5
    dear = _instance((4, 2), cost=CostModel(pieces=((1.0, 0.25),), d_req=9.0))
    # The decode costs 9.25, the refill of 5 tokens 1.25.
    assert least_makespan_s(dear, 3) == pytest.approx(3 + 4 * 0.25 + 5 * 0.25)
    with pytest.raises(InvalidInputError, match="some schedule"):
        most_batches(dear, 1.0)


def _dearest_by_enumeration(items: Items, prices: np.ndarray) -> float:
    choices = [[None, *np.flatnonzero(items.type == t)] for t in items.slots]
    best = 0.0
    for pattern in itertools.product(*choices):
        taken = [int(k) for k in pattern if k is not None]
        if items.pages[taken].sum() <= items.capacity:
            best = max(best, float(prices[taken].sum()))
    return best


@pytest.mark.parametrize("seed", range(20))
def test_dearest_pattern_equals_enumeration(seed: int) -> None:
    instance = random_instance(seed, most_requests=4, pages=True)
    items = pattern_items(instance)
    prices = np.random.default_rng(seed).integers(0, 9, len(items)).astype(float)
    value, counts = dearest_pattern(items, prices)
    assert value == _dearest_by_enumeration(items, prices)
    assert counts @ prices == value
    assert counts @ items.pages <= items.capacity
