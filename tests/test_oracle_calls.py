"""The exhaustive search with calls, swapping and fixed handlings: against optima worked out by
hand, a search that reads the rules one by one, all schedules of very small instances, and random
ones."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Iterator

import msgspec
import pytest

from optsched.check import check
from optsched.cost import CostModel
from optsched.errors import InfeasibleError
from optsched.instance import Call, Instance, Limits, Request
from optsched.objective import Objective
from optsched.schedule import Schedule, from_steps
from optsched.simulate import objective_value, simulate
from tests.oracle import optimum
from tests.oracle_by_the_rules import (
    after_batch,
    by_the_rules,
    every_action,
    every_schedule,
    finished,
    initial,
    replayed,
    steps_of,
)  # fmt: skip
from tests.oracle_cases import SECOND_PER_BATCH, value_or_inf
from tests.tiny import random_instance

POLICY_SETS: list[tuple[str, ...]] = [
    (), (), (), ("preserve",), ("discard",), ("swap",), ("swap:r0",), ("discard:r0", "preserve"),
    ("no-swap",), ("no-evict",), ("no-chunk",), ("no-hybrid",), ("no-hold",), ("fcfs",),
    ("nonpreemptive",), ("no-hold", "swap"), ("no-chunk", "discard"), ("nonpreemptive", "discard"),
    ("no-evict", "no-swap"), ("no-chunk", "no-hold", "preserve"),
]  # fmt: skip


def calling(
    *requests: tuple[int, int, tuple[int, float, int]] | tuple[int, int],
    cost: CostModel = SECOND_PER_BATCH, M: int = 100, host: int = 0,
) -> Instance:  # fmt: skip
    """Requests of I, O and a call (after, seconds, response), or none."""
    return Instance(
        name="by-hand", cost=cost,
        limits=Limits(kv_tokens=M, batch_tokens=100, host_kv_tokens=host),
        requests=tuple(
            Request(
                id=f"r{k}", prompt_tokens=r[0], output_tokens=r[1],
                calls=tuple(
                    Call(after_tokens=after, duration_s=seconds, response_tokens=response)
                    for after, seconds, response in r[2:]
                ),
            )
            for k, r in enumerate(requests)
        ),
    )  # fmt: skip


def augmented(
    count: int, *, most_requests: int = 3, most_prompt: int = 3, most_output: int = 3
) -> Iterator[tuple[Instance, tuple[str, ...]]]:
    """Random instances with calls, two of three with room on the host, and policies."""
    for seed in range(count):
        instance = random_instance(
            seed, most_requests=most_requests, most_prompt=most_prompt, most_output=most_output,
            arrivals=seed % 2 == 1, pages=seed // 2 % 2 == 1, tight=seed // 4 % 2 == 1, slos=True,
            calls=True, host_room=seed % 3 > 0,
        )  # fmt: skip
        yield instance, POLICY_SETS[seed * 7 % len(POLICY_SETS)]


# --- optima worked out by hand -------------------------------------------------------------------


def test_a_request_alone_waits_for_its_call() -> None:
    # Fill, call of 5 s, append, decode; nothing else to process, so the KV is held.
    instance = calling((2, 3, (1, 5.0, 4)))
    assert optimum(instance)[0] == 1 + 5 + 1 + 1
    for handling in ("preserve", "discard", "swap"):  # no batch in which to do anything else
        assert optimum(instance, (handling,))[0] == 8
    assert optimum(instance, ("no-hold",))[0] == 8
    # With attention: the append of 1 + 4 tokens on 2 cached ones, then a decode on 7.
    cost = CostModel(pieces=((1.0, 0.1),), d_kv=0.01, p_sq=0.001, p_mc=0.003, p_kv=0.0007)
    fill, append = 1.2 + 0.004, 1.5 + 0.025 + 0.003 * 2 * 5 + 0.0007 * 2
    alone = fill + 5 + append + 1.1 + 0.01 * 7
    priced = calling((2, 3, (1, 5.0, 4)), cost=cost)
    assert optimum(priced, ("no-evict",))[0] == pytest.approx(alone, abs=1e-12)


def test_handling_where_memory_is_short() -> None:
    # r0 holds 2 when it calls, and r1 needs 4 in the end; M = 5. The call takes 3 s, in which r1
    # can be done if r0 makes room: 1 + 3 + 1 s in all. Preserved, r1 can fill 3 meanwhile, and is
    # evicted for the 3 of r0, or comes later.
    instance = calling((2, 2, (1, 3.0, 0)), (3, 2), M=5, host=5)
    assert optimum(instance, ("discard",))[0] == 5
    assert optimum(instance, ("swap",))[0] == 5
    assert optimum(instance, ("preserve",))[0] == 1 + 3 + 1 + 1
    assert optimum(instance, ("preserve:r1",))[0] == 5  # r1 has no calls
    # Copying takes 1 s per token, two of them and twice: better to have no batch during the call.
    slow = msgspec.structs.replace(
        instance, cost=CostModel(pieces=((1.0, 0.0),), swap_tok=1.0)
    )  # fmt: skip
    assert optimum(slow, ("swap",))[0] == 6  # fill both, wait for r0, evict r1, refill it
    assert optimum(slow)[0] == 5
    no_room = msgspec.structs.replace(
        instance, limits=msgspec.structs.replace(instance.limits, host_kv_tokens=1)
    )  # fmt: skip
    assert optimum(no_room, ("no-evict",))[0] == 1 + 3 + 1 + 2  # one after the other


def test_a_later_batch_may_find_the_call_returned() -> None:
    # Under no-hold r0 may wait while its call of 2.5 s runs, and not beyond.
    instance = calling((1, 2, (1, 2.5, 0)), (1, 6))
    assert optimum(instance, ("no-hold",))[0] == 6
    # r1 decodes at 1, 2 and 3; the batch that starts at 4 must process r0, unless it is evicted.
    assert simulate(instance, optimum(instance, ("no-hold", "no-evict"))[1]).finish_s[0] <= 5


# --- against searches that read the rules one by one ---------------------------------------------


def test_equals_the_literal_search() -> None:
    infeasible, swaps = 0, 0
    for instance, policies in augmented(140, most_requests=2, most_prompt=2, most_output=2):
        if "no-hold" in policies:  # chunks at too many different times
            policies = (*policies, "no-chunk")
        expected = by_the_rules(instance, policies)
        found = value_or_inf(instance, policies)
        assert found == pytest.approx(expected, rel=1e-12), (instance, policies)
        infeasible += expected == math.inf
        swaps += found < value_or_inf(instance, (*policies, "no-swap"))
    assert 0 < infeasible < 60
    assert swaps > 0


@pytest.mark.parametrize("objective", list(Objective))
def test_pruned_equals_unpruned(objective: Objective) -> None:
    for instance, policies in augmented(60, most_requests=2, most_prompt=2, most_output=2):
        if objective.maximised:  # too many times for a search without bounds
            policies = (*policies, "no-chunk")
        plain = value_or_inf(instance, policies, objective=objective, prune=False)
        value = value_or_inf(instance, policies, objective=objective)
        assert value == pytest.approx(plain, rel=1e-12), (instance, policies)


def test_no_schedule_is_better() -> None:
    """Against the simulated values of all schedules with no more batches than the best ones,
    filtered by the checker rather than by the search."""
    seen: Counter[str] = Counter()
    for instance, policies in augmented(60, most_requests=2, most_prompt=1, most_output=2):
        try:
            best = {each: optimum(instance, policies, objective=each) for each in Objective}
        except InfeasibleError:
            continue
        longest = max(schedule.batch_count for _, schedule in best.values())
        every = list(itertools.islice(every_schedule(instance, (), longest), 100))
        if len(every) == 100:
            continue
        traces = [simulate(instance, schedule) for schedule in every]
        allowed = [
            trace
            for schedule, trace in zip(every, traces, strict=True)
            if check(instance, schedule, trace, policies=policies) == ()
        ]
        for objective, (value, _) in best.items():
            found = [objective_value(instance, trace, objective) for trace in allowed]
            low, high = min(found), max(found)
            assert value == pytest.approx(high if objective.maximised else low, rel=1e-12)
            seen[objective] += low < high
        seen.update(policies)
    assert min(seen[objective] for objective in Objective) > 5, seen
    assert {"preserve", "discard", "swap", "no-hold", "nonpreemptive", "no-swap"} <= set(seen)


@pytest.mark.parametrize("objective", list(Objective))
def test_schedules_have_the_value_and_keep_the_rules(objective: Objective) -> None:
    output = 2 if objective.maximised else 4
    for instance, policies in augmented(60, most_prompt=output, most_output=output):
        if objective.maximised or "no-hold" in policies:  # chunks at too many different times
            policies = (*policies, "no-chunk")
        try:
            value, schedule = optimum(instance, policies, objective=objective)
        except InfeasibleError:
            continue
        trace = simulate(instance, schedule)
        assert objective_value(instance, trace, objective) == pytest.approx(value, rel=1e-12)
        assert check(instance, schedule, trace, policies=policies) == (), (instance, policies)
        replayed(instance, schedule, policies)


def test_no_random_schedule_is_better() -> None:
    swapped = 0
    for seed, (instance, _) in enumerate(augmented(25)):
        best = {
            each: optimum(instance, objective=each)[0] for each in Objective if not each.maximised
        }
        rng = random.Random(seed)
        for _ in range(5):
            schedule = random_schedule(instance, rng)
            trace = simulate(instance, schedule)
            assert check(instance, schedule, trace) == ()
            for objective, value in best.items():
                assert objective_value(instance, trace, objective) >= value * (1 - 1e-12)
            swapped += bool((schedule.kind == 3).any())
    assert swapped > 20


def random_schedule(instance: Instance, rng: random.Random) -> Schedule:
    """Feasible batches, the first eight of them at random, until nothing is left."""
    now, states, steps = 0.0, initial(instance), list[tuple[int, int, int, int]]()
    for batch in itertools.count(1):
        choices = list(every_action(instance, states))
        rng.shuffle(choices)
        if batch > 8:  # go for the end: the first request first, whoever it takes the room from
            choices.sort(reverse=True)
        for actions in choices:
            result = after_batch(instance, now, states, actions)
            if result is not None:
                steps += steps_of(states, actions, batch)
                now, states = result
                break
        if finished(instance, states):
            break
    return from_steps(steps)
