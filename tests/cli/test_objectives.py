"""Objectives, targets and policies on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from optsched.io import schema
from optsched.objective import OBJECTIVES
from tests.cli.command import ROOT, optsched

TINY = ROOT / "instances" / "tiny"


@pytest.fixture
def slos(tmp_path: Path) -> Path:
    """Four requests that fit in memory one at a time; a and c both have to be first."""
    path = tmp_path / "slos.json"
    requests = [
        {"id": name, "prompt_tokens": 6, "output_tokens": 2, **({"ttft_slo_s": slo} if slo else {})}
        for name, slo in (("a", 1), ("b", 4), ("c", 1), ("d", None))
    ]
    text = {
        "format": "optsched-instance/1", "name": "slos", "cost": {"preset": "unit"},
        "limits": {"kv_tokens": 8, "batch_tokens": 64}, "requests": requests,
    }  # fmt: skip
    path.write_text(json.dumps(text))
    return path


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_every_objective_is_proven(slos: Path, objective: str, tmp_path: Path) -> None:
    out, certificate = tmp_path / "r.json", tmp_path / "c.json"
    ended = optsched(
        "solve",
        slos,
        "--objective",
        objective,
        "--json",
        "--out",
        out,
        "--certificate",
        certificate,
    )
    result = json.loads(ended.out)
    jsonschema.Draft202012Validator(schema("result")).validate(result)
    assert ended.code == 0
    assert result["objective"] == objective
    assert result["gap"] == pytest.approx(0, abs=1e-7)
    assert optsched("check", slos, out).code == 0
    assert optsched("verify", certificate).code == 0


def test_a_second_objective_and_a_limit(slos: Path) -> None:
    ended = optsched(
        "solve", slos, "--then", "mean-ttft", "--subject-to", "max-latency=8", "--json"
    )
    result = json.loads(ended.out)
    assert ended.code == 0
    assert result["value"] == 8.0
    # First tokens after 1, 2, 3, 4 s, each evicted at once: a refill that ends in the second token
    # takes a batch, as a decode does.
    assert result["tie"]["objective"] == "mean-ttft"
    assert result["tie"]["value"] == pytest.approx(2.5)


def test_a_limit_that_nothing_meets(slos: Path, tmp_path: Path) -> None:
    """At the soonest requests end after 2, 4, 6 and 8 s."""
    path = tmp_path / "certificate.json"
    ended = optsched(
        "solve", slos, "--objective", "mean-ttft", "--subject-to", "mean-latency=4",
        "--certificate", path,
    )  # fmt: skip
    assert ended.code == 3
    assert "mean-latency is to be at most 4.0, but its bound is " in ended.out
    assert f"{path}: proves" in ended.err
    told = json.loads(optsched("verify", path, "--json").out)
    assert (told["accepted"], told["objective"]) == (True, "mean-latency")
    assert told["claimed_s"] > 4


def test_what_a_limit_costs_is_verified(tmp_path: Path) -> None:
    instance, path = tmp_path / "equal.json", tmp_path / "certificate.json"
    made = optsched(
        "generate", "uniform", "--requests", "24", "--prompt", "512", "--output", "16",
        "--kv-tokens", "2000", "--out", instance,
    )  # fmt: skip
    assert made.code == 0, made.err
    ended = optsched(
        "solve", instance, "--objective", "mean-ttft", "--subject-to", "mean-latency=1.4",
        "--formulation", "none", "--effort", "quick", "--certificate", path, "--json",
    )  # fmt: skip
    assert "under a limit" in json.loads(ended.out)["proof"]
    ended = optsched("verify", path)
    assert ended.code == 0
    assert "only with a mean latency of at most 1.4 s" in ended.out
    assert "x mean TTFT" in ended.out
    tree = json.loads(path.read_text())
    tree["subject_to"]["mean-latency"] = 1.5
    path.write_text(json.dumps(tree))
    assert optsched("verify", path).code == 3


def test_a_target_is_answered(slos: Path) -> None:
    yes = optsched("solve", slos, "--at-most", "1.0*sarathi")
    assert yes.code == 0
    assert ": yes" in yes.out
    no = optsched("solve", slos, "--at-most", "7.5", "--json")
    assert no.code == 3
    found = json.loads(no.out)
    assert found["target"] == {"asked": "7.5", "value": 7.5, "answer": "no"}
    assert found["bound"] > 7.5
    assert found["conflict"]["rules"] == ["kv_capacity"]
    assert set(found["conflict"]["requests"]) == {"a", "b", "c", "d"}


def test_slos_that_cannot_be_met_together_are_named(slos: Path) -> None:
    ended = optsched("solve", slos, "--objective", "goodput", "--at-least", "all")
    assert ended.code == 3
    assert "at least 4 of 4 (all): no" in ended.out
    assert "a, c: of their SLOs not enough can be met together" in ended.out
    assert "at most 3" in ended.out


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["--at-least", "3"], "--at-most"),
        (["--objective", "goodput", "--at-most", "3"], "--at-least"),
        (["--at-most", "0.9*sarahti"], "did you mean sarathi"),
        (["--at-most", "nan"], "expected a finite number"),
        (["--subject-to", "latency=3"], "unknown objective 'latency'"),
        (["--subject-to", "mean-latency=x"], "OBJECTIVE=VALUE"),
        (["--objective", "speed"], "speed"),
        (["--policy", "fcsf"], "did you mean fcfs"),
    ],
)
def test_mistakes(slos: Path, arguments: list[str], what: str) -> None:
    ended = optsched("solve", slos, *arguments)
    assert ended.code == 2
    assert what in ended.err
    assert ended.out == ""


def test_policies_and_their_price(slos: Path) -> None:
    ended = optsched("policies", slos, "--json")
    rows = {row["policy"]: row for row in json.loads(ended.out)["policies"]}
    assert ended.code == 0
    assert set(rows) == {None, "no-evict", "no-chunk", "no-hybrid", "no-hold", "nonpreemptive"}
    assert all(row["optimal"] for row in rows.values())
    assert rows["nonpreemptive"]["most_price"] == pytest.approx(0, abs=1e-6)
    shown = optsched("policies", slos, "--policy", "no-evict").out
    assert "no-evict" in shown
    assert "optimal" in shown


def test_bound_has_every_objective(slos: Path) -> None:
    ended = optsched("bound", slos, "--scheduler", "sarathi", "--scheduler", "vllm", "--json")
    found = json.loads(ended.out)
    assert set(found["bounds"]) == set(OBJECTIVES)
    for scheduler in found["schedulers"]:
        assert set(scheduler["objectives"]) == set(OBJECTIVES)
        assert all(o["gap"] is None or o["gap"] >= 0 for o in scheduler["objectives"].values())
        assert {"mean", "p50", "p90", "p99", "max"} == set(scheduler["metrics"]["ttft_s"])
    shown = optsched("bound", slos, "--scheduler", "sarathi", "--objective", "goodput")
    assert shown.code == 0
    assert "goodput of 4" in shown.out
    assert "p99" in shown.out


@pytest.mark.parametrize("limits", [("8", "5"), ("5", "8")])
def test_of_two_limits_on_one_objective_both_hold(slos: Path, limits: tuple[str, str]) -> None:
    both = [word for limit in limits for word in ("--subject-to", f"max-latency={limit}")]
    ended = optsched("solve", slos, *both, "--json")
    assert ended.code == 3
    result = json.loads(ended.out)
    assert result["termination"] == "infeasible"
    assert result["options"]["subject_to"] == {"max-latency": 5.0}


def test_a_target_under_limits_that_cannot_be_kept(slos: Path) -> None:
    ended = optsched("solve", slos, "--at-most", "100", "--subject-to", "mean-latency=1")
    assert ended.code == 3
    assert "at most 100.00 s: no" in ended.out
    assert "no target can be reached" in ended.out
