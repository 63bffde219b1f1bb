"""What users get wrong: one clear line each, the documented exit code, never a traceback."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import ROOT, optsched

GOOD: dict[str, Any] = {
    "format": "optsched-instance/1",
    "name": "two",
    "limits": {"kv_tokens": 16, "batch_tokens": 4096},
    "cost": {"preset": "study"},
    "requests": [{"id": "r0", "prompt_tokens": 8, "output_tokens": 4}],
}
I4 = ROOT / "instances" / "paper" / "I4.json"


def instance(tmp_path: Path, **parts: Any) -> Path:
    path = tmp_path / "instance.json"
    path.write_text(json.dumps({**GOOD, **parts}))
    return path


REQUEST = GOOD["requests"][0]
FILES = [
    ({"requests": [{**REQUEST, "prompt_tokens": 80}]}, "request 'r0' needs 83 KV tokens"),
    ({"requests": [{"id": "r0", "prompt_tokens": 8}]}, "missing required field `output_tokens`"),
    ({"requests": [{**REQUEST, "promt": 1}]}, "unknown field `promt`"),
    ({"requests": [{**REQUEST, "output_tokens": -1}]}, "output_tokens: got -1"),
    ({"requests": []}, "at least one request"),
    ({"cost": {"preset": "llama2-7b-a10"}}, "did you mean llama2-7b-a100"),
    ({"limits": {"kv_tokens": 16, "batch_tokens": 0}}, "batch_tokens: got 0"),
]


@pytest.mark.parametrize("command", ["solve", "bound"])
@pytest.mark.parametrize(("parts", "what"), FILES)
def test_broken_and_infeasible_instances(
    tmp_path: Path, command: str, parts: dict[str, Any], what: str
) -> None:
    ended = optsched(command, instance(tmp_path, **parts))
    assert ended.code == 1
    assert ended.out == ""
    assert ended.err.startswith("error: ")
    assert what in ended.err
    assert len(ended.err.splitlines()) <= 2  # the error and perhaps a hint


def test_infeasible_as_json_says_so_on_stdout_too(tmp_path: Path) -> None:
    path = instance(tmp_path, requests=[{**REQUEST, "prompt_tokens": 80}])
    ended = optsched("solve", path, "--json")
    assert ended.code == 1
    result = json.loads(ended.out)
    assert result["termination"] == "infeasible"
    assert result["value"] is None


def test_no_chunk_can_make_an_instance_infeasible(tmp_path: Path) -> None:
    path = instance(tmp_path, limits={"kv_tokens": 16, "batch_tokens": 4})
    ended = optsched("solve", path, "--policy", "no-chunk")
    assert ended.code == 1
    assert "fill of 8 tokens" in ended.err
    assert "hint: drop --policy no-chunk" in ended.err


@pytest.mark.parametrize(
    ("arguments", "code", "what"),
    [
        (["solve"], 2, "Missing argument"),
        (["solve", I4, "--formulatoin", "auto"], 2, "--formulation"),
        (["solve", I4, "--formulation", "netwrk"], 2, "did you mean network"),
        (["solve", I4, "--policy", "no-evct"], 2, "did you mean no-evict"),
        (["solve", I4, "--solver", "higs"], 2, "did you mean highs"),
        (["solve", I4, "--solver", "pulp:MOSEK", "--formulation", "compact"], 1, "not installed"),
        (["solve", I4, "--warm-start", "sarthi"], 2, "did you mean sarathi"),
        (["solve", I4, "--time-limit", "-3"], 2, "time-limit"),
        (["solve", I4, "--write-model", "model.txt"], 1, ".mps"),
        (["solve", "missing.json"], 1, "no such file"),
        (["bound", "--scheduler", "sarthi"], 2, "did you mean sarathi"),
        (["bound", "--scheduler", "nothing.py:rule"], 1, "nothing.py"),
        (["bound", I4, "--schedule", I4], 1, "optsched-schedule/1"),
        (["simulate", I4], 2, "--scheduler NAME"),
        (["import", "azur", "x.csv", "--preset", "study", "--out", "o.json"], 2, "azure"),
        (["import", "azure", "x.csv", "--preset", "study", "--out", "o.json"], 1, "no such file"),
        (["schema", "instances"], 2, "did you mean instance"),
        (["sovle"], 2, "No such command"),
    ],
)
def test_usage(arguments: list[object], code: int, what: str) -> None:
    ended = optsched(*arguments)
    assert ended.code == code, ended.err
    assert what in ended.err
    assert ended.out == ""


def test_a_scheduler_that_breaks_a_rule_is_refused(tmp_path: Path) -> None:
    rule = tmp_path / "mine.py"
    rule.write_text(
        "from optsched.schedule import from_steps\n"
        "def rule(instance):\n"
        "    return from_steps([(i, 1, 1, 4) for i in range(len(instance))])\n"
        "def crash(instance):\n"
        "    return 1 / 0\n"
    )
    ended = optsched("bound", I4, "--scheduler", f"{rule}:rule")
    assert ended.code == 3
    assert "kv_capacity" in ended.err
    ended = optsched("bound", I4, "--scheduler", f"{rule}:crash")
    assert ended.code == 1
    assert "ZeroDivisionError" in ended.err


def test_an_unwritable_result_is_told_before_anything_is_lost(tmp_path: Path) -> None:
    ended = optsched("solve", I4, "--out", tmp_path / "no" / "such" / "folder.json")
    assert ended.code == 1
    assert "cannot be written" in ended.err
