"""Every scheduler completes every feasible instance, and keeps all rules."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optsched.check import check
from optsched.instance import Instance, Limits, Request
from optsched.simulate import simulate
from optsched.warmstart import scheduler, schedulers
from tests.warmstart.workloads import UNIT

sizes = st.integers(1, 12)


@st.composite
def feasible_instances(draw: st.DrawFn) -> Instance:
    """Any limits under which each request can run alone."""
    shapes = draw(st.lists(st.tuples(sizes, sizes, st.integers(0, 15)), min_size=1, max_size=10))
    requests = tuple(
        Request(id=f"r{i}", prompt_tokens=prompt, output_tokens=output, arrival_s=float(at))
        for i, (prompt, output, at) in enumerate(shapes)
    )
    block = draw(st.integers(1, 5))
    largest = max(block * -(-r.final_tokens // block) for r in requests)
    limits = Limits(
        kv_tokens=largest + draw(st.integers(0, 40)),
        batch_tokens=draw(st.integers(1, 40)),
        prefill_tokens=draw(st.none() | st.integers(1, 40)),
        batch_requests=draw(st.none() | st.integers(1, 5)),
        block_tokens=block,
    )
    return Instance(name="any", limits=limits, cost=UNIT, requests=requests)


@pytest.mark.parametrize("name", schedulers())
@settings(max_examples=40, deadline=None, derandomize=True)
@given(instance=feasible_instances())
def test_completes_and_keeps_every_rule(name: str, instance: Instance) -> None:
    schedule = scheduler(name)(instance)
    assert check(instance, schedule, simulate(instance, schedule)) == ()


@pytest.mark.parametrize("name", schedulers())
@settings(max_examples=15, deadline=None, derandomize=True)
@given(instance=feasible_instances(), data=st.data())
def test_only_arrivals_and_places_order_requests(
    name: str, instance: Instance, data: st.DataObject
) -> None:
    """With distinct arrivals, the order of the list does not matter."""
    apart = tuple(
        Request(
            id=r.id, prompt_tokens=r.prompt_tokens, output_tokens=r.output_tokens,
            arrival_s=r.arrival_s + i / 64,
        )
        for i, r in enumerate(instance.requests)
    )  # fmt: skip
    places = data.draw(st.permutations(range(len(apart))))
    spread = Instance(name="a", limits=instance.limits, cost=UNIT, requests=apart)
    shuffled = Instance(
        name="b", limits=instance.limits, cost=UNIT, requests=tuple(apart[i] for i in places)
    )
    makespan = simulate(spread, scheduler(name)(spread)).makespan_s
    assert simulate(shuffled, scheduler(name)(shuffled)).makespan_s == makespan
