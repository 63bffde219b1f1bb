"""CP-SAT in a process of its own: ``python -m optsched.solvers.cpsat_worker MODEL.npz``.

highspy and ortools clash in one process, so this one imports neither highspy nor anything that
does. One JSON object per line goes to stdout (:func:`emit`); a line on stdin asks to stop, and
the end of stdin, which is also what the parent's death looks like, ends the process.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import sys
import threading
import time
from typing import Any

import numpy as np
from ortools.sat.python import cp_model

STATUSES = {
    cp_model.OPTIMAL: "optimal",
    cp_model.FEASIBLE: "feasible",
    cp_model.INFEASIBLE: "infeasible",
    cp_model.UNKNOWN: "unknown",
    cp_model.MODEL_INVALID: "invalid",
}


def emit(kind: str, **facts: Any) -> None:
    """Write one line: its kind and facts."""
    sys.stdout.write(json.dumps({"kind": kind, **facts}) + "\n")
    sys.stdout.flush()


class Report(cp_model.CpSolverSolutionCallback):  # type: ignore[misc]
    """Sends every improved solution."""

    def __init__(self, variables: list[cp_model.IntVar]) -> None:
        super().__init__()
        self._variables = variables

    def on_solution_callback(self) -> None:
        """Called by CP-SAT for each improved solution."""
        z = np.array([self.value(variable) for variable in self._variables], dtype=np.int64)
        emit("solution", bound=self.best_objective_bound, point=encoded(z))


def encoded(z: np.ndarray) -> str:
    """Whole numbers as text."""
    return base64.b64encode(z.astype("<i8").tobytes()).decode("ascii")


def build(arrays: Any) -> tuple[cp_model.CpModel, list[cp_model.IntVar]]:
    """CP-SAT's model of the arrays of an :class:`~optsched.solvers.integers.IntegerProgram`."""
    model = cp_model.CpModel()
    variables = [model.new_int_var(0, span, "") for span in arrays["spans"].tolist()]
    starts, values = arrays["starts"].tolist(), arrays["values"].tolist()
    columns = [variables[j] for j in arrays["columns"].tolist()]
    sides = zip(arrays["row_lower"].tolist(), arrays["row_upper"].tolist(), strict=True)
    for r, (low, high) in enumerate(sides):
        here = slice(starts[r], starts[r + 1])
        terms = cp_model.LinearExpr.weighted_sum(columns[here], values[here])
        model.add_linear_constraint(terms, low, high)
    objective = cp_model.LinearExpr.weighted_sum(variables, arrays["cost"].tolist())
    model.minimize(objective + int(arrays["constant"]))
    for variable, value in zip(variables, arrays["hint"].tolist(), strict=False):
        model.add_hint(variable, value)
    return model, variables


def obey(solver: cp_model.CpSolver) -> None:
    """Stop the search when a line arrives, the process when the parent is gone."""
    for _ in sys.stdin:
        solver.stop_search()
    os._exit(1)


def main(path: str) -> None:
    """Solve the program in the file at ``path``."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business
    solver = cp_model.CpSolver()
    threading.Thread(target=obey, args=(solver,), daemon=True).start()
    with np.load(path) as arrays:
        model, variables = build(arrays)
        deadline = float(arrays["deadline"])
        solver.parameters.num_workers = int(arrays["threads"])
        solver.parameters.random_seed = int(arrays["seed"])
        solver.parameters.relative_gap_limit = float(arrays["relative_gap"])
    if np.isfinite(deadline):
        solver.parameters.max_time_in_seconds = max(deadline - time.time(), 0.01)
    bounds: list[float] = []

    def bounded(bound: float) -> None:
        bounds.append(bound)
        emit("bound", bound=bound)

    solver.best_bound_callback = bounded
    status = solver.solve(model, Report(variables))
    found = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
    # Without a solution CP-SAT's own "best bound" is 0 if it has not proven any yet.
    bound = solver.best_objective_bound if found else max(bounds, default=None)
    z = np.array([solver.value(v) for v in variables], dtype=np.int64) if found else None
    emit(
        "end",
        status=STATUSES[status],
        bound=bound,
        point=None if z is None else encoded(z),
        nodes=solver.num_branches,
        message=model.validate() if status == cp_model.MODEL_INVALID else STATUSES[status],
    )


if __name__ == "__main__":
    main(sys.argv[1])
    sys.stdout.flush()
    os._exit(0)  # without waiting for the thread that reads stdin
