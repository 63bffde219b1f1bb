"""``solve`` under nonpreemptive with unit batches: the hindsight problem, by its own methods."""

from __future__ import annotations

import pytest

from optsched.objective import Objective
from optsched.solve import SolveOptions, solve
from tests.oracle import optimum
from tests.unit_rounds import unit_instance

POLICY = ("nonpreemptive",)


@pytest.mark.parametrize("objective", [o for o in Objective if not o.maximised])
@pytest.mark.parametrize("seed", range(5))
def test_equals_the_exhaustive_search(objective: Objective, seed: int) -> None:
    instance = unit_instance(seed)
    best, _ = optimum(instance, POLICY, objective=objective)
    result = solve(instance, SolveOptions(objective=objective, policies=POLICY))
    assert result.value == pytest.approx(best, rel=1e-9)
    assert result.optimal
