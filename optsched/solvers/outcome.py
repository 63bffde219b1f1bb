"""What a solver is asked and what it answers: why it stopped, what it found, what it proved.

The three are separate facts. Whether a point is optimal is computed from value and bound, never
read from a status (PuLP maps HiGHS's time limit to "Optimal").
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from optsched.errors import require_count
from optsched.model.milp import Milp

FloatArray = NDArray[np.float64]


class Termination(Enum):
    """Why the solver stopped."""

    FINISHED = "finished"
    GAP_REACHED = "gap-reached"
    TIME_LIMIT = "time-limit"
    INTERRUPTED = "interrupted"
    INFEASIBLE = "infeasible"
    FAILED = "failed"


@dataclass(frozen=True, kw_only=True)
class Progress:
    """A sign of life: best value and bound so far (seconds; None if there is none yet)."""

    value: float | None
    bound: float | None
    wall_s: float
    nodes: int | None = None
    point: FloatArray | None = None


@dataclass(frozen=True, kw_only=True)
class SolverOptions:
    """Limits of one call. ``stop`` is asked now and then and ends the run when it says True.

    Raises
    ------
    InvalidInputError
        More threads than processors, or less than one.
    """

    time_limit_s: float | None = None
    relative_gap: float = 1e-6
    seed: int = 0
    threads: int = 1
    report: Callable[[Progress], None] | None = None
    stop: Callable[[], bool] | None = None

    def __post_init__(self) -> None:
        require_threads(self.threads)


def require_threads(threads: int) -> None:
    """Refuse more threads than this machine has processors: solvers die of some thousands.

    Raises
    ------
    InvalidInputError
        ``threads`` is not a whole number from 1 to the number of processors.
    """
    require_count("threads", threads, 1, os.cpu_count() or 1)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Answer of a solver, all in the model's own units (seconds).

    Parameters
    ----------
    termination : Termination
        Why it stopped. ``INFEASIBLE`` is a claim, not a proof: callers confirm it.
    point : float array or None, shape ``(columns,)``
        Best point found, integer columns rounded; feasible within the solver's tolerance.
    bound : float or None
        Proven lower bound on the objective.
    wall_s : float
        Seconds spent.
    solver : str
        Name and version.
    message : str
        The solver's own words, for the log.
    """

    termination: Termination
    point: FloatArray | None
    bound: float | None
    wall_s: float
    solver: str
    message: str = ""
    nodes: int | None = field(default=None)


class Solver(Protocol):
    """One back end: minimise ``milp``, optionally from a feasible ``start``."""

    def __call__(
        self, milp: Milp, options: SolverOptions, start: FloatArray | None = None
    ) -> Outcome: ...
