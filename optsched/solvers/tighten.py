"""Cut loop at the root: solve the relaxation, separate, add, repeat."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from optsched.model.milp import Block, FloatArray, Milp
from optsched.solvers.lp import LinearProgram, LpSolution
from optsched.solvers.outcome import SolverOptions, Termination
from optsched.solvers.watch import Wish, ctrl_c_is_a_wish

NEAR_TIGHT = 1e-6
PROGRESS = 1e-6
PATIENCE = 3


@dataclass(frozen=True, kw_only=True, eq=False)
class Tightened:
    """A program with the cuts that matter, and what its relaxation proves.

    Parameters
    ----------
    milp : Milp
        The original with the added rows that are near-tight in the last relaxation solved.
    bound : float or None
        Best lower bound of the relaxations, from row prices; None if none was solved.
    before : float or None
        The same before any cut.
    rounds : int
        Relaxations solved.
    separated, kept : int
        Rows found, and rows in ``milp`` of them.
    infeasible : bool
        A relaxation has no point, hence the program neither.
    interrupted : bool
        Ctrl-C or ``stop`` came while it ran, at whatever moment.
    wall_s : float
        Seconds spent.
    """

    milp: Milp
    bound: float | None
    before: float | None
    rounds: int
    separated: int
    kept: int
    infeasible: bool
    interrupted: bool
    wall_s: float


def tighten(
    milp: Milp,
    separate: Callable[[FloatArray], Block | None],
    *,
    rounds: int,
    time_limit_s: float | None = None,
    stop: Callable[[], bool] | None = None,
    threads: int = 1,
    seed: int = 0,
) -> Tightened:
    """Add rows that ``separate`` finds violated by the relaxation's point.

    Ends when it finds none, after ``rounds`` relaxations, when three in a row raise the bound by
    less than 1e-6 of itself, or at the time limit.

    Parameters
    ----------
    separate : callable
        From a point, shape ``(columns,)``, to violated rows that hold for every feasible integer
        point, or None.
    """
    begin = time.monotonic()
    program = LinearProgram(milp, threads=threads, seed=seed)
    bounds: list[float] = []
    cuts: list[Block] = []
    last: LpSolution | None = None
    infeasible, solved, wish = False, 0, Wish(stop)
    with ctrl_c_is_a_wish(wish):
        while solved < rounds and not wish.ask():
            left = None if time_limit_s is None else time_limit_s - (time.monotonic() - begin)
            if left is not None and left <= 0:
                break
            answer = program.solve(SolverOptions(time_limit_s=left, stop=wish.ask))
            solved += 1
            if answer.bound is not None:
                bounds.append(answer.bound)
            infeasible = answer.termination is Termination.INFEASIBLE
            if answer.point is None:
                break
            last = answer
            if wish.expressed or _stalled(bounds):
                break
            found = separate(answer.point)
            if found is None or not found.rows:
                break
            cuts.append(found)
            program.add(found)
    kept = [] if last is None else [near_tight(cut, last.point) for cut in cuts]  # type: ignore[arg-type]
    kept = [cut for cut in kept if cut.rows]
    return Tightened(
        milp=replace(milp, blocks=(*milp.blocks, *kept)),
        bound=max(bounds, default=None),
        before=bounds[0] if bounds else None,
        rounds=solved,
        separated=sum(cut.rows for cut in cuts),
        kept=sum(cut.rows for cut in kept),
        infeasible=infeasible,
        interrupted=wish.ask(),
        wall_s=time.monotonic() - begin,
    )


def near_tight(cut: Block, point: FloatArray) -> Block:
    """The rows of ``cut`` that ``point`` meets with a slack of at most 1e-6 of their size."""
    activity = cut.activity(point)
    size = cut.row_sums(np.abs(cut.values))
    slack = np.minimum(activity - cut.lower, cut.upper - activity)
    return cut.select(slack <= NEAR_TIGHT * np.maximum(size, 1.0))


def _stalled(bounds: list[float]) -> bool:
    if len(bounds) <= PATIENCE:
        return False
    before, now = bounds[-1 - PATIENCE], bounds[-1]
    return now - before <= PROGRESS * max(abs(before), 1e-9)
