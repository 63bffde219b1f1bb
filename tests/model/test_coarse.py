"""The coarse program: what it says where the answer is known, and that it relaxes the problem."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from optsched.bounds import batch_count
from optsched.bounds.exact_lagrangian import ground
from optsched.instance import Instance
from optsched.model.coarse import CoarseProgram, CoarseType, coarse_program
from optsched.solvers.lp import LpSolution, solve_lp
from tests.bounds.workloads import UNIT, shaped
from tests.oracle import optimum
from tests.tiny import random_instance

UNIT_LAW = ((1.0, 0.0),)


def solved(
    instance: Instance, kinds: list[CoarseType], least: int, most: int, stride: int = 1
) -> tuple[CoarseProgram, LpSolution]:
    """The program under unit batches, in which a refill costs nothing more than a decode."""
    largest = max(kind.prompt_tokens + kind.output_tokens for kind in kinds)
    program = coarse_program(
        kinds, instance.limits, UNIT_LAW, np.zeros(largest), stride=stride,
        least_batches=least, most_batches=most,
    )  # fmt: skip
    return program, solve_lp(program.milp)


def test_batches_that_are_sure_are_whole_others_may_be_used_in_part() -> None:
    instance = shaped([(3, 4)], kv_tokens=6)
    kinds = [CoarseType(prompt_tokens=3, output_tokens=4, count=1)]
    assert solved(instance, kinds, 4, 4)[1].value == pytest.approx(4)
    # The first batch whole, then 4, 5 and 6 tokens of 6.
    assert solved(instance, kinds, 1, 4)[1].value == pytest.approx(1 + (4 + 5 + 6) / 6)


@pytest.mark.parametrize(
    ("limits", "batches"),
    [
        ({"kv_tokens": 6}, 4),  # 8 requests of 3 tokens, two at a time
        ({"batch_tokens": 6}, 4),
        ({"prefill_tokens": 3}, 8),
        ({"batch_requests": 1}, 8),
        ({"kv_tokens": 8, "block_tokens": 4}, 4),
        ({"kv_tokens": 11, "block_tokens": 4}, 4),  # what is left beside two pages is lost
    ],
)
def test_each_limit_where_it_alone_decides(limits: dict[str, int], batches: int) -> None:
    instance = shaped([(3, 1)] * 8, **limits)  # type: ignore[arg-type]
    kinds = [CoarseType(prompt_tokens=3, output_tokens=1, count=8)]
    program, answer = solved(instance, kinds, 1, 10)
    assert answer.value == pytest.approx(batches)
    assert answer.row_duals is not None
    prices = program.prices(answer.row_duals)
    each = (prices.memory, prices.tokens, prices.prefill, prices.requests)
    assert all(np.all(price >= 0) for price in each)
    assert sum(float(price.sum()) for price in each) > 0


def test_a_prompt_longer_than_a_batch_starts_later_and_its_tokens_come_first() -> None:
    instance = shaped([(7, 1)], batch_tokens=3)
    program, answer = solved(
        instance, [CoarseType(prompt_tokens=7, output_tokens=1, count=1)], 1, 5
    )
    assert answer.point is not None
    assert program.first_buckets == (2,)
    assert answer.value == pytest.approx(7 / 3)  # fractions of batches
    assert not program.start_rates(answer.point)[0, :2].any()


def test_starts_add_up_to_the_requests_of_each_type() -> None:
    instance = shaped([(2, 6)] * 5 + [(4, 3)] * 7, kv_tokens=30)
    kinds = [
        CoarseType(prompt_tokens=2, output_tokens=6, count=5),
        CoarseType(prompt_tokens=4, output_tokens=3, count=7),
    ]
    for stride in (1, 2, 4):
        program, answer = solved(instance, kinds, 6, 20, stride)
        assert answer.point is not None
        rates = program.start_rates(answer.point)
        assert rates.shape == (2, program.buckets)
        assert rates.sum(axis=1) == pytest.approx([5, 7])
        assert np.all(rates >= -1e-9)


def test_eviction_is_used_where_it_pays_and_is_paid_for() -> None:
    # 2 requests of 1 .. 4 tokens in 5 tokens of memory: 2 + 2 fit, 3 + 3 do not. Without
    # evictions the second starts when the first is nearly done.
    instance = shaped([(1, 4)] * 2, kv_tokens=5)
    kinds = [CoarseType(prompt_tokens=1, output_tokens=4, count=2)]

    def least(price: float) -> float:
        program = coarse_program(
            kinds, instance.limits, UNIT_LAW, np.full(5, price), stride=1, least_batches=4,
            most_batches=5,
        )  # fmt: skip
        value = solve_lp(program.milp).value
        assert value is not None
        return value

    assert least(0.0) < least(0.05) <= least(100.0)


@pytest.mark.parametrize("first", range(0, 120, 40))
def test_single_batches_relax_the_problem(first: int) -> None:
    """With stride 1 no schedule takes less than W and the program together."""
    for seed in range(first, first + 40):
        instance = random_instance(seed, pages=seed % 3 == 0, tight=seed % 2 == 0)
        base = ground(instance, counted=False)
        assert base is not None
        makespan_s, schedule = optimum(instance)
        second = base.units.per_second
        law = [(alpha, beta - base.slope / second) for alpha, beta in instance.cost.pieces]
        kinds = [
            CoarseType(prompt_tokens=r.prompt_tokens, output_tokens=r.output_tokens, count=1)
            for r in instance.requests
        ]
        program = coarse_program(
            kinds, instance.limits, law, np.array([x / second for x in base.refill]), stride=1,
            least_batches=batch_count(instance).batches,
            most_batches=schedule.batch_count,
        )  # fmt: skip
        value = solve_lp(program.milp).value
        assert value is not None
        assert base.work / second + value <= makespan_s * (1 + 1e-7), seed


def test_more_room_for_batches_never_costs_time() -> None:
    instance = shaped([(1, 12)] * 6, UNIT, kv_tokens=30)
    kinds = [CoarseType(prompt_tokens=1, output_tokens=12, count=6)]
    values = [solved(instance, kinds, 16, most)[1].value for most in (18, 20, 24, 30)]
    for less, more in pairwise(values):
        assert less is not None
        assert more is not None
        assert less >= more - 1e-9
