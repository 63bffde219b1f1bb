"""Nothing a solver says is passed on unchecked: points, objectives, bounds, "infeasible"."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from optsched.errors import SolverError
from optsched.model.milp import FloatArray, Milp
from optsched.solvers.lp import complete
from optsched.solvers.outcome import Outcome, SolverOptions, Termination
from optsched.solvers.watch import Wish, ctrl_c_is_a_wish

FEASIBILITY = 1e-6
CLEAN = 1e-9
ROUNDING = 1e-14
OBJECTIVE = 1e-5
BOUND = 1e-6
CONFIRM_S = 1.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Answer:
    """What a back end says, in the model's units.

    ``value`` is its own objective, if it has one; ``by`` names the solver if it is another than
    the one that was asked.
    """

    termination: Termination
    point: FloatArray | None = None
    value: float | None = None
    bound: float | None = None
    nodes: int | None = None
    message: str = ""
    by: str = ""


def settle(
    milp: Milp,
    options: SolverOptions,
    start: FloatArray | None,
    solver: str,
    attempt: Callable[[SolverOptions], Answer],
    careful: Callable[[SolverOptions], Answer],
) -> Outcome:
    """Outcome of a back end whose answers are checked.

    ``attempt`` runs first. If it calls the program infeasible, fails, or its answer is refuted,
    ``careful`` (without presolve, or another solver) has the last word, in the time that is left
    but at least a second. A feasible ``start`` is never lost: the better of it and the answer is
    returned. ``INTERRUPTED`` whenever the wish to stop came during the call.

    Raises
    ------
    SolverError
        ``start`` is not feasible, or the second answer is refuted as well.
    """
    begin = time.monotonic()
    if start is not None:
        start = np.where(milp.integer, np.rint(start), start)
        broken = broken_rule(milp, start)
        if broken is not None:
            raise SolverError(
                f"the start of {milp.name} is not feasible: {broken}",
                hint="solve without a start, or correct what encodes it",
            )
    wish = Wish(options.stop)
    with ctrl_c_is_a_wish(wish):
        limits = replace(options, stop=wish.ask)
        answer, by = _twice_if_in_doubt(milp, limits, start, solver, attempt, careful)
    if wish.ask():
        # Whatever the solver made of it: a short run may end before it hears of the wish.
        answer = replace(answer, termination=Termination.INTERRUPTED)
    return _outcome(milp, options, answer, by, time.monotonic() - begin)


def _twice_if_in_doubt(
    milp: Milp,
    options: SolverOptions,
    start: FloatArray | None,
    solver: str,
    attempt: Callable[[SolverOptions], Answer],
    careful: Callable[[SolverOptions], Answer],
) -> tuple[Answer, str]:
    """The checked answer that counts, and the name of who gave it."""
    begin = time.monotonic()
    answer, fault = _checked(milp, options, start, attempt(options))
    if fault is not None or answer.termination in (Termination.INFEASIBLE, Termination.FAILED):
        first = fault or answer.message or answer.termination.value
        left = _time_left(options, begin)
        answer, fault = _checked(milp, options, start, careful(left))
        if fault is not None:
            raise SolverError(
                f"{solver} cannot be trusted on {milp.name}: {fault}",
                hint=f"its first answer: {first}; try another solver, or report the model",
            )
        answer = replace(answer, message=f"{first}; second answer: {answer.message}")
        solver = f"{solver}, then {answer.by}" if answer.by else solver
    return answer, solver


def _time_left(options: SolverOptions, begin: float) -> SolverOptions:
    if options.time_limit_s is None:
        return options
    left = options.time_limit_s - (time.monotonic() - begin)
    return replace(options, time_limit_s=max(left, CONFIRM_S))


def _checked(
    milp: Milp, options: SolverOptions, start: FloatArray | None, answer: Answer
) -> tuple[Answer, str | None]:
    """The answer with a clean point, and what refutes it, if anything."""
    if answer.termination is Termination.INFEASIBLE:
        refuted = start is not None
        return answer, "it calls infeasible what has a feasible start" if refuted else None
    point, fault = answer.point, None
    if point is not None:
        point, fault = _clean(milp, options, point, answer.value)
    if start is not None and (point is None or milp.value(start) < milp.value(point)):
        point = start
    answer = replace(answer, point=point)
    if fault is None and point is not None and answer.bound is not None:
        value = milp.value(point)
        if answer.bound > value + BOUND * _magnitude(milp, point):
            fault = f"bound {answer.bound!r} above the value {value!r} of a feasible point"
        answer = replace(answer, bound=min(answer.bound, value))
    return answer, fault


def _clean(
    milp: Milp, options: SolverOptions, point: FloatArray, claimed: float | None
) -> tuple[FloatArray | None, str | None]:
    """Rounded and repaired point, and what is wrong with it."""
    value = milp.value(point)
    if claimed is not None and not abs(claimed - value) <= OBJECTIVE * _magnitude(milp, point):
        return None, f"objective {claimed!r} claimed for a point whose objective is {value!r}"
    rounded = np.where(milp.integer, np.rint(point), point)
    broken = broken_rule(milp, rounded)
    if not milp.integer.all() and broken_rule(milp, rounded, CLEAN) is not None:
        # Tolerances of 1e-6 of a row's size, as some solvers have, are too much for times.
        repaired = complete(milp, rounded, SolverOptions(seed=options.seed))
        if repaired is not None:
            rounded, broken = repaired, broken_rule(milp, repaired)
    if broken is not None:
        return None, broken
    return np.clip(rounded, milp.lower, milp.upper), None


def broken_rule(milp: Milp, point: FloatArray, tolerance: float = FEASIBILITY) -> str | None:
    """The rule that ``point`` breaks most, with its excess; None if it is feasible.

    Excesses up to ``tolerance`` plus 1e-9 of the side that is broken are ignored, and in rows what
    rounding errors of their terms amount to.
    """
    if point.shape != (milp.columns,) or not np.isfinite(point).all():
        return "a point of the wrong length or with a value that is not finite"
    worst, rule = 0.0, None
    excess = _excess(point, milp.lower, milp.upper, np.full(milp.columns, tolerance))
    if excess.max(initial=0.0) > worst:
        at = int(excess.argmax())
        worst, rule = float(excess[at]), f"bounds of column {milp.column_names[at]}"
    for rows in milp.blocks:
        terms = rows.values * point[rows.columns]
        allowed = tolerance + ROUNDING * rows.row_sums(np.abs(terms))
        excess = _excess(rows.row_sums(terms), rows.lower, rows.upper, allowed)
        if excess.max(initial=0.0) > worst:
            at = int(excess.argmax())
            worst, rule = float(excess[at]), f"row {at} of {rows.name}"
    return None if rule is None else f"{rule} broken by {worst:.3g}"


def _excess(
    value: FloatArray, lower: FloatArray, upper: FloatArray, tolerance: FloatArray
) -> FloatArray:
    """How far ``value`` lies outside [lower, upper], 0 within the tolerance."""
    below = np.where(np.isfinite(lower), lower - value - 1e-9 * np.abs(lower), -np.inf)
    above = np.where(np.isfinite(upper), value - upper - 1e-9 * np.abs(upper), -np.inf)
    excess = np.maximum(below, above)
    return np.where(excess > tolerance, excess, 0.0)


def _magnitude(milp: Milp, point: FloatArray) -> float:
    """Size of the terms that make up the objective, the scale of its rounding errors."""
    return abs(milp.offset) + float(np.abs(milp.cost) @ np.abs(point)) + 1e-9


def _outcome(
    milp: Milp, options: SolverOptions, answer: Answer, solver: str, wall_s: float
) -> Outcome:
    termination = answer.termination
    if termination is Termination.FINISHED and answer.point is not None:
        value = milp.value(answer.point)
        gap = np.inf if answer.bound is None else value - answer.bound
        if answer.bound is not None and gap > 1e-6 * max(abs(value), 1e-9):
            termination = Termination.GAP_REACHED
    return Outcome(
        termination=termination,
        point=answer.point,
        bound=answer.bound,
        wall_s=wall_s,
        solver=solver,
        message=answer.message,
        nodes=answer.nodes,
    )
