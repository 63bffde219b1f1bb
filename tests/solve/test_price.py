"""The price of policies against the exhaustive search."""

from __future__ import annotations

import pytest

from optsched.errors import InfeasibleError
from optsched.objective import Objective
from optsched.solve import SolveOptions
from optsched.solve.price import policies_of, policy_prices
from tests.oracle import optimum
from tests.tiny import random_instance


@pytest.mark.parametrize("objective", list(Objective))
@pytest.mark.parametrize("seed", range(3))
def test_prices(objective: Objective, seed: int) -> None:
    instance = random_instance(
        9400 + seed, arrivals=seed > 0, most_prompt=4, most_output=3, slos=True
    )
    best, _ = optimum(instance, objective=objective)
    rows = policy_prices(instance, policies_of(instance), SolveOptions(objective=objective))
    assert [row.policy for row in rows] == [None, *policies_of(instance)]
    assert rows[0].value == pytest.approx(best, rel=2e-6)
    for row in rows[1:]:
        assert row.policy is not None
        try:
            restricted, _ = optimum(instance, (row.policy,), objective=objective)
        except InfeasibleError:
            assert row.infeasible
            continue
        assert row.value == pytest.approx(restricted, rel=2e-6)
        assert row.optimal
        if best:
            price = abs(restricted - best) / best
            assert row.most_price == pytest.approx(price, abs=3e-6)
            assert row.least_price == pytest.approx(price, abs=3e-6)


def test_arrival_order_only_matters_with_arrivals() -> None:
    assert "fcfs" not in policies_of(random_instance(1))
    assert "fcfs" in policies_of(random_instance(3000, arrivals=True, most_requests=3))
