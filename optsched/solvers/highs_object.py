"""Handing a program to HiGHS: arrays straight in, and the options that every run shares."""

from __future__ import annotations

import math

import highspy
import numpy as np

from optsched.errors import SolverError
from optsched.model.milp import Block, Milp
from optsched.solvers.watch import out_of_memory

NAME = f"HiGHS {highspy.HIGHS_VERSION_MAJOR}.{highspy.HIGHS_VERSION_MINOR}.{highspy.HIGHS_VERSION_PATCH}"  # noqa: E501
ROWWISE, MINIMISE = 2, 1
# From this many non-zeros on the first relaxation is solved by the interior point method with
# crossover, which was 4 to 15 times faster than the simplex method between 24,000 and 137,000.
INTERIOR_POINT_ENTRIES = 20_000


def highs_object(milp: Milp, *, relaxed: bool = False) -> highspy.Highs:
    """A silent HiGHS object that holds ``milp``; ``relaxed`` drops integrality.

    Raises
    ------
    SolverError
        HiGHS refuses the arrays (not a number, beyond 1e15), or there is not enough memory.
    """
    rows = milp.matrix()
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    integer = np.zeros(milp.columns, dtype=np.int32) if relaxed else milp.integer.astype(np.int32)
    try:
        status = highs.passModel(
            milp.columns, rows.rows, rows.values.size, ROWWISE, MINIMISE, milp.offset,
            milp.cost, milp.lower, milp.upper, rows.lower, rows.upper,
            rows.starts.astype(np.int32), rows.columns.astype(np.int32), rows.values, integer,
        )  # fmt: skip
    except MemoryError as error:
        raise out_of_memory() from error
    require_ok(status, f"refuses the arrays of {milp.name}")
    return highs


def add_rows(highs: highspy.Highs, rows: Block) -> None:
    """Append rows to a HiGHS object."""
    status = highs.addRows(
        rows.rows, rows.lower, rows.upper, rows.values.size,
        rows.starts[:-1].astype(np.int32), rows.columns.astype(np.int32), rows.values,
    )  # fmt: skip
    require_ok(status, f"refuses the rows of {rows.name}")


def set_options(
    highs: highspy.Highs, *, seed: int, threads: int, time_limit_s: float | None, presolve: bool
) -> None:
    """Options of one run; no time limit if ``time_limit_s`` is None."""
    limit = math.inf if time_limit_s is None else max(time_limit_s, 0.0)
    for option, value in (
        ("random_seed", seed),
        ("threads", threads),
        ("time_limit", limit),
        ("presolve", "choose" if presolve else "off"),
    ):
        require_ok(highs.setOptionValue(option, value), f"refuses {option} = {value!r}")


def require_ok(status: highspy.HighsStatus, what: str) -> None:
    """Raise :class:`SolverError` unless HiGHS accepted a call."""
    if status == highspy.HighsStatus.kError:
        raise SolverError(f"{NAME} {what}")
