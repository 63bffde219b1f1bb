"""CBC, the solver that comes with PuLP, run as a process whose log is read as it grows.

PuLP names the executable; the model goes to it in a file of full precision, and what CBC says of
termination, point and bound is read from its log and solution file as three separate facts
(PuLP itself keeps neither the bound nor the reason to stop). John Forrest and others, COIN-OR CBC.
"""

from __future__ import annotations

import re
import signal
import subprocess
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from optsched.model.milp import FloatArray, Milp
from optsched.solvers.highs import highs_without_presolve
from optsched.solvers.lp import complete
from optsched.solvers.outcome import Outcome, Progress, SolverOptions, Termination
from optsched.solvers.scaling import Scaled, in_solver_units
from optsched.solvers.verify import Answer, settle
from optsched.solvers.watch import POLL_S, Watch
from optsched.solvers.write import write_numbered_mps

GRACE_S = 2.0
BOUND_DIGIT = 0.001  # the log prints bounds with three decimals
NO_BOUND = 1e49

_RESULTS = (
    ("Optimal solution found", Termination.FINISHED),
    ("Stopped on time limit", Termination.TIME_LIMIT),
    ("User ctrl-c", Termination.INTERRUPTED),
    ("Problem proven infeasible", Termination.INFEASIBLE),
    ("Linear relaxation infeasible", Termination.INFEASIBLE),
    ("Problem proven unbounded", Termination.INFEASIBLE),
    ("Linear relaxation unbounded", Termination.INFEASIBLE),
)
# First line of the solution file, for programs that CBC solves without a "Result" line.
_STATUSES = (
    ("Optimal", Termination.FINISHED),
    ("Infeasible", Termination.INFEASIBLE),
    ("Integer infeasible", Termination.INFEASIBLE),
    ("Unbounded", Termination.INFEASIBLE),
    ("Stopped on time", Termination.TIME_LIMIT),
)
_IMPROVED = re.compile(
    r"Cbc0012I Integer solution of (\S+) found|Cbc0004I Integer solution of (\S+)"
)


def cbc(
    executable: str, milp: Milp, options: SolverOptions, start: FloatArray | None = None
) -> Outcome:
    """Minimise ``milp`` with the CBC at ``executable``.

    Raises
    ------
    SolverError
        The program is unbounded, ``start`` is not feasible, or CBC's answers are refuted twice.
    """

    def attempt(limits: SolverOptions) -> Answer:
        return _answer(executable, milp, limits, start, presolve=True)

    def careful(limits: SolverOptions) -> Answer:
        answer = _answer(executable, milp, limits, start, presolve=False)
        if answer.termination in (Termination.INFEASIBLE, Termination.FAILED):
            # CBC calls unbounded programs infeasible, and crashes on some infeasible ones.
            return highs_without_presolve(milp, limits)
        return answer

    return settle(milp, options, start, cbc_version(executable), attempt, careful)


def cbc_version(executable: str) -> str:
    """Name and version of the CBC at ``executable``."""
    said = subprocess.run(
        [executable, "-exit"], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )
    version = re.search(r"Version:\s*(\S+)", said.stdout)
    return f"CBC {version.group(1)}" if version else "CBC"


def _answer(
    executable: str,
    milp: Milp,
    options: SolverOptions,
    start: FloatArray | None,
    *,
    presolve: bool,
) -> Answer:
    scaled = in_solver_units(milp)
    with tempfile.TemporaryDirectory(prefix="optsched-cbc-") as folder:
        model, solution = Path(folder, "model.mps"), Path(folder, "solution.txt")
        write_numbered_mps(scaled.milp, model)
        command = [executable, str(model), "-timeMode", "elapsed"]
        command += ["-ratio", repr(options.relative_gap), "-randomCbcSeed", str(options.seed + 1)]
        if options.time_limit_s is not None:
            command += ["-sec", repr(max(options.time_limit_s, 0.01))]
        if options.threads > 1:
            command += ["-threads", str(options.threads)]
        if not presolve:
            command += ["-presolve", "off", "-preprocess", "off"]
        if start is not None:
            first = Path(folder, "start.txt")
            first.write_text(_start_text(scaled.start(start)), encoding="ascii")
            command += ["-mips", str(first)]
        command += ["-solve", "-printingOptions", "all", "-solution", str(solution)]
        watch = Watch(options)
        late_s = None if options.time_limit_s is None else options.time_limit_s + GRACE_S
        begin = time.monotonic()
        log = watch.run(lambda: _run(command, watch, scaled, late_s))
        late = late_s is not None and time.monotonic() - begin >= late_s
        text = solution.read_text(encoding="ascii") if solution.exists() else ""
    answer = _read(milp, scaled, options, log, text)
    if watch.stopping and answer.termination is Termination.FAILED:
        return replace(answer, termination=Termination.INTERRUPTED)  # before it could listen
    if late and answer.termination in (Termination.FAILED, Termination.INTERRUPTED):
        return replace(answer, termination=Termination.TIME_LIMIT)
    return answer


def _start_text(point: FloatArray) -> str:
    lines = [f"{j} c{j} {value!r} 0\n" for j, value in enumerate(point.tolist())]
    return "Stopped on time - objective value 0\n" + "".join(lines)


def _run(command: list[str], watch: Watch, scaled: Scaled, late_s: float | None) -> str:
    """Log of a run; improved values are told on the way, and the wish to stop is passed on.

    Stopped as well after ``late_s``: CBC does not look at the clock in its root relaxation.
    """
    begin = time.monotonic()
    # A session of its own: Ctrl-C reaches CBC through the wish to stop, once, and not before.
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, errors="replace", start_new_session=True,
    ) as process:  # fmt: skip
        done = threading.Event()
        latest = np.inf if late_s is None else begin + late_s
        arguments = (process, watch, done, latest)
        threading.Thread(target=_stop_when_asked, args=arguments, daemon=True).start()
        lines = []
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            improved = _IMPROVED.search(line)
            if improved:
                value = scaled.seconds(float(improved.group(1) or improved.group(2)))
                watch.tell(Progress(value=value, bound=None, wall_s=time.monotonic() - begin))
        done.set()
    return "".join(lines)


def _stop_when_asked(
    process: subprocess.Popen[str], watch: Watch, done: threading.Event, latest: float
) -> None:
    while not done.wait(POLL_S):
        if watch.stopping or time.monotonic() > latest:
            process.send_signal(signal.SIGINT)
            if not done.wait(GRACE_S):
                process.kill()
            return


def _read(milp: Milp, scaled: Scaled, options: SolverOptions, log: str, solution: str) -> Answer:
    said = re.search(r"^Result - (.*)$", log, re.MULTILINE)
    status = solution.split("\n", 1)[0]
    result = said.group(1).strip() if said else status.split(" - ")[0].strip()
    table = _RESULTS if said else _STATUSES
    termination = next((t for text, t in table if result.startswith(text)), Termination.FAILED)
    if termination is Termination.FAILED:
        last = log.strip().rsplit("\n", 1)[-1]
        return Answer(termination=termination, message=result or last or "no answer")
    if termination is Termination.INFEASIBLE:
        return Answer(termination=termination, message=result)
    point = value = None
    if "no integer solution" not in status and "No feasible solution found" not in log:
        point = _point(milp, scaled, options, solution)
        value = _number(r"^Objective value: +(\S+)$", log)
    bound = _number(r"^Lower bound: +(\S+)$", log)
    if bound is not None:
        bound = None if abs(bound) > NO_BOUND else bound - BOUND_DIGIT
    elif termination is Termination.FINISHED and said:
        bound = value  # without "within gap tolerance" the tree was searched to its end
    nodes = _number(r"^Enumerated nodes: +(\S+)$", log)
    return Answer(
        termination=termination,
        point=point,
        value=None if value is None or point is None else scaled.seconds(value),
        bound=None if bound is None else scaled.seconds(bound),
        nodes=None if nodes is None else int(nodes),
        message=result,
    )


def _number(pattern: str, log: str) -> float | None:
    found = re.findall(pattern, log, re.MULTILINE)
    return float(found[-1]) if found else None


def _point(milp: Milp, scaled: Scaled, options: SolverOptions, solution: str) -> FloatArray | None:
    """Point of a solution file. It prints eight digits, so continuous columns are solved for."""
    point = np.zeros(milp.columns)
    for line in solution.splitlines()[1:]:
        parts = line.replace("**", "").split()
        if len(parts) >= 3 and parts[1].startswith("c"):
            point[int(parts[1][1:])] = float(parts[2])
    point = scaled.point(point)
    if milp.integer.all():
        return point
    completed = complete(milp, point, SolverOptions(seed=options.seed))
    return point if completed is None else completed
