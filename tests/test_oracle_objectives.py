"""The exhaustive search for every objective and policy: against optima worked out by hand, its
unpruned form, and all schedules of very small instances."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import pytest

from optsched.check import check
from optsched.cost import CostModel
from optsched.errors import InfeasibleError
from optsched.instance import Instance
from optsched.objective import Objective
from optsched.simulate import objective_value, simulate
from tests.oracle import optimum
from tests.oracle_accounts import Account
from tests.oracle_by_the_rules import every_schedule
from tests.oracle_cases import instance_of, served_cases, value_or_inf, with_slos
from tests.oracle_space import Space


def values(instance: Instance, policies: tuple[str, ...] = ()) -> dict[Objective, float]:
    return {each: optimum(instance, policies, objective=each)[0] for each in Objective}


def test_objectives_of_requests_one_after_the_other() -> None:
    # One request at a time (batch_requests = 1), a second per token: 1, 2 and 3 s of work.
    instance = instance_of((1, 3), (1, 1), (1, 2), batch_requests=1)
    assert values(instance) == {
        Objective.MAKESPAN: 6,
        Objective.MEAN_LATENCY: (1 + 3 + 6) / 3,  # the shortest first
        Objective.MEAN_TTFT: (1 + 2 + 3) / 3,  # a token for everyone, and then the rest
        Objective.MAX_LATENCY: 6,
        Objective.GOODPUT: 3,
    }


def test_the_last_to_arrive_does_not_have_the_largest_latency() -> None:
    # Two seconds of work each, one at a time; r1 comes at 1. Serving r1 within r0 takes 4 s for r0
    # and 3 or 2 s for r1; r0 first takes 2 s and 3 s.
    instance = instance_of((1, 2), (1, 2, 1.0), batch_requests=1)
    assert values(instance)[Objective.MAX_LATENCY] == 3
    assert values(instance)[Objective.MEAN_LATENCY] == 2.5
    assert values(instance)[Objective.MEAN_TTFT] == 1


def test_goodput_leaves_out_the_lightest() -> None:
    # Due after 1, 2 and 2 s, a second each: two of the three are on time.
    instance = instance_of((1, 1), (1, 1), (1, 1), batch_requests=1)
    for weights, value in (((1, 2, 3), 5), ((1, 3, 0.5), 4), ((3, 1, 1), 4)):
        served = with_slos(instance, latency_slo_s=(1.0, 2.0, 2.0), weight=weights)
        assert optimum(served, objective="goodput")[0] == value
    late = with_slos(instance, ttft_slo_s=(0.5, 0.5, 0.5), weight=(1, 1, 1))
    assert optimum(late, objective="goodput")[0] == 0


def test_a_later_first_token_may_meet_the_tpot() -> None:
    # A second per token, one request at a time. r0 must have its three in a row, and r1 its two:
    # r1, which could have its first token earlier, begins when r0 is done.
    instance = with_slos(
        instance_of((1, 3), (1, 2), batch_requests=1),
        ttft_slo_s=(1.0, None), tpot_slo_s=(1.0, 1.5),
    )  # fmt: skip
    value, schedule = optimum(instance, objective="goodput")
    assert value == 2
    assert simulate(instance, schedule).first_token_s.tolist() == [1, 4]


def test_time_may_be_well_wasted_before_an_arrival() -> None:
    # A batch takes 1 s, with decodes 9.5 s. r2 comes at 10 and must be served from 10 to 11, so
    # that r1 decodes from 11 to 20.5, and must have had its first token at 4.5 or later. r0 in four
    # chunks keeps the machine until 4, in one only until 1. What is left is the same at both
    # times, and the later one is better.
    instance = with_slos(
        instance_of((4, 1), (1, 2), (1, 1, 10.0), cost=CostModel(pieces=((1.0, 0.0),), d0=8.5)),
        ttft_slo_s=(None, 6.0, 1.2), tpot_slo_s=(None, 16.0, None),
    )  # fmt: skip
    keep = ("no-evict",)  # a refill would be a cheaper way to the second token
    assert optimum(instance, keep, objective="goodput")[0] == 3
    assert optimum(instance, keep, objective="goodput", prune=False)[0] == 3
    assert optimum(instance, (*keep, "no-chunk"), objective="goodput")[0] == 2


def test_first_come_first_served() -> None:
    # r0 needs 3 s to its first token, r1 one, of which 0.5 s from its arrival are lost.
    slow = CostModel(pieces=((0.0, 1.0),))
    instance = instance_of((3, 1), (1, 1, 0.5), cost=slow, batch_requests=1)
    assert optimum(instance, objective="mean-ttft")[0] == (4 + 1.5) / 2  # r1 after one chunk of r0
    assert optimum(instance, ("fcfs",), objective="mean-ttft")[0] == (3 + 3.5) / 2
    together = instance_of((3, 1), (1, 1), cost=slow, batch_requests=1)
    assert optimum(together, ("fcfs",), objective="mean-ttft")[0] == (4 + 1) / 2


def test_nonpreemptive() -> None:
    # M = 4: without preemption one after the other; else both fill, one is evicted: 3 batches.
    instance = instance_of((2, 2), (2, 2), M=4)
    assert optimum(instance, ("nonpreemptive",))[0] == 4
    assert optimum(instance, ("nonpreemptive",), objective="mean-latency")[0] == (2 + 4) / 2
    assert optimum(instance, ("no-swap",))[0] == 3
    with pytest.raises(InfeasibleError):
        optimum(instance_of((3, 1), C=2), ("nonpreemptive",))


def test_time_and_cost_are_weighed_by_what_is_open_and_what_is_to_arrive() -> None:
    instance = instance_of((1, 1), (1, 1, 10.0))
    space = Space(instance, frozenset(), True, by_service=False)
    account = Account(Objective.MEAN_LATENCY, space)

    def dominates(one: tuple[float, float], other: tuple[float, float]) -> bool:
        one_label, other_label = (
            (now, cost, 0.0, 10.0 if now < 10 else 0.0) for now, cost in (one, other)
        )
        return account.dominates(one_label, other_label, space.start)

    # A second later costs at most two, one for each open request.
    assert dominates((3.0, 1.0), (2.0, 3.0))
    assert not dominates((3.0, 1.0), (2.0, 2.9))
    # A second earlier gains two after the last arrival, and perhaps nothing before.
    assert dominates((11.0, 5.0), (12.0, 3.0))
    assert not dominates((11.0, 5.0), (12.0, 2.9))
    assert dominates((8.0, 5.0), (11.0, 3.0))
    assert not dominates((8.0, 5.0), (11.0, 2.9))
    assert not dominates((8.0, 5.0), (9.0, 4.9))


@pytest.mark.parametrize("objective", list(Objective))
def test_pruned_equals_unpruned_for_every_objective(objective: Objective) -> None:
    different, infeasible = 0, 0
    for instance, policies in served_cases(64, most_prompt=3, most_output=2):
        plain = value_or_inf(instance, policies, objective=objective, prune=False)
        value = value_or_inf(instance, policies, objective=objective)
        assert value == pytest.approx(plain, rel=1e-12), (instance, policies)
        infeasible += value == math.inf
        different += value != value_or_inf(instance, (), objective=objective)
    assert 0 < infeasible < 20
    assert different > (1 if objective.maximised else 7)


def test_no_schedule_is_better() -> None:
    """Against the simulated values of all schedules with one batch more than the best ones."""
    seen = Counter[Objective]()
    for instance, policies in served_cases(100, most_prompt=2, most_output=2):
        if len(instance) == 1 or sum(r.final_tokens for r in instance.requests) > 6:
            continue
        try:
            best = {each: optimum(instance, policies, objective=each) for each in Objective}
        except InfeasibleError:
            continue
        longest = max(schedule.batch_count for _, schedule in best.values())
        every = list(itertools.islice(every_schedule(instance, policies, longest + 1), 100))
        if len(every) == 100:
            continue
        traces = [simulate(instance, schedule) for schedule in every]
        for objective, (value, _) in best.items():
            found = [objective_value(instance, trace, objective) for trace in traces]
            low, high = min(found), max(found)
            assert value == pytest.approx(high if objective.maximised else low, rel=1e-12)
            seen[objective] += low < high
    assert min(seen[objective] for objective in Objective) > 15, seen


@pytest.mark.parametrize("objective", list(Objective))
def test_schedules_have_the_value_of_every_objective(objective: Objective) -> None:
    for instance, policies in served_cases(30, most_prompt=5, most_output=4):
        if value_or_inf(instance, policies) == math.inf:
            continue
        value, schedule = optimum(instance, policies, objective=objective)
        trace = simulate(instance, schedule)
        assert objective_value(instance, trace, objective) == pytest.approx(value, rel=1e-12)
        assert check(instance, schedule, trace, policies=policies) == ()
