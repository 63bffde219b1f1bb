"""What conflicts with a target when other objectives are limited, too, or time runs out."""

from __future__ import annotations

import pytest

from optsched.instance import Instance, Limits, Request
from optsched.io import preset
from optsched.objective import Objective
from optsched.result import Conflict, Result
from optsched.solve import SolveOptions, solve
from optsched.solve.conflict import explain_refusal

LATENCY, TTFT, GOODPUT = Objective.MEAN_LATENCY, Objective.MEAN_TTFT, Objective.GOODPUT


def one_at_a_time(
    batch_tokens: int = 64, host_kv_tokens: int = 0, ttft_slo_s: float | None = None, **outputs: int
) -> Instance:
    """Memory for one request at a time, every batch takes a second; O by id."""
    most = 4 + 2 * max(outputs.values())  # of which every request takes more than half
    return Instance(
        name="one", cost=preset("unit").cost,
        limits=Limits(
            kv_tokens=most, batch_tokens=batch_tokens, host_kv_tokens=host_kv_tokens
        ),
        requests=tuple(
            Request(
                id=name, prompt_tokens=most + 1 - output, output_tokens=output,
                ttft_slo_s=ttft_slo_s,
            )
            for name, output in outputs.items()
        ),
    )  # fmt: skip


def explained(instance: Instance, options: SolveOptions) -> Conflict:
    result = solve(instance, options)
    assert result.target is not None
    assert result.target.answer == "no"
    return explain_refusal(instance, options, result, solve, time_limit_s=30)


def test_a_limit_that_the_refusal_needs_is_named_and_is_about_all_requests() -> None:
    """Shortest first ends at 2, 4 and 14 s, with first tokens at 1, 3 and 5 s. Sooner ones delay an
    end; of two requests neither sum matters, though the mean latency of b and c is beyond 6.7."""
    instance = one_at_a_time(a=2, b=2, c=10)
    options = SolveOptions(objective=TTFT, target=2.5, subject_to={LATENCY: 6.7})
    conflict = explained(instance, options)
    assert conflict.rules == ("mean-latency", "kv_capacity")
    assert set(conflict.requests) == {"a", "b", "c"}
    assert conflict.relaxed_target is not None
    assert 2.5 < conflict.relaxed_target <= 3
    assert conflict.irreducible


def test_no_target_is_named_where_the_limits_alone_cannot_be_kept() -> None:
    instance = one_at_a_time(a=2, b=2, c=2, d=2)
    conflict = explained(
        instance, SolveOptions(objective=TTFT, target=100.0, subject_to={LATENCY: 4.9})
    )
    assert conflict.rules == ("mean-latency", "kv_capacity")
    assert conflict.relaxed_target is None


def test_how_much_longer_slos_have_to_be_is_told_under_all_rules() -> None:
    """A prompt takes two batches, so the second first token is there after four; that a batch
    processes four tokens is not needed for the refusal, as memory is for one request only."""
    instance = one_at_a_time(batch_tokens=4, ttft_slo_s=1.0, a=2, c=2)
    conflict = explained(instance, SolveOptions(objective=GOODPUT, target=2.0))
    assert "batch_tokens" not in conflict.rules
    assert conflict.slo_factor == pytest.approx(4.0, rel=0.02)


@pytest.mark.parametrize("inside", [False, True])
def test_an_interrupt_ends_the_questions_and_keeps_the_refusal(inside: bool) -> None:
    instance = one_at_a_time(a=2, b=2, c=2)
    options = SolveOptions(target=5.0)
    refused = solve(instance, options)
    asked: list[str] = []

    def interrupt(what: str) -> None:
        asked.append(what)
        raise KeyboardInterrupt

    def ask(instance: Instance, options: SolveOptions) -> Result:
        return solve(instance, options, report=interrupt)

    conflict = explain_refusal(
        instance, options, refused, ask if inside else solve, time_limit_s=30,
        report=interrupt if not inside else lambda _: None,
    )  # fmt: skip
    assert len(asked) == 1
    assert conflict.relaxed_target == refused.bound
    assert not conflict.irreducible
