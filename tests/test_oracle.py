"""The exhaustive search against hand-worked optima, an unpruned search that reads the rules one by
one, the checker and the simulator."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Collection, Iterator
from dataclasses import replace

import msgspec
import pytest

from optsched.check import check
from optsched.cost import CostModel
from optsched.errors import InfeasibleError, UnknownNameError, UnsupportedError
from optsched.instance import Call, Instance, Limits, Request
from optsched.schedule import Kind, Schedule
from optsched.simulate import simulate
from tests.oracle import POLICIES, optimum
from tests.tiny import random_instance

Action = int  # tokens processed; 0 is none and -1 an eviction
EVICT = -1
State = tuple[tuple[int, int], ...]  # (m, g) per request
SECOND_PER_BATCH = CostModel(pieces=((1.0, 0.0),))
POLICY_SETS = [
    policies for size in range(5) for policies in itertools.combinations(sorted(POLICIES), size)
]


def instance_of(
    *requests: tuple[int, int] | tuple[int, int, float],
    cost: CostModel = SECOND_PER_BATCH,
    M: int = 100,
    C: int = 100,
    **limits: int,
) -> Instance:
    return Instance(
        name="by-hand",
        limits=Limits(kv_tokens=M, batch_tokens=C, **limits),
        cost=cost,
        requests=tuple(
            Request(id=f"r{k}", prompt_tokens=r[0], output_tokens=r[1], arrival_s=sum(r[2:]))
            for k, r in enumerate(requests)
        ),
    )


def after_batch(
    instance: Instance, state: State, actions: tuple[Action, ...], policies: Collection[str]
) -> tuple[State, float] | None:
    """State after a batch and how long the batch takes; None if a rule forbids it."""
    limits, cost = instance.limits, instance.cost
    assert cost.p_mc is not None
    tokens = prefill = processed = decodes = used = 0
    seconds = 0.0
    following = []
    for request, (m, g), action in zip(instance.requests, state, actions, strict=True):
        s = request.prompt_tokens + g
        if g == request.output_tokens:
            if action != 0:
                return None
        elif action == EVICT:
            if m == 0 or "no-evict" in policies:
                return None
            m = 0
        elif action == 0:
            if m > 0 and "no-hold" in policies:
                return None
        else:
            if action > s - m or ("no-chunk" in policies and action < s - m):
                return None
            tokens += action
            processed += 1
            if action == 1 and m == s - 1 and m >= request.prompt_tokens:
                decodes += 1
                seconds += cost.d_kv * m + cost.d_req
            else:
                prefill += action
                seconds += cost.p_sq * action**2 + cost.p_mc * m * action + cost.p_kv * m
                seconds += cost.p_req
            m += action
            g += m == s
        used += limits.block_tokens * math.ceil(m / limits.block_tokens)
        following.append((0 if g == request.output_tokens else m, g))
    within = (
        tokens >= 1
        and used <= limits.kv_tokens
        and tokens <= limits.batch_tokens
        and prefill <= (limits.prefill_tokens or math.inf)
        and processed <= (limits.batch_requests or math.inf)
    )
    if not within or ("no-hybrid" in policies and decodes and prefill):
        return None
    seconds += max(alpha + beta * tokens for alpha, beta in cost.pieces)
    seconds += cost.d0 * (decodes > 0) + cost.p0 * (prefill > 0)
    return tuple(following), seconds


def start_of_batch(instance: Instance, actions: tuple[Action, ...], now: float) -> float:
    first = min(request.arrival_s for request in instance.requests)
    pairs = zip(instance.requests, actions, strict=True)
    return max(now, *(r.arrival_s - first if action > 0 else now for r, action in pairs))


def by_the_rules(instance: Instance, policies: Collection[str] = ()) -> float:
    """Least makespan by Dijkstra's algorithm over every combination of actions; inf if none."""
    start: State = tuple((0, 0) for _ in instance.requests)
    goal: State = tuple((0, r.output_tokens) for r in instance.requests)
    heap, settled = [(0.0, start)], set()
    while heap:
        now, state = heapq.heappop(heap)
        if state == goal:
            return now
        if state in settled:
            continue
        settled.add(state)
        most = [r.prompt_tokens + g - m for r, (m, g) in zip(instance.requests, state, strict=True)]
        for actions in itertools.product(*(range(EVICT, limit + 1) for limit in most)):
            result = after_batch(instance, state, actions, policies)
            if result is not None and result[0] not in settled:
                end = start_of_batch(instance, actions, now) + result[1]
                heapq.heappush(heap, (end, result[0]))
    return math.inf


def replayed(instance: Instance, schedule: Schedule, policies: Collection[str] = ()) -> float:
    """Makespan of a schedule, executed batch by batch; fails if a rule forbids one."""
    actions: dict[int, list[Action]] = {}
    for request, kind, first, count, tokens in zip(
        schedule.request.tolist(), schedule.kind.tolist(), schedule.first_batch.tolist(),
        schedule.batches.tolist(), schedule.tokens.tolist(), strict=True,
    ):  # fmt: skip
        for batch in range(first, first + count):
            row = actions.setdefault(batch, [0] * len(instance))
            assert row[request] == 0, "two actions of one request in a batch"
            row[request] = tokens if kind == Kind.PROCESS else EVICT
    assert sorted(actions) == list(range(1, schedule.batch_count + 1))
    now, state = 0.0, tuple((0, 0) for _ in instance.requests)
    for _, row in sorted(actions.items()):
        result = after_batch(instance, state, tuple(row), policies)
        assert result is not None, f"forbidden: {row} in {state}"
        now = start_of_batch(instance, tuple(row), now) + result[1]
        state = result[0]
    assert state == tuple((0, r.output_tokens) for r in instance.requests)
    return now


def cases(
    count: int, *, most_requests: int = 3, most_prompt: int = 6, most_output: int = 4
) -> Iterator[tuple[Instance, tuple[str, ...]]]:
    """Random instances, with and without arrivals, pages and binding limits, and policies."""
    for seed in range(count):
        instance = random_instance(
            seed, most_requests=most_requests, most_prompt=most_prompt, most_output=most_output,
            arrivals=seed % 2 == 1, pages=seed // 2 % 2 == 1, tight=seed // 4 % 2 == 1,
        )  # fmt: skip
        yield instance, POLICY_SETS[seed * 7 % 16] if seed % 3 else ()


def value_or_inf(instance: Instance, policies: Collection[str], *, prune: bool = True) -> float:
    try:
        return optimum(instance, tuple(policies), prune=prune)[0]
    except InfeasibleError:
        return math.inf


# --- optima worked out by hand -------------------------------------------------------------------


@pytest.mark.parametrize("output", [1, 2, 5])
def test_one_request_alone_takes_a_batch_per_token(output: int) -> None:
    assert optimum(instance_of((3, output)))[0] == output


def test_coefficients_of_a_fill_and_a_decode() -> None:
    cost = CostModel(
        pieces=((1.0, 0.1),), d0=0.02, d_kv=0.003, d_req=0.0004,
        p0=0.05, p_sq=0.006, p_mc=0.07, p_kv=0.008, p_req=0.0009,
    )  # fmt: skip
    # Fill of 2: 1.2 + 0.05 + 4 * 0.006 + 0.0009. Decode on m = 2: 1.1 + 0.02 + 2 * 0.003 + 0.0004.
    expected = (1.2 + 0.05 + 0.024 + 0.0009) + (1.1 + 0.02 + 0.006 + 0.0004)
    assert optimum(instance_of((2, 2), cost=cost))[0] == pytest.approx(expected, abs=1e-12)
    # With C = 1 the fill is two chunks, the second on m = 1 (a prefill: m < I), then the decode.
    chunks = (1.1 + 0.05 + 0.006 + 0.0009) + (1.1 + 0.05 + 0.006 + 0.07 + 0.008 + 0.0009)
    expected = chunks + (1.1 + 0.02 + 0.006 + 0.0004)
    assert optimum(instance_of((2, 2), cost=cost, C=1))[0] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("M", "policies", "batches"),
    [
        # Two requests of I = O = 2; each holds 2 after its fill and 3 in its last batch.
        (6, (), 2),  # both fill, both decode: 3 + 3 <= 6
        (5, (), 3),  # 3 + 3 > 5, so two batches do not do; fill both, decode one, decode one: 3
        (5, ("no-hold",), 3),  # fill one; decode it beside the other's fill (3 + 2); decode
        (5, ("no-hold", "no-hybrid"), 3),  # fill both; decode one, evict the other; refill it
        (5, ("no-hold", "no-hybrid", "no-evict"), 4),  # one after the other
        (5, ("no-hybrid", "no-evict"), 3),  # fill both, decode one while the other holds, decode
        (4, (), 3),  # fill both; decode one (3), evict the other, as 3 + 2 > 4; refill it (3)
        # Both filled at 2 + 2 would then need 3 + 2: never both filled before one ends its two
        # batches, and the other needs a fill and a decode after that.
        (4, ("no-evict",), 4),
    ],
)
def test_two_requests_short_of_memory(M: int, policies: tuple[str, ...], batches: int) -> None:
    instance = instance_of((2, 2), (2, 2), M=M)
    makespan_s, schedule = optimum(instance, policies)
    assert makespan_s == batches
    assert schedule.batch_count == batches


def test_eviction_is_part_of_the_optimum() -> None:
    assert optimum(instance_of((2, 2), (2, 2), M=4))[1].evictions == 1


def test_chunks_stay_below_the_knot() -> None:
    # Tokens 1, 2, 3, 4 take 1, 2, 7, 12 s: four tokens in chunks of 2 + 2, or of one, take 4 s.
    knee = CostModel(pieces=((1.0, 0.0), (-8.0, 5.0)))
    assert optimum(instance_of((4, 1), cost=knee))[0] == 4
    assert optimum(instance_of((4, 1), cost=knee), ("no-chunk",))[0] == 12


def test_arrivals_idle_and_wait() -> None:
    assert optimum(instance_of((1, 1), (1, 1, 10.0)))[0] == 11  # nothing to do from 1 to 10
    assert optimum(instance_of((1, 1), (1, 1, 0.5)))[0] == 1.5  # wait for it: both in one batch
    assert optimum(instance_of((1, 1), (1, 1, 0.5), batch_requests=1))[0] == 2
    assert optimum(instance_of((1, 1, 7.0), (1, 1, 7.5)))[0] == 1.5  # the clock starts at 7


def test_limits_of_a_batch() -> None:
    three = [(1, 1)] * 3
    assert optimum(instance_of(*three, M=4))[0] == 1
    assert optimum(instance_of(*three, M=4, block_tokens=2))[0] == 2  # a page of 2 each
    assert optimum(instance_of(*three, M=5, block_tokens=2))[0] == 2  # the fifth token is no page
    assert optimum(instance_of(*three, batch_requests=2))[0] == 2
    assert optimum(instance_of(*three, C=1))[0] == 3
    # P = 1: a fill a batch, three in all; the last of the fills leaves one decode to do. P does
    # not count decodes, C = 1 does: six tokens, six batches.
    assert optimum(instance_of(*[(1, 2)] * 3, prefill_tokens=1))[0] == 4
    assert optimum(instance_of(*[(1, 2)] * 3, C=1))[0] == 6


# --- against a search that reads the rules one by one --------------------------------------------


def test_equals_the_literal_search() -> None:
    infeasible = 0
    for instance, policies in cases(150, most_prompt=4, most_output=2):
        expected = by_the_rules(instance, policies)
        infeasible += expected == math.inf
        found = value_or_inf(instance, policies)
        assert found == pytest.approx(expected, rel=1e-12), (instance, policies)
    assert 0 < infeasible < 60


def test_pruned_equals_unpruned() -> None:
    for instance, policies in cases(160, most_prompt=4, most_output=3):
        plain = value_or_inf(instance, policies, prune=False)
        assert value_or_inf(instance, policies) == pytest.approx(plain, rel=1e-12), instance


def test_schedules_have_the_value_and_keep_the_rules() -> None:
    evictions = 0
    for instance, policies in cases(200):
        if value_or_inf(instance, policies) == math.inf:
            continue
        makespan_s, schedule = optimum(instance, policies)
        assert replayed(instance, schedule, policies) == pytest.approx(makespan_s, rel=1e-12)
        trace = simulate(instance, schedule)
        assert trace.makespan_s == pytest.approx(makespan_s, rel=1e-12)
        assert check(instance, schedule, trace, policies=policies) == ()
        evictions += schedule.evictions
    assert evictions > 0


def test_four_requests() -> None:
    for instance, _ in cases(12, most_requests=4, most_prompt=4, most_output=3):
        makespan_s, schedule = optimum(instance)
        assert replayed(instance, schedule) == pytest.approx(makespan_s, rel=1e-12)


# --- properties ----------------------------------------------------------------------------------


def test_order_of_requests_does_not_matter() -> None:
    for instance, policies in cases(40):
        turned = msgspec.structs.replace(instance, requests=instance.requests[::-1])
        value = value_or_inf(instance, policies)
        assert value_or_inf(turned, policies) == pytest.approx(value, rel=1e-12)


def test_more_room_and_fewer_policies_never_hurt() -> None:
    for instance, policies in cases(60):
        value = value_or_inf(instance, policies)
        free = optimum(instance)[0]
        assert free <= value * (1 + 1e-12)
        limits = instance.limits
        roomier = msgspec.structs.replace(limits, kv_tokens=limits.kv_tokens + 2)
        assert optimum(msgspec.structs.replace(instance, limits=roomier))[0] <= free * (1 + 1e-12)


def test_replay_notices_a_schedule_that_breaks_a_rule() -> None:
    instance = instance_of((2, 2), (2, 2), M=4)
    _, schedule = optimum(instance)
    tighter = msgspec.structs.replace(instance, limits=Limits(kv_tokens=3, batch_tokens=100))
    with pytest.raises(AssertionError, match="forbidden"):
        replayed(tighter, schedule)
    late = replace(schedule, first_batch=schedule.first_batch + 1)
    with pytest.raises(AssertionError):
        replayed(instance, late)


# --- refusals ------------------------------------------------------------------------------------


def test_no_schedule_is_an_error() -> None:
    with pytest.raises(InfeasibleError, match="by-hand"):
        optimum(instance_of((3, 2), M=3))  # the last batch holds 3 + 2 - 1 = 4
    with pytest.raises(InfeasibleError, match="by-hand"):
        optimum(instance_of((3, 1), C=2), ("no-chunk",))


def test_refuses_what_it_does_not_cover() -> None:
    instance = instance_of((2, 2))
    with pytest.raises(UnknownNameError, match="fcfs"):
        optimum(instance, ("fcfs",))
    with pytest.raises(UnsupportedError, match="mean-latency"):
        optimum(instance, objective="mean-latency")
    call = Call(after_tokens=1, duration_s=0.1, response_tokens=1)
    calling = msgspec.structs.replace(instance.requests[0], calls=(call,))
    with pytest.raises(UnsupportedError, match="calls"):
        optimum(msgspec.structs.replace(instance, requests=(calling,)))
    with pytest.raises(UnsupportedError, match="after 3 states"):
        optimum(instance_of((2, 2), (2, 2), M=4), prune=False, most_states=3)
