"""Every command, on good input: data on stdout, JSON that obeys its schema, honest exit codes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import pytest

from optsched.io import schema
from tests.cli.command import ROOT, optsched
from tests.traces import azure_trace

PAPER = ROOT / "instances" / "paper"


def test_solve_proves_an_optimum(tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    ended = optsched("solve", PAPER / "I4.json", "--out", out)
    assert ended.code == 0
    assert "proven optimal" in ended.out
    result = json.loads(out.read_text())
    jsonschema.Draft202012Validator(schema("result")).validate(result)
    # 0.12883788 s: exhaustive search of tests/oracle.py over all schedules.
    assert result["value"] == pytest.approx(0.12883788, rel=1e-9)
    assert result["gap"] == pytest.approx(0, abs=1e-9)
    assert optsched("check", PAPER / "I4.json", out).code == 0


def test_solve_as_json_is_what_out_writes(tmp_path: Path) -> None:
    ended = optsched("solve", PAPER / "I2.json", "--json", "--out", tmp_path / "r.json")
    printed, written = json.loads(ended.out), json.loads((tmp_path / "r.json").read_text())
    assert printed == written


def test_solve_under_a_policy() -> None:
    ended = optsched("solve", PAPER / "I4.json", "--policy", "no-evict", "--json")
    result = json.loads(ended.out)
    assert ended.code == 0
    assert result["policies"] == ["no-evict"]
    assert result["scope"].startswith("all schedules under no-evict")
    assert result["value"] > 0.129


def test_solve_without_proof_exits_with_4() -> None:
    path = ROOT / "instances" / "tiny" / "arrivals-01.json"
    ended = optsched("solve", path, "--formulation", "none", "--json")
    result = json.loads(ended.out)
    assert ended.code == 4
    assert result["gap"] > 0
    assert result["formulation"] is None
    assert result["schedule"] is not None


def test_a_gap_that_is_asked_for_is_enough() -> None:
    path = ROOT / "instances" / "tiny" / "arrivals-01.json"
    ended = optsched("solve", path, "--gap", "0.9", "--json")
    assert ended.code == 0
    assert json.loads(ended.out)["termination"] == "gap-reached"


@pytest.mark.parametrize("suffix", ["mps", "lp"])
def test_write_model(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"model.{suffix}"
    ended = optsched("solve", PAPER / "I4.json", "--write-model", path)
    assert ended.code == 0
    assert path.stat().st_size > 1000


def test_warm_start_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    assert (
        optsched(
            "simulate", PAPER / "I4.json", "--scheduler", "sarathi-ef", "--schedule-out", path
        ).code
        == 0
    )
    ended = optsched("solve", PAPER / "I4.json", "--warm-start", path, "--json")
    assert json.loads(ended.out)["value"] == pytest.approx(0.12883788)


def test_bound_of_the_bundled_instance() -> None:
    ended = optsched("bound", "--scheduler", "sarathi", "--json")
    table = json.loads(ended.out)
    assert ended.code == 0
    assert [row["scheduler"] for row in table["schedulers"]] == ["sarathi"]
    assert 0 < table["best"]["gap"] <= table["schedulers"][0]["above_bound"] < 0.2
    assert table["bound"] == max(table["parts"].values())


def test_bound_with_all_schedulers_files_and_a_users_rule(tmp_path: Path) -> None:
    result = tmp_path / "r.json"
    optsched("solve", PAPER / "I8.json", "--out", result)
    ended = optsched(
        "bound", PAPER / "I8.json", "--scheduler", "all", "--schedule", result,
        "--scheduler", "docs/examples/shortest_first.py:shortest_first",
    )  # fmt: skip
    assert ended.code == 0, ended.err
    for name in ("vllm-v1", "mc-sf", "sarathi-nohy-ef", str(result), "shortest_first", "bound ("):
        assert name in ended.out


def test_a_certificate_is_accepted_and_a_raised_claim_refuted(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    assert optsched("bound", PAPER / "I64.json", "--certificate", path).code == 0
    ended = optsched("verify", path, PAPER / "I64.json", "--json")
    verdict = json.loads(ended.out)
    assert ended.code == 0
    assert verdict["accepted"]
    # The closed-walk bound meets the optimum of this instance: evictions are proven optimal.
    assert float(verdict["proven_s"]) == pytest.approx(0.15471228, rel=1e-7)
    assert optsched("verify", path, PAPER / "I4.json").code == 3
    claim = json.loads(path.read_text())
    claim["bound_s"] *= 1 + 1e-9
    path.write_text(json.dumps(claim))
    assert optsched("verify", path).code == 3


def test_solve_writes_a_certificate(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    assert optsched("solve", PAPER / "I8.json", "--certificate", path).code == 0
    assert optsched("verify", path).code == 0


def test_explain_splits_the_gap() -> None:
    ended = optsched("explain", PAPER / "I64.json", "--scheduler", "vllm-ef", "--json")
    told = json.loads(ended.out)
    assert ended.code == 0
    parts = sum(term["seconds"] for term in told["terms"] if term["part_of"] is None)
    assert parts == pytest.approx(told["value"] - told["bound"], abs=1e-12)
    assert not told["evictions"]
    text = optsched("explain", PAPER / "I64.json", "--scheduler", "vllm").out
    assert "refills" in text
    assert "eviction of" in text


def test_check_names_what_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    optsched("simulate", PAPER / "I4.json", "--scheduler", "vllm", "--schedule-out", path)
    assert optsched("check", PAPER / "I4.json", path).code == 0
    assert optsched("check", PAPER / "I4.json", path, "--policy", "no-evict").code == 3
    wire = json.loads(path.read_text())
    wire["runs"]["first_batch"] = [1 for _ in wire["runs"]["first_batch"]]
    path.write_text(json.dumps(wire))
    ended = optsched("check", PAPER / "I4.json", path, "--json")
    assert ended.code == 3
    rules = {violation["rule"] for violation in json.loads(ended.out)["violations"]}
    assert "kv_capacity" in rules or "residency" in rules
    assert optsched("simulate", PAPER / "I4.json", path).code == 3


def test_simulate_writes_a_trace_that_checks(tmp_path: Path) -> None:
    schedule, trace = tmp_path / "s.json", tmp_path / "t.json"
    ended = optsched(
        "simulate", PAPER / "I4.json", "--scheduler", "vllm", "--schedule-out", schedule,
        "--trace-out", trace, "--json",
    )  # fmt: skip
    assert json.loads(ended.out)["metrics"]["batches"] == 14
    assert optsched("check", PAPER / "I4.json", schedule, "--trace", trace).code == 0


def test_import_and_generate(tmp_path: Path) -> None:
    out = tmp_path / "hour.json"
    ended = optsched(
        "import", "azure", azure_trace(), "--preset", "llama3-70b-4xa100", "--limit", 50,
        "--out", out,
    )  # fmt: skip
    assert ended.code == 0
    assert len(json.loads(out.read_text())["requests"]) == 50
    ended = optsched("generate", "uniform", "--requests", 4, "--prompt", 4, "--output", 4)
    assert ended.out == (PAPER / "I4.json").read_text()
    assert optsched("generate", "azure-like", "--requests", 70, "--out", out).code == 0
    assert optsched("bound", out, "--scheduler", "vllm").code == 0


def test_lists() -> None:
    for command in ("presets", "schedulers"):
        assert optsched(command).code == 0
        assert json.loads(optsched(command, "--json").out)
    assert "llama3-70b-4xa100" in optsched("presets").out
    assert json.loads(optsched("schema", "schedule").out)["title"] == "optsched-schedule/1"


@pytest.mark.parametrize(
    "command",
    [
        "", "solve", "bound", "explain", "verify", "simulate", "check", "import", "generate",
        "presets", "schedulers", "schema",
    ],
)  # fmt: skip
def test_help_has_an_example(command: str) -> None:
    ended = optsched(*([command] if command else []), "--help")
    assert ended.code == 0
    assert "Example" in ended.out or command == "schedulers"


def test_a_pipe_that_closes_early_is_no_error() -> None:
    line = f"{sys.executable} -m optsched schema instance | head -n 1"
    ended = subprocess.run(line, shell=True, capture_output=True, text=True, cwd=ROOT, check=False)
    assert ended.stdout == "{\n"
    assert ended.stderr == ""


def test_a_reader_that_has_gone_before_the_end_is_no_error() -> None:
    """Of several lines written one after another, the first one finds nobody to read it."""
    read, write = os.pipe()
    os.close(read)
    ended = subprocess.run(
        [sys.executable, "-m", "optsched", "schedulers"],
        stdout=write, stderr=subprocess.PIPE, text=True, cwd=ROOT, check=False,
    )  # fmt: skip
    os.close(write)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_the_same_input_gives_the_same_bytes() -> None:
    first, second = (optsched("solve", PAPER / "I8.json", "--json").out for _ in range(2))

    def without_times(text: str) -> dict[str, object]:
        result = json.loads(text)
        del result["wall_s"]
        for step in result["steps"]:
            del step["wall_s"]
        return dict(result)

    assert without_times(first) == without_times(second)


def test_ctrl_c_keeps_the_best_found(tmp_path: Path) -> None:
    hard, out = tmp_path / "hard.json", tmp_path / "result.json"
    optsched(
        "generate", "uniform", "--requests", 16, "--prompt", 16, "--output", 16,
        "--kv-tokens", 128, "--out", hard,
    )  # fmt: skip
    running = subprocess.Popen(
        [sys.executable, "-m", "optsched", "solve", hard, "--out", out, "--time-limit", "100"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
    )  # fmt: skip
    time.sleep(6)
    os.kill(running.pid, signal.SIGINT)
    stdout, stderr = running.communicate(timeout=60)
    assert "Traceback" not in stderr
    assert running.returncode == 4
    result = json.loads(out.read_text())
    assert result["termination"] == "interrupted"
    assert result["value"] >= result["bound"] > 0
    assert "interrupted" in stdout
    assert optsched("check", hard, out).code == 0
