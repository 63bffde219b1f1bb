"""Bounds on the makespan with calls and swapping: below every optimum, with certificates; B9 for
any choice of its line and shares."""

from __future__ import annotations

from fractions import Fraction

import pytest

from optsched.bounds import lower_bound
from optsched.bounds.certificate import certify
from optsched.bounds.held_calls import HELD
from optsched.bounds.time_arguments import best_held, exact_lines
from optsched.bounds.verify.describe import describe
from optsched.bounds.verify.refuted import RefutedError
from optsched.bounds.verify.verdict import proven_bound, verify
from optsched.certificate import HELD_PARTS, ChainCount, HeldTime, Line, MemoryCount
from optsched.cost import CostModel
from optsched.errors import InvalidInputError
from optsched.instance import Call, Instance, Limits, Request
from tests.bounds.draw import random_calling
from tests.oracle import optimum

UP_TO_ROUNDING = 1 + 1e-9
BLOCK = 40


def dear_to_refill(host: int = 0, swap_tok: float = 0.0) -> Instance:
    """Four requests that memory holds one after the other; a refill takes some seconds."""
    calls = (Call(after_tokens=1, duration_s=10.0, response_tokens=0),)
    requests = [
        Request(id=f"r{k}", prompt_tokens=2, output_tokens=2, calls=calls) for k in range(4)
    ]
    return Instance(
        name="dear", requests=tuple(requests),
        limits=Limits(kv_tokens=3, batch_tokens=10, host_kv_tokens=host),
        cost=CostModel(pieces=((1.0, 0.0),), p_sq=1.0, swap_tok=swap_tok),
    )  # fmt: skip


@pytest.mark.parametrize("first", [0, BLOCK])
def test_below_the_optimum_with_certificates(first: int) -> None:
    exact, proofs = 0, set()
    for seed in range(first, first + BLOCK):
        instance = random_calling(seed)
        makespan_s, _ = optimum(instance)
        bound = lower_bound(instance)
        for name, part in bound.parts.items():
            assert part <= makespan_s * UP_TO_ROUNDING, (name, instance)
        verdict = verify(certify(instance, bound))
        assert verdict.accepted, (verdict.reason, instance)
        assert verdict.proven_s is not None
        assert verdict.proven_s <= Fraction(makespan_s * UP_TO_ROUNDING), instance
        assert verdict.proven_s >= Fraction(bound.value_s / UP_TO_ROUNDING), instance
        exact += bound.value_s >= makespan_s * (1 - 1e-9)
        proofs.add(bound.proof)
    assert exact >= BLOCK / 3, "bounds that never meet the optimum would pass everything else"
    assert len(proofs) > 1


def test_no_line_or_share_proves_more_than_the_optimum() -> None:
    for seed in range(2 * BLOCK, 3 * BLOCK):
        instance = random_calling(seed)
        makespan_s, _ = optimum(instance)
        best, tried = lower_bound(instance).parts.get(HELD), []
        if best is None:
            assert not instance.has_calls
            continue
        for line in exact_lines(instance.cost, instance.limits.batch_tokens):
            for parts in (0, 1, 8, 32, 63, HELD_PARTS):
                for count in (ChainCount(), MemoryCount()):
                    argument = HeldTime(count=count, line=line, memory_parts=parts)
                    tried.append(proven_bound(instance, argument))
        assert max(tried) <= Fraction(makespan_s * UP_TO_ROUNDING), instance
        found = proven_bound(instance, best_held(instance))
        assert found >= Fraction(best / UP_TO_ROUNDING), instance


def test_held_calls_worked_out_by_hand() -> None:
    # A batch takes 1 s, a fill of 2 tokens 4 s more. Memory holds 3: a request has 2 of it when it
    # makes its call of 10 s, and 3 in its last step. Holding them takes 20/3 s of all memory, a
    # refill 4 s. Events take 2/3 + 3/3 s of it, of all four requests 20/3 s, so at least 7 batches.
    # All weight on memory, and a refill counts nothing; all on work, and holding does not.
    instance = dear_to_refill()
    line = Line(intercept_s=1.0, slope_s=0.0, knee_tokens=10, excess_s=0.0)

    def proven(parts: int) -> Fraction:
        argument = HeldTime(count=MemoryCount(), line=line, memory_parts=parts)
        return proven_bound(instance, argument)

    assert proven(HELD_PARTS) == Fraction(20, 3)
    assert proven(0) == 7 + 4 * 4
    # With 3/8 on memory 20/3 and 4 s are worth the same, 2.5 s for each request.
    share = Fraction(3, 8)
    assert proven(24) == (1 - share) * (7 + 16) + share * Fraction(20, 3) + 4 * Fraction(5, 2)
    assert lower_bound(instance).proof == HELD
    assert lower_bound(instance).value_s <= optimum(instance)[0]
    free = lower_bound(dear_to_refill(host=2)).parts[HELD]
    dear = lower_bound(dear_to_refill(host=2, swap_tok=1.0)).parts[HELD]
    assert free <= dear <= lower_bound(instance).value_s


def test_refuses_what_does_not_hold() -> None:
    instance = dear_to_refill()
    above = Line(intercept_s=1.5, slope_s=0.0, knee_tokens=10, excess_s=0.0)
    with pytest.raises(RefutedError, match="not below"):
        proven_bound(instance, HeldTime(count=ChainCount(), line=above, memory_parts=1))
    with pytest.raises(InvalidInputError, match="memory_parts"):
        HeldTime(count=ChainCount(), line=above, memory_parts=HELD_PARTS + 1)
    assert any("memory over time" in line for line in describe(best_held(instance)))
