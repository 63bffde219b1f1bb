"""The exhaustive search against hand-worked optima, an unpruned search that reads the rules one by
one, the checker and the simulator."""

from __future__ import annotations

import math
from dataclasses import replace

import msgspec
import pytest

from optsched.check import check
from optsched.cost import CostModel
from optsched.errors import InfeasibleError, UnknownNameError, UnsupportedError
from optsched.instance import Limits
from optsched.simulate import simulate
from tests.oracle import optimum
from tests.oracle_by_the_rules import by_the_rules, replayed
from tests.oracle_cases import cases, instance_of, value_or_inf

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
    with pytest.raises(UnknownNameError, match="no-evcit"):
        optimum(instance, ("no-evcit",))
    with pytest.raises(UnknownNameError, match="median-latency"):
        optimum(instance, objective="median-latency")
    with pytest.raises(UnsupportedError, match="after 3 states"):
        optimum(instance_of((2, 2), (2, 2), M=4), prune=False, most_states=3)
