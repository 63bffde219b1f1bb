"""What users get wrong: one clear line each, the documented exit code, never a traceback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

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
FOUR = ("uniform", "--requests", 4, "--prompt", 4, "--output", 4)


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
        (["solve", I4, "--time-limit", "nan"], 2, "nan is not a finite number"),
        (["solve", I4, "--gap", "nan"], 2, "nan is not a finite number"),
        (["solve", I4, "--seed", 2**31], 2, f"{2**31} is not in the range"),
        (["bound", I4, "--time-limit", "nan"], 2, "nan is not a finite number"),
        (["generate", "azure-like", "--seed", -1], 2, "-1 is not in the range"),
        (["generate", "azure-like", "--rate", "nan"], 2, "nan is not a finite number"),
        (["generate", *FOUR, "--requests", 99_999_999_999], 1, "requests: got 99999999999"),
        (["generate", *FOUR, "--kv-tokens", 1], 1, "request 'r0' needs 7 KV tokens"),
        (["generate", *FOUR, "--out", "."], 1, ".: cannot be written: is a directory"),
        (["generate", *FOUR, "--out", ""], 1, "cannot be written: is a directory"),
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


def test_the_schedule_of_another_instance_is_noted_and_checked_all_the_same(
    tmp_path: Path,
) -> None:
    schedule, trace, other = (tmp_path / name for name in ("s.json", "t.json", "o.json"))
    made = ("--scheduler", "vllm", "--schedule-out", schedule, "--trace-out", trace)
    assert optsched("simulate", I4, *made).code == 0
    wire = json.loads(I4.read_text())
    wire["limits"]["kv_tokens"] += 1
    other.write_text(json.dumps(wire))
    ended = optsched("check", I4, schedule, "--trace", trace)
    assert (ended.code, ended.err) == (0, "")
    for arguments, notes in (
        (("check", other, schedule, "--trace", trace), 2),
        (("simulate", other, schedule), 1),
        (("explain", other, schedule, "--quiet"), 1),
    ):
        ended = optsched(*arguments)
        assert ended.code == 0
        assert ended.err.count("note: ") == notes
        assert ended.err.startswith(f"note: {schedule} was made for another instance")


def test_what_a_users_rule_prints_stays_out_of_the_json(tmp_path: Path) -> None:
    rule = tmp_path / "mine.py"
    rule.write_text(
        "from optsched.warmstart import scheduler\n"
        "def rule(instance):\n"
        "    print('thinking')\n"
        "    return scheduler('vllm')(instance)\n"
    )
    ended = optsched("simulate", I4, "--scheduler", f"{rule}:rule", "--json")
    assert json.loads(ended.out)["metrics"]["batches"] == 14
    assert ended.err == "thinking\n"


def test_memory_that_runs_out_is_told_in_one_line() -> None:
    with mock.patch("optsched.io.read_instance", side_effect=MemoryError("allocating 8 TiB")):
        ended = optsched("check", I4, "schedule.json")
    assert ended.code == 1
    assert ended.out == ""
    assert ended.err.startswith("error: out of memory (allocating 8 TiB)")
    assert len(ended.err.splitlines()) == 1


def started(code: str, *arguments: object, **streams: Any) -> subprocess.Popen[str]:
    """A process of its own that runs ``code`` before the command with ``arguments``."""
    command = f"{code}\nfrom optsched.cli.main import run\nrun()\n"
    return subprocess.Popen(
        [sys.executable, "-c", command, *map(str, arguments)], text=True, cwd=ROOT,
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams},
    )  # fmt: skip


@pytest.mark.parametrize("arguments", [["presets"], ["schema", "instance"], ["--help"]])
def test_a_full_device_is_told_in_one_line(arguments: list[str]) -> None:
    with open("/dev/full", "w") as full:
        running = started("", *arguments, stdout=full)
        _, err = running.communicate(timeout=60)
    assert err == "error: No space left on device\n"
    assert running.returncode == 1


def test_ctrl_c_while_the_command_is_still_loading() -> None:
    # A finder that interrupts the process when numpy is looked for: long before any argument is.
    running = started(
        f"""import os, sys
class Interrupt:
    def find_spec(self, name, *others):
        if name == "numpy":
            os.kill(os.getpid(), {int(signal.SIGINT)})
sys.meta_path.insert(0, Interrupt())""",
        "presets",
    )
    out, err = running.communicate(timeout=60)
    assert (running.returncode, out, err) == (130, "", "interrupted\n")


def test_a_file_name_that_is_no_text(tmp_path: Path) -> None:
    schedule = tmp_path / "s.json"
    optsched("simulate", I4, "--scheduler", "vllm", "--schedule-out", schedule)
    odd = os.fsencode(tmp_path) + b"/\xff.json"
    os.rename(schedule, odd)
    ended = optsched("simulate", I4, os.fsdecode(odd), "--json")
    assert ended.code == 1
    assert "no valid text" in ended.err
