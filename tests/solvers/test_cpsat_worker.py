"""The worker process: it stops when asked, and ends when nobody listens any more."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from optsched.solvers.box import in_a_box
from optsched.solvers.cpsat import _environment, save_program
from optsched.solvers.integers import whole_numbers
from optsched.solvers.outcome import SolverOptions
from tests.solvers.programs import market_split


@pytest.fixture
def worker(tmp_path: Path) -> subprocess.Popen[str]:
    milp, _ = market_split()
    path = tmp_path / "model.npz"
    save_program(path, whole_numbers(in_a_box(milp)), SolverOptions(time_limit_s=300), None)
    process = subprocess.Popen(
        [sys.executable, "-m", "optsched.solvers.cpsat_worker", str(path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=_environment(),
    )  # fmt: skip
    assert json.loads(process.stdout.readline())["kind"] in ("solution", "bound")
    yield process
    process.kill()
    process.communicate()


def test_stops_when_asked(worker: subprocess.Popen[str]) -> None:
    worker.stdin.write("stop\n")
    worker.stdin.flush()
    last = json.loads(worker.stdout.readlines()[-1])
    assert last["kind"] == "end"
    assert last["status"] in ("feasible", "unknown")
    assert worker.wait(60) == 0


def test_ends_when_its_parent_is_gone(worker: subprocess.Popen[str]) -> None:
    worker.stdin.close()
    worker.stdin = None
    assert worker.wait(60) == 1
