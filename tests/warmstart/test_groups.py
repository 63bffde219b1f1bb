"""Groups of equal requests: who is in which, and interrupts while they are made."""

from __future__ import annotations

import pytest

from optsched.warmstart.groups import Preference, grouped
from tests.interrupts import interrupted_everywhere
from tests.warmstart.workloads import workload


@pytest.mark.parametrize("preference", Preference)
def test_members_are_equal_and_by_arrival(preference: Preference) -> None:
    by_arrival = preference in (Preference.EARLY, Preference.LATE)
    for seed in range(20):
        instance = workload(seed)
        groups = grouped(instance, preference)
        assert sorted(r for m in groups.members for r in m) == list(range(len(instance)))
        shapes = []
        for prompt, output, members in zip(
            groups.prompt.tolist(), groups.output.tolist(), groups.members, strict=True
        ):
            own = [instance.requests[r] for r in members]
            arrivals = [r.arrival_s for r in own]
            assert {(r.prompt_tokens, r.output_tokens) for r in own} == {(prompt, output)}
            assert arrivals == sorted(arrivals)
            assert not by_arrival or len(set(arrivals)) == 1
            shapes.append((prompt, output, arrivals[0] if by_arrival else 0.0))
        assert len(set(shapes)) == len(shapes), "equal requests are in two groups"


@pytest.mark.parametrize("preference", Preference)
def test_an_interrupt_stays_one(preference: Preference) -> None:
    instance = workload(3)
    assert interrupted_everywhere(lambda: grouped(instance, preference)) > 5
