"""Names, descriptions, notes, and what the schedulers refuse."""

from __future__ import annotations

import pytest

from optsched.errors import InfeasibleError, UnknownNameError, UnsupportedError
from optsched.instance import Call, Instance, Limits, Request
from optsched.warmstart import describe, notes, scheduler, schedulers
from optsched.warmstart.augmented import AUGMENTED
from tests.warmstart.workloads import UNIT

LOOK_AHEAD = (
    "look-ahead", "staggered", "look-ahead-backward", "lp-guided", "look-ahead-chunked",
    "token-cap", "gated-prefill", "levelled", "rounds", "beam", "walk-guided", "portfolio",
)  # fmt: skip
CLOCK = ("shortest-work", "shortest-prompt", "first-tokens", "slo-aware")
CALLS = ("calls-shortest-work", "calls-first-tokens", "calls-longest-path")
TABLE_1 = ("vllm", "sarathi", "sarathi-pc", "sarathi-nocp", "vllm-hy", "sarathi-nohy")


def one(request: Request, kv_tokens: int = 100) -> Instance:
    limits = Limits(kv_tokens=kv_tokens, batch_tokens=100)
    return Instance(name="one", limits=limits, cost=UNIT, requests=(request,))


def test_all_schedulers_are_there_in_order() -> None:
    assert list(schedulers()) == [
        *TABLE_1,
        *(f"{name}-ef" for name in TABLE_1),
        "rank-org", "rank-i", "rank-o", "infermax", "vllm-v1", "pair", "mc-sf", "mc-fcfs",
        *LOOK_AHEAD, *CLOCK, *CALLS, *AUGMENTED,
    ]  # fmt: skip


def test_descriptions_are_one_line_and_name_clairvoyance() -> None:
    lines = {name: describe(name) for name in schedulers()}
    assert all(line and "\n" not in line for line in lines.values())
    clairvoyant = {name for name, line in lines.items() if line.endswith("(clairvoyant)")}
    ef = {f"{name}-ef" for name in TABLE_1}
    assert clairvoyant == ef | {
        "rank-o", "mc-sf", "mc-fcfs", "infercept-known", "mars-true", *LOOK_AHEAD, *CLOCK, *CALLS,
    }  # fmt: skip


def test_an_unknown_name_is_told_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="sarathi-pc"):
        scheduler("sarathi-cp")
    with pytest.raises(UnknownNameError, match="unknown scheduler 'vlm'"):
        describe("vlm")


@pytest.mark.parametrize("name", ["vllm", "mc-sf", "rank-o", "look-ahead", *CLOCK])
def test_calls_are_refused(name: str) -> None:
    call = Call(after_tokens=1, duration_s=1.0, response_tokens=0)
    instance = one(Request(id="tool", prompt_tokens=2, output_tokens=3, calls=(call,)))
    with pytest.raises(UnsupportedError, match="'tool' makes 1"):
        scheduler(name)(instance)


@pytest.mark.parametrize("name", ["sarathi", "lp-guided", *CLOCK])
def test_an_infeasible_instance_is_refused(name: str) -> None:
    with pytest.raises(InfeasibleError, match="'big' needs 12"):
        scheduler(name)(one(Request(id="big", prompt_tokens=10, output_tokens=3), 11))


def test_notes_count_what_a_rule_cannot_do() -> None:
    requests = tuple(
        Request(id=f"r{i}", prompt_tokens=prompt, output_tokens=5)
        for i, prompt in enumerate((3, 9, 12))
    )
    limits = Limits(kv_tokens=50, batch_tokens=8, prefill_tokens=6)
    instance = Instance(name="n", limits=limits, cost=UNIT, requests=requests)
    prompts, refills = notes("sarathi-nocp", instance)
    assert "2 of 3 prompts exceed" in prompts
    assert "= 6 and are chunked" in prompts
    assert "1 more requests grow beyond 6" in refills
    assert len(notes("sarathi-nocp-ef", instance)) == 1
    assert notes("sarathi", instance) == ()
    assert notes("mine.py:mine", instance) == ()
