"""Service-level objectives and the pace of a workload."""

from __future__ import annotations

from pathlib import Path

import pytest

from optsched import io
from optsched.errors import InvalidInputError
from optsched.io.adjust import stretched, with_slos
from optsched.io.generate import azure_like, uniform
from tests.cli.command import optsched


def test_every_request_gets_the_objectives_that_are_given() -> None:
    instance = with_slos(uniform(3, 8, 4), ttft_s=1.0)
    assert {r.ttft_slo_s for r in instance.requests} == {1.0}
    assert {r.tpot_slo_s for r in instance.requests} == {None}
    both = with_slos(instance, tpot_s=0.1, latency_s=9.0)
    assert {(r.ttft_slo_s, r.tpot_slo_s, r.latency_slo_s) for r in both.requests} == {
        (1.0, 0.1, 9.0)
    }


def test_arrivals_keep_their_ratios() -> None:
    instance = azure_like(50, seed=1)
    slow = stretched(instance, 1000.0)
    assert slow.release_s.max() == pytest.approx(1000.0)
    ratio = slow.release_s[1:] / instance.release_s[1:]
    assert ratio == pytest.approx(ratio[0])
    assert slow.prompt_tokens.tolist() == instance.prompt_tokens.tolist()


@pytest.mark.parametrize("span_s", [0.0, -1.0, float("inf"), float("nan")])
def test_a_span_is_a_positive_time(span_s: float) -> None:
    with pytest.raises(InvalidInputError, match="span_s"):
        stretched(azure_like(5), span_s)
    with pytest.raises(InvalidInputError, match="arrivals"):
        stretched(uniform(3, 8, 4), 10.0)


def test_import_takes_both(tmp_path: Path) -> None:
    trace, out = tmp_path / "trace.csv", tmp_path / "instance.json"
    trace.write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n"
    )
    ended = optsched(
        "import", "azure", trace, "--preset", "llama3-70b-4xa100", "--span", "8", "--ttft-slo", "1",
        "--tpot-slo", "0.1", "--out", out,
    )  # fmt: skip
    assert ended.code == 0
    instance = io.read_instance(out)
    assert instance.release_s.tolist() == [0.0, 8.0]
    assert [(r.ttft_slo_s, r.tpot_slo_s) for r in instance.requests] == [(1.0, 0.1)] * 2
    refused = optsched(
        "import", "azure", trace, "--preset", "study", "--ttft-slo", "0", "--out", out
    )
    assert refused.code == 2
