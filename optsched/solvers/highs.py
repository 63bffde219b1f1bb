"""HiGHS through highspy: the default back end.

Julian Hall and others, HiGHS, https://highs.dev.
"""

from __future__ import annotations

import time
from dataclasses import replace

import highspy
import numpy as np

from optsched.errors import SolverError
from optsched.model.milp import FloatArray, Milp
from optsched.solvers.highs_object import (
    INTERIOR_POINT_ENTRIES,
    NAME,
    highs_object,
    require_ok,
    set_options,
)
from optsched.solvers.lp import dual_bound
from optsched.solvers.outcome import Outcome, Progress, SolverOptions, Termination
from optsched.solvers.scaling import Scaled, in_solver_units
from optsched.solvers.verify import Answer, settle
from optsched.solvers.watch import Watch

REPORT_EVERY_S = 0.5
# A second search of up to this long more than the first checks optima found within CHEAP_S.
CHEAP_S = 0.5
DOUBT_S = 0.3
DOUBT = 1e-6

_TERMINATIONS = {
    highspy.HighsModelStatus.kOptimal: Termination.FINISHED,
    highspy.HighsModelStatus.kModelEmpty: Termination.FINISHED,
    highspy.HighsModelStatus.kInfeasible: Termination.INFEASIBLE,
    highspy.HighsModelStatus.kTimeLimit: Termination.TIME_LIMIT,
    highspy.HighsModelStatus.kInterrupt: Termination.INTERRUPTED,
}
_NO_OPTIMUM = (
    highspy.HighsModelStatus.kUnbounded,
    highspy.HighsModelStatus.kUnboundedOrInfeasible,
)


def highs(milp: Milp, options: SolverOptions, start: FloatArray | None = None) -> Outcome:
    """Minimise ``milp`` with HiGHS.

    Raises
    ------
    SolverError
        The program is unbounded, ``start`` is not feasible, or HiGHS fails twice.
    """

    def attempt(limits: SolverOptions) -> Answer:
        begin = time.monotonic()
        answer = _answer(milp, limits, start, presolve=True)
        took_s = time.monotonic() - begin
        lost = _lost_by_presolve(milp, limits, answer, took_s)
        return answer if lost is None else Answer(termination=Termination.FAILED, message=lost)

    def careful(limits: SolverOptions) -> Answer:
        return _answer(milp, limits, start, presolve=False)

    return settle(milp, options, start, NAME, attempt, careful)


def _lost_by_presolve(
    milp: Milp, options: SolverOptions, answer: Answer, took_s: float
) -> str | None:
    """What refutes an optimum that took a moment to find: a better point found without presolve.

    The search without presolve starts from the optimum and gets about as long as that took.
    """
    if (
        answer.termination is not Termination.FINISHED
        or answer.point is None
        or answer.bound is None
        or not milp.integer.any()
        or took_s > CHEAP_S
        or (options.stop is not None and options.stop())
    ):
        return None
    limit_s = took_s + DOUBT_S
    if options.time_limit_s is not None:
        limit_s = min(limit_s, options.time_limit_s - took_s)
    short = replace(options, time_limit_s=limit_s, report=None)
    other = _answer(milp, short, answer.point, presolve=False)
    if other.point is None or other.value is None:
        return None
    size = abs(milp.offset) + float(np.abs(milp.cost) @ np.abs(answer.point))
    if other.value >= answer.bound - DOUBT * size:
        return None
    return f"bound {answer.bound!r} with presolve, a point of {other.value!r} without"


def highs_without_presolve(milp: Milp, options: SolverOptions) -> Answer:
    """The second opinion on what another solver calls infeasible."""
    answer = _answer(milp, options, None, presolve=False)
    return replace(answer, by=f"{NAME} without presolve")


def _answer(
    milp: Milp, options: SolverOptions, start: FloatArray | None, *, presolve: bool
) -> Answer:
    scaled = in_solver_units(milp)
    run = highs_object(scaled.milp)
    set_options(
        run, seed=options.seed, threads=options.threads, time_limit_s=options.time_limit_s,
        presolve=presolve,
    )  # fmt: skip
    require_ok(run.setOptionValue("mip_rel_gap", options.relative_gap), "refuses the gap")
    if milp.integer.any() and milp.entries >= INTERIOR_POINT_ENTRIES:
        run.setOptionValue("mip_lp_solver", "ipm")  # versions without this option ignore it
    if start is not None:
        solution = highspy.HighsSolution()
        solution.col_value = scaled.start(start)
        require_ok(run.setSolution(solution), "refuses the start")
    watch = Watch(options)
    _Signals(run, scaled, watch, wanted=options.report is not None)
    status = watch.run(run.run)
    return _read(milp, scaled, run, failed=status == highspy.HighsStatus.kError, final=not presolve)


def _read(milp: Milp, scaled: Scaled, run: highspy.Highs, *, failed: bool, final: bool) -> Answer:
    status = run.getModelStatus()
    message = run.modelStatusToString(status)
    if status in _NO_OPTIMUM:
        if final:
            raise SolverError(
                f"{milp.name} has no optimum: {NAME} calls it {message.lower()}",
                hint="bound the columns that have a cost",
            )
        return Answer(termination=Termination.INFEASIBLE, message=message)
    termination = Termination.FAILED if failed else _TERMINATIONS.get(status, Termination.FAILED)
    if termination in (Termination.INFEASIBLE, Termination.FAILED):
        return Answer(termination=termination, message=message)
    info, found = run.getInfo(), run.getSolution()
    value = scaled.seconds(info.objective_function_value)
    point = None
    if not milp.columns:
        point, value = np.zeros(0), milp.offset
    elif found.value_valid and value is not None:
        point = scaled.point(np.array(found.col_value))
    if milp.integer.any():
        bound, nodes = scaled.seconds(info.mip_dual_bound), int(info.mip_node_count)
    else:
        duals = scaled.row_duals(np.array(found.row_dual)) if found.dual_valid else None
        bound, nodes = None if duals is None else dual_bound(milp, duals), None
        point, value = (point, value) if termination is Termination.FINISHED else (None, None)
    return Answer(
        termination=termination,
        point=point,
        value=value if point is not None else None,
        bound=bound,
        nodes=nodes,
        message=message,
    )


class _Signals:
    """Callbacks of one run: progress out, interruption in."""

    def __init__(self, run: highspy.Highs, scaled: Scaled, watch: Watch, *, wanted: bool) -> None:
        self._scaled, self._watch, self._wanted = scaled, watch, wanted
        self._begin, self._told = time.monotonic(), 0.0
        for event in (run.cbSimplexInterrupt, run.cbIpmInterrupt):
            event.subscribe(self._interrupt)
        run.cbMipInterrupt.subscribe(self._sign_of_life)
        if wanted:
            run.cbMipImprovingSolution.subscribe(self._improved)

    def _interrupt(self, event: highspy.HighsCallbackEvent) -> None:
        if self._watch.stopping:
            event.interrupt()

    def _sign_of_life(self, event: highspy.HighsCallbackEvent) -> None:
        self._interrupt(event)
        wall_s = time.monotonic() - self._begin
        if self._wanted and wall_s >= self._told + REPORT_EVERY_S:
            self._told = wall_s
            self._tell(event, float(event.data_out.mip_primal_bound), None)

    def _improved(self, event: highspy.HighsCallbackEvent) -> None:
        point = self._scaled.point(np.array(event.data_out.mip_solution))
        point = np.where(self._scaled.milp.integer, np.rint(point), point)
        self._tell(event, float(event.data_out.objective_function_value), point)

    def _tell(
        self, event: highspy.HighsCallbackEvent, value: float, point: FloatArray | None
    ) -> None:
        progress = Progress(
            value=self._scaled.seconds(value),
            bound=self._scaled.seconds(float(event.data_out.mip_dual_bound)),
            wall_s=time.monotonic() - self._begin,
            nodes=int(event.data_out.mip_node_count),
            point=point,
        )
        self._watch.tell(progress)
