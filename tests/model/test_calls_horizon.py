"""Horizons and the earliest ends with calls: against the exhaustive search and by hand."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from optsched.errors import InfeasibleError
from optsched.instance import Call, Instance, Limits, Request
from optsched.model.calls_horizon import chunked_batches, completion_alone
from optsched.model.compact_batches import least_batches
from optsched.model.horizon import batch_horizon, least_makespan_s
from optsched.model.milestones import earliest_ends
from optsched.objective import Objective
from tests.oracle import optimum
from tests.tiny import LINEAR, random_instance

CALLING = Request(
    id="agent", prompt_tokens=3, output_tokens=3,
    calls=(Call(after_tokens=2, duration_s=5.0, response_tokens=4),),
)  # fmt: skip
OTHER = Request(id="other", prompt_tokens=2, output_tokens=2, arrival_s=0.5)
PAIR = Instance(
    name="pair", cost=LINEAR, limits=Limits(kv_tokens=12, batch_tokens=12),
    requests=(CALLING, OTHER),
)  # fmt: skip


def limited(**changes: int | None) -> Instance:
    """The pair with other limits."""
    return msgspec.structs.replace(PAIR, limits=msgspec.structs.replace(PAIR.limits, **changes))


def test_useful_tokens_and_merged_batches_by_hand():
    # S = 3, 4, 9 and 2, 3; three further tokens; 5 tokens, an arrival, a call; decodes are cheap.
    useful, merged = (batches for batches, _ in chunked_batches(PAIR, ()))
    assert useful == 21 + 2 * 3
    assert merged == 5 + 2 + 3 * 3
    dear = msgspec.structs.replace(LINEAR, p_sq=0.0, p_mc=1e-3)
    more = msgspec.structs.replace(PAIR, cost=dear)
    assert chunked_batches(more, ())[1][0] == merged + 3
    assert chunked_batches(PAIR, ("no-evict",))[1][0] == 5 + 2


@pytest.mark.parametrize(
    ("instance", "policies"),
    [
        (limited(batch_tokens=11), ()),
        (limited(batch_requests=1), ()),
        (PAIR, ("no-hybrid",)),
        (msgspec.structs.replace(PAIR, cost=msgspec.structs.replace(LINEAR, p_mc=1e-8)), ()),
        (
            msgspec.structs.replace(
                PAIR, cost=msgspec.structs.replace(LINEAR, pieces=((1e-2, 0.0), (0.0, 1e-2)))
            ),
            (),
        ),
    ],
)
def test_batches_are_merged_only_where_that_is_possible(instance, policies):
    assert len(chunked_batches(instance, policies)) == 1


def test_swaps_handlings_and_no_hold_leave_no_such_argument():
    swapping = limited(host_kv_tokens=4)
    assert chunked_batches(swapping, ()) == []
    assert chunked_batches(swapping, ("no-swap",)) == chunked_batches(PAIR, ())
    for policies in (("no-hold",), ("preserve",), ("discard:agent",)):
        assert chunked_batches(PAIR, policies) == []
    assert chunked_batches(PAIR, ("discard:other",)) == chunked_batches(PAIR, ())


def test_completion_one_by_one_by_hand():
    # With C = 4: from k = 0 1 + 1 + 2 batches, from k = 2 a refill of 9 takes 3; then 1 + 1.
    narrow = limited(batch_tokens=4)
    assert completion_alone(narrow, (), unchunked=False) == 4 + 2
    assert completion_alone(narrow, (), unchunked=True) is None
    assert completion_alone(PAIR, (), unchunked=True) == 3 + 2
    for policies in (("no-evict",), ("swap",), ("no-hold",)):
        assert completion_alone(PAIR, policies, unchunked=False) is None


def test_an_hour_long_call_does_not_need_an_hour_of_batches():
    call = Call(after_tokens=2, duration_s=3600.0, response_tokens=4)
    slow = msgspec.structs.replace(CALLING, calls=(call,))
    instance = msgspec.structs.replace(PAIR, requests=(slow, OTHER))
    for objective, cutoff in ((Objective.MEAN_LATENCY, 1801.0), (Objective.MAKESPAN, 3601.0)):
        horizon = batch_horizon(instance, objective, cutoff, unchunked=False)
        assert horizon.rigorous
        assert horizon.batches == 16
    first = batch_horizon(instance, Objective.MEAN_TTFT, 0.05, unchunked=False)
    assert first.rigorous
    swapping = msgspec.structs.replace(instance, limits=limited(host_kv_tokens=9).limits)
    assert batch_horizon(swapping, Objective.MAKESPAN, 3601.0, unchunked=False).batches > 1000


def test_what_is_needed_at_least_is_not_above_the_optimum():
    tight = 0
    for seed in range(45):
        instance = random_instance(
            seed, calls=True, arrivals=seed % 2 == 0, tight=seed % 3 == 0, pages=seed % 5 == 0,
            host_room=seed % 4 == 0, most_prompt=5, most_output=3,
        )  # fmt: skip
        try:
            makespan_s, best = optimum(instance)
        except InfeasibleError:
            continue
        slack = 1 + 1e-9
        assert least_batches(instance) <= best.batch_count, seed
        assert least_makespan_s(instance, best.batch_count) <= makespan_s * slack, seed
        ends, first = (earliest_ends(instance, first_tokens=flag) for flag in (False, True))
        assert ends[-1] <= makespan_s * slack, seed
        tight += ends[-1] > 0.99 * makespan_s
        for mean_s, objective in ((ends, Objective.MEAN_LATENCY), (first, Objective.MEAN_TTFT)):
            value, _ = optimum(instance, objective=objective)
            assert float(np.mean(mean_s - instance.release_s)) <= value * slack + 1e-12, seed
    assert tight > 7
