"""B5 over B3 and B4: prices for what arrives late never exceed the optimum, and prove more than
all other bounds where requests come in bursts."""

from __future__ import annotations

from fractions import Fraction

import msgspec
import pytest

from optsched.bounds import best_bound, certificate_of, lower_bound
from optsched.bounds.certificate import certify_late
from optsched.bounds.lagrangian import LagrangianBound
from optsched.bounds.late_prices import late_bound
from optsched.bounds.verify.verdict import verify
from optsched.bounds.walk_repair import ClosedWalkBound
from optsched.instance import Instance
from optsched.io.generate import mix
from tests.bounds.draw import random_plain
from tests.bounds.workloads import shaped, uniform
from tests.oracle import optimum
from tests.tiny import random_instance

BLOCK = 60  # instances per test


def drawn(seed: int) -> Instance:
    """A tiny instance with arrivals, of every kind."""
    if seed % 2:
        return random_instance(seed, arrivals=True, pages=seed % 3 == 0, tight=seed % 4 == 1)
    return random_plain(seed)


def arriving(instance: Instance, times_s: list[float]) -> Instance:
    """``instance`` with its requests arriving at ``times_s``."""
    requests = tuple(
        msgspec.structs.replace(request, arrival_s=time_s)
        for request, time_s in zip(instance.requests, times_s, strict=True)
    )
    return msgspec.structs.replace(instance, requests=requests)


@pytest.mark.parametrize("first", range(0, 5 * BLOCK, BLOCK))
def test_never_above_the_optimum_and_accepted(first: int) -> None:
    tried = tight = 0
    for seed in range(first, first + BLOCK):
        instance = drawn(seed)
        found = late_bound(instance)
        if found is None:
            assert instance.offline, seed
            continue
        most = Fraction(optimum(instance)[0]) * (1 + Fraction(1, 10**12))
        verdict = verify(certify_late(instance, found))
        assert verdict.accepted, (seed, verdict.reason)
        assert verdict.proven_s is not None
        assert Fraction(found.value_s) <= verdict.proven_s <= most, seed
        tried += 1
        tight += found.value_s * (1 + 1e-9) >= most
    assert tight >= tried / 4 > 0


def test_a_burst_of_long_outputs_after_a_quiet_start() -> None:
    instance = mix(256, "SISO+LILO")
    instance = arriving(instance, [0.0] * 20 + [100.0] * 236)
    best = best_bound(instance, effort="normal")
    assert best.bound.proof == "B5 arrivals over B3 Lagrangian"
    assert best.bound.value_s > 1.01 * lower_bound(instance).value_s
    certificate = certificate_of(instance, best)
    assert certificate.bound_s == pytest.approx(best.bound.value_s, rel=1e-12)
    assert verify(certificate).accepted


def test_closed_walks_of_what_arrives_late() -> None:
    instance = arriving(uniform(64, 32, 32, 100), [k / 12 for k in range(64)])
    found = late_bound(instance)
    assert found is not None
    assert isinstance(found.late, ClosedWalkBound)
    assert found.value_s > 1.05 * lower_bound(instance).value_s
    assert verify(certify_late(instance, found)).accepted


def test_the_clock_starts_with_the_earliest_arrival() -> None:
    base = shaped([(4, 3), (4, 3), (3, 2)], kv_tokens=12)
    now, later = (arriving(base, [t, t + 1.0, t + 1.0]) for t in (0.0, 1000.25))
    found = [late_bound(instance) for instance in (now, later)]
    assert found[0] is not None
    assert found[1] is not None
    assert found[0].value_s == found[1].value_s
    assert found[1].from_s == 1001.25
    assert verify(certify_late(later, found[1])).accepted


def test_nothing_to_try() -> None:
    offline = shaped([(4, 3), (3, 2)], kv_tokens=12)
    assert late_bound(offline) is None
    instance = arriving(offline, [0.0, 5.0])
    assert late_bound(instance, time_limit_s=0.0) is None
    assert late_bound(instance, target_s=1.0, known_s=1.0) is None
    found = late_bound(instance)
    assert found is not None
    assert isinstance(found.late, LagrangianBound)
