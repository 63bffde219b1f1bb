"""CP-SAT of OR-tools, in a process of its own.

The program is turned into whole numbers so that CP-SAT's bound holds for the original
(:mod:`optsched.solvers.integers`); continuous columns of its solutions are solved for again with
the integer columns fixed. L. Perron and F. Didier, CP-SAT, Google OR-tools.
"""

from __future__ import annotations

import base64
import contextlib
import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

import optsched
from optsched.errors import SolverError
from optsched.model.milp import FloatArray, Milp
from optsched.solvers.box import in_a_box
from optsched.solvers.highs import highs_without_presolve
from optsched.solvers.integers import IntegerProgram, whole_numbers
from optsched.solvers.lp import complete
from optsched.solvers.outcome import Outcome, Progress, SolverOptions, Termination
from optsched.solvers.scaling import Scaled, in_solver_units
from optsched.solvers.verify import Answer, broken_rule, settle
from optsched.solvers.watch import POLL_S, Watch

GRACE_S = 10.0
COMPLETE_EVERY_S = 0.5

_TERMINATIONS = {
    "optimal": Termination.FINISHED,
    "feasible": Termination.TIME_LIMIT,
    "unknown": Termination.TIME_LIMIT,
    "infeasible": Termination.INFEASIBLE,
}


def cpsat(milp: Milp, options: SolverOptions, start: FloatArray | None = None) -> Outcome:
    """Minimise ``milp`` with CP-SAT.

    Raises
    ------
    UnsupportedError
        A column without finite bounds, or numbers beyond 64 bits.
    SolverError
        ``start`` is not feasible, or the worker fails.
    """
    scaled = in_solver_units(milp)
    program = whole_numbers(in_a_box(scaled.milp))
    name = f"CP-SAT {importlib.metadata.version('ortools')}"

    def attempt(limits: SolverOptions) -> Answer:
        if np.any(program.spans < 0):
            return Answer(termination=Termination.INFEASIBLE, message="an empty range of integers")
        return _Conversation(milp, scaled, program, limits, start).answer()

    def careful(limits: SolverOptions) -> Answer:
        return highs_without_presolve(milp, limits)

    return settle(milp, options, start, name, attempt, careful)


class _Conversation:
    """One run of the worker."""

    def __init__(
        self,
        milp: Milp,
        scaled: Scaled,
        program: IntegerProgram,
        options: SolverOptions,
        start: FloatArray | None,
    ) -> None:
        self._milp, self._scaled, self._program = milp, scaled, program
        self._options, self._start = options, start
        self._watch = Watch(options)
        self._begin = time.monotonic()
        self._completed = -np.inf
        self._bound: float | None = None

    def answer(self) -> Answer:
        """What CP-SAT says, in the model's units."""
        with tempfile.TemporaryDirectory(prefix="optsched-cpsat-") as folder:
            path = Path(folder, "model.npz")
            hint = None if self._start is None else self._scaled.start(self._start)
            save_program(path, self._program, self._options, hint)
            end = self._watch.run(lambda: self._talk(path))
        termination = _TERMINATIONS.get(end["status"])
        if termination is None:
            raise SolverError(f"CP-SAT refuses the model: {end['message']}")
        if termination is Termination.TIME_LIMIT and self._watch.stopping:
            termination = Termination.INTERRUPTED
        point = None if end["point"] is None else self._point(end["point"])
        if termination is Termination.FINISHED and point is None:
            # The whole-number relaxation has an optimum from which no feasible point follows.
            termination = Termination.FAILED
        return Answer(
            termination=termination,
            point=point,
            bound=self._seconds(end["bound"]),
            nodes=int(end["nodes"]),
            message=str(end["message"]),
        )

    def _talk(self, path: Path) -> dict[str, Any]:
        """Start the worker, pass on its signs of life, return its last line."""
        command = [sys.executable, "-m", "optsched.solvers.cpsat_worker", str(path)]
        complaints = path.with_suffix(".stderr")
        end = None
        with (
            complaints.open("w") as stderr,
            subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr,
                text=True, env=_environment(), start_new_session=True,
            ) as worker,
        ):  # fmt: skip
            done = threading.Event()
            threading.Thread(target=self._stop_when_asked, args=(worker, done), daemon=True).start()
            assert worker.stdout is not None
            for line in worker.stdout:
                said = json.loads(line)
                if said["kind"] == "end":
                    end = said
                    break
                self._report(said)
            done.set()
        if end is None and self._watch.stopping:
            return {"status": "unknown", "point": None, "bound": None, "nodes": 0, "message": ""}
        if end is None:
            last = complaints.read_text(errors="replace").strip().rsplit("\n", 1)[-1]
            raise SolverError(
                f"the CP-SAT worker ended with code {worker.returncode}, unanswered: {last}",
                hint="it may have run out of memory; try highs",
            )
        return dict(end)

    def _report(self, said: dict[str, Any]) -> None:
        self._bound = self._seconds(said["bound"])
        point = None
        now = time.monotonic()
        if self._options.report is not None and now >= self._completed + COMPLETE_EVERY_S:
            if "point" in said:
                point = self._point(said["point"])
                self._completed = now
            value = None if point is None else self._milp.value(point)
            self._watch.tell(
                Progress(value=value, bound=self._bound, wall_s=now - self._begin, point=point)
            )

    def _stop_when_asked(self, worker: subprocess.Popen[str], done: threading.Event) -> None:
        """Ask the worker to stop on the caller's wish or when late; kill it if it does not."""
        limit = self._options.time_limit_s
        latest = np.inf if limit is None else self._begin + limit + GRACE_S
        asked = np.inf
        assert worker.stdin is not None
        while not done.wait(POLL_S):
            now = time.monotonic()
            if self._watch.stopping or now > latest:
                asked = min(asked, now)
            if now > asked + GRACE_S:
                worker.kill()
                return
            if now >= asked:  # again and again, as the search may not have begun
                with contextlib.suppress(OSError):
                    worker.stdin.write("stop\n")
                    worker.stdin.flush()

    def _seconds(self, objective: float | None) -> float | None:
        if objective is None or not abs(objective) < 2.0**61:
            return None
        return self._scaled.seconds(self._program.bound(objective))

    def _point(self, text: str) -> FloatArray | None:
        """Point of the model for a solution of the whole-number program; None if it has none."""
        z = np.frombuffer(base64.b64decode(text), dtype="<i8").astype(np.int64)
        point = self._scaled.point(self._program.point(z))
        if self._milp.integer.all():
            return point if broken_rule(self._milp, point) is None else None
        return complete(self._milp, point, SolverOptions(seed=self._options.seed))


def save_program(
    path: Path, program: IntegerProgram, options: SolverOptions, hint: FloatArray | None
) -> None:
    """Write what the worker reads; ``hint`` is an x near a good solution."""
    limit = options.time_limit_s
    np.savez(
        path,
        spans=program.spans, cost=program.cost, constant=program.constant,
        row_lower=program.row_lower, row_upper=program.row_upper,
        starts=program.starts, columns=program.columns, values=program.values,
        hint=np.zeros(0, dtype=np.int64) if hint is None else program.hint(hint),
        deadline=np.inf if limit is None else time.time() + limit,
        threads=options.threads, seed=options.seed, relative_gap=options.relative_gap,
    )  # fmt: skip


def _environment() -> dict[str, str]:
    """The environment, with this package importable also where it is not installed."""
    root = str(Path(optsched.__file__).parent.parent)
    others = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": root if not others else root + os.pathsep + others}
