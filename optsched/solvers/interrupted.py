"""Ctrl-C in the middle of a linear program that is one of many."""

from __future__ import annotations

from optsched.solvers.lp import LpSolution
from optsched.solvers.outcome import Termination


def unless_interrupted(solution: LpSolution) -> LpSolution:
    """``solution``, or KeyboardInterrupt if Ctrl-C ended the program.

    A back end turns Ctrl-C into an answer, so that its caller can keep the best so far. A loop
    that would go on with the next program must hand the wish to stop on instead.
    """
    if solution.termination is Termination.INTERRUPTED:
        raise KeyboardInterrupt
    return solution
