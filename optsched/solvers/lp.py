"""Linear programs with HiGHS: a warm object to which rows are added, and bounds from duals."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import highspy
import numpy as np

from optsched.model.milp import Block, FloatArray, Milp
from optsched.solvers.highs_object import (
    INTERIOR_POINT_ENTRIES,
    add_rows,
    highs_object,
    set_options,
)
from optsched.solvers.outcome import SolverOptions, Termination, require_threads
from optsched.solvers.scaling import in_solver_units
from optsched.solvers.watch import Watch, Wish, ctrl_c_is_a_wish


@dataclass(frozen=True, kw_only=True, eq=False)
class LpSolution:
    """Answer of a linear program, in the model's units.

    Parameters
    ----------
    termination : Termination
        ``FINISHED``, ``INFEASIBLE`` (confirmed without presolve), ``TIME_LIMIT``,
        ``INTERRUPTED`` or ``FAILED``.
    point : float array or None, shape ``(columns,)``
        Primal point; only of a solve that ran to its end.
    value : float or None
        Objective at ``point``, recomputed.
    bound : float or None
        Lower bound recomputed from ``row_duals``, see :func:`dual_bound`.
    row_duals : float array or None, shape ``(rows,)``
        Change of the optimum per unit of a row's binding side.
    """

    termination: Termination
    point: FloatArray | None
    value: float | None
    bound: float | None
    row_duals: FloatArray | None
    wall_s: float
    message: str


class LinearProgram:
    """The relaxation of ``milp`` in a HiGHS object that keeps its basis between solves.

    Raises
    ------
    InvalidInputError
        More threads than processors.
    SolverError
        HiGHS refuses the arrays, or there is not enough memory.
    """

    def __init__(self, milp: Milp, *, threads: int = 1, seed: int = 0) -> None:
        require_threads(threads)
        # Scaled as the program itself, whose times stand out only by being continuous.
        self._scaled = in_solver_units(milp)
        self._highs = highs_object(self._scaled.milp, relaxed=True)
        self._milp = replace(milp, integer=np.zeros(milp.columns, dtype=np.bool_))
        self._threads, self._seed = threads, seed
        large = self._milp.entries >= INTERIOR_POINT_ENTRIES
        self._highs.setOptionValue("solver", "ipm" if large else "choose")
        self._stop: Callable[[], bool] = lambda: False
        for event in (self._highs.cbSimplexInterrupt, self._highs.cbIpmInterrupt):
            event.subscribe(self._interrupt)

    @property
    def milp(self) -> Milp:
        """The program with all rows added so far, without integrality."""
        return self._milp

    def add(self, rows: Block) -> None:
        """Append rows; the next solve starts from the present basis."""
        scaled, units = self._scaled.rows(rows)
        add_rows(self._highs, scaled)
        self._milp = self._milp.with_blocks(rows)
        units = np.concatenate((self._scaled.row_units, units))
        self._scaled = replace(self._scaled, row_units=units)

    def solve(self, options: SolverOptions | None = None) -> LpSolution:
        """Solve; time limit and ``stop`` of ``options`` are honoured.

        ``INTERRUPTED`` whenever the wish to stop came during the call, also if the optimum, which
        is then returned with it, came first.
        """
        options = options or SolverOptions()
        wish = Wish(options.stop)
        with ctrl_c_is_a_wish(wish):
            answer = self._solve(replace(options, stop=wish.ask))
        # Asked after Ctrl-C has its usual meaning again, so that none falls in between.
        return replace(answer, termination=Termination.INTERRUPTED) if wish.ask() else answer

    def _solve(self, options: SolverOptions) -> LpSolution:
        begin = time.monotonic()
        status = self._run(options, presolve=True)
        limit = options.time_limit_s
        if limit is not None:
            options = replace(options, time_limit_s=max(limit - (time.monotonic() - begin), 0.0))
        self._highs.setOptionValue("solver", "choose")
        if _TERMINATIONS.get(status) in (None, Termination.INFEASIBLE):
            # A lone "Infeasible" is not a proof, and crossover can end "Unknown".
            self._highs.clearSolver()
            status = self._run(options, presolve=False)
        return self._solution(status, time.monotonic() - begin)

    def _run(self, options: SolverOptions, *, presolve: bool) -> Any:
        watch = Watch(options)
        self._stop = lambda: watch.stopping
        limit = options.time_limit_s  # HiGHS counts the time of all runs of an object
        set_options(
            self._highs, seed=self._seed, threads=self._threads, presolve=presolve,
            time_limit_s=None if limit is None else self._highs.getRunTime() + limit,
        )  # fmt: skip
        if watch.run(self._highs.run) == highspy.HighsStatus.kError:
            return highspy.HighsModelStatus.kSolveError
        return self._highs.getModelStatus()

    def _interrupt(self, event: highspy.HighsCallbackEvent) -> None:
        if self._stop():
            event.interrupt()

    def _solution(self, status: highspy.HighsModelStatus, wall_s: float) -> LpSolution:
        termination = _TERMINATIONS.get(status, Termination.FAILED)
        found = self._highs.getSolution()
        point = duals = None
        if termination is Termination.FINISHED:
            point = self._scaled.point(np.array(found.col_value))
        if found.dual_valid and termination is not Termination.INFEASIBLE:
            duals = self._scaled.row_duals(np.array(found.row_dual))
        return LpSolution(
            termination=termination,
            point=point,
            value=None if point is None else self._milp.value(point),
            bound=None if duals is None else dual_bound(self._milp, duals),
            row_duals=duals,
            wall_s=wall_s,
            message=self._highs.modelStatusToString(status),
        )


_TERMINATIONS = {
    highspy.HighsModelStatus.kOptimal: Termination.FINISHED,
    highspy.HighsModelStatus.kInfeasible: Termination.INFEASIBLE,
    highspy.HighsModelStatus.kTimeLimit: Termination.TIME_LIMIT,
    highspy.HighsModelStatus.kInterrupt: Termination.INTERRUPTED,
}


def solve_lp(milp: Milp, options: SolverOptions | None = None) -> LpSolution:
    """The relaxation of ``milp``, once."""
    options = options or SolverOptions()
    return LinearProgram(milp, threads=options.threads, seed=options.seed).solve(options)


def dual_bound(milp: Milp, row_duals: FloatArray) -> float | None:
    """Lower bound on ``milp`` that any row prices y prove.

    offset + sum_r max(y_r, 0) lower_r + min(y_r, 0) upper_r + sum_j min over [lower_j, upper_j] of
    (c - A'y)_j x_j. Weak duality: valid for every y, so it holds whatever the solver did. Prices
    that point to an infinite side are dropped; a reduced cost that does is taken for zero if it
    is below 1e-9 of the largest cost, else there is no bound (None).
    """
    rows = milp.matrix()
    prices = np.where(
        ((row_duals > 0) & ~np.isfinite(rows.lower)) | ((row_duals < 0) & ~np.isfinite(rows.upper)),
        0.0,
        row_duals,
    )
    paid = np.bincount(
        rows.columns, weights=rows.values * prices[rows.entry_rows()], minlength=milp.columns
    )
    reduced = milp.cost - paid
    side = np.where(reduced > 0, milp.lower, milp.upper)
    noise = 1e-9 * float(np.abs(milp.cost).max(initial=0.0))
    open_end = ~np.isfinite(side) & (reduced != 0)
    if np.any(np.abs(reduced[open_end]) > noise):
        return None
    binding = np.where(prices > 0, rows.lower, rows.upper)
    used, priced = (reduced != 0) & ~open_end, prices != 0
    return float(milp.offset + prices[priced] @ binding[priced] + reduced[used] @ side[used])


def complete(milp: Milp, point: FloatArray, options: SolverOptions) -> FloatArray | None:
    """Best point with the integer columns of ``point``; None if there is none.

    Integer columns are rounded and fixed and the others solved for.
    """
    fixed = np.clip(np.rint(point), milp.lower, milp.upper)
    inner = replace(
        milp,
        lower=np.where(milp.integer, fixed, milp.lower),
        upper=np.where(milp.integer, fixed, milp.upper),
    )
    found = solve_lp(inner, replace(options, report=None)).point
    return None if found is None else np.where(milp.integer, fixed, found)
