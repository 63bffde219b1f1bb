"""The program of a stage: its rows, its horizon and its start, whichever formulation it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optsched.constraints import compact, network
from optsched.errors import OptschedError, SolverError, UnsupportedError
from optsched.instance import Instance
from optsched.model.compact import CompactVariables
from optsched.model.horizon import most_batches
from optsched.model.milp import Block, Milp
from optsched.model.network import NetworkVariables, bounding_variables
from optsched.schedule import Kind, Schedule
from optsched.solve.plan import (
    MOST_COMPACT_STEPS,
    MOST_NETWORK_ARCS,
    UNCHUNKED,
    Stage,
    compact_steps,
    network_arcs,
)
from optsched.solve.search import Search
from optsched.solvers.interrupted import unless_interrupted
from optsched.solvers.lp import solve_lp

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Program:
    """A formulation ready to be solved.

    Parameters
    ----------
    priced : Instance
        The instance whose batch-time law the program prices: that of the search, or its
        relaxation.
    milp : Milp
        The rows; ``separate`` gives further ones that a fractional point breaks.
    cutoff_s : float
        Makespan of a known schedule of the stage's class. The horizon holds every schedule that
        is at most as long, so the program's optimum or this, whichever is less, is a bound.
    start : float array or None
        A feasible point to start from.
    decode : callable
        Point to schedule.
    """

    priced: Instance
    milp: Milp
    cutoff_s: float
    start: FloatArray | None
    decode: Callable[[FloatArray], Schedule]
    separate: Callable[[FloatArray], Block | None] | None


def program(search: Search, stage: Stage) -> Program:
    """The program of ``stage``; raises :class:`UnsupportedError` if no schedule is known."""
    known = [(c.value, c.schedule) for c in search.candidates]
    if stage.scope == UNCHUNKED:
        known = [(value, s) for value, s in known if is_unchunked(search.instance, s)]
    if not known:
        raise UnsupportedError("no schedule of this class is known, so there is no horizon")
    build = _compact if stage.formulation == "compact" else _network
    return build(search, stage, known)


def is_unchunked(instance: Instance, schedule: Schedule) -> bool:
    """Whether every fill takes one batch: no process run of more than one token is left partial.

    A request with nothing cached has all its known tokens to process; only the last chunk of a
    fill generates, so in an unchunked schedule every process step generates a token.
    """
    process = schedule.kind == Kind.PROCESS
    return int(schedule.batches[process].sum()) == int(instance.output_tokens.sum())


def _network(search: Search, stage: Stage, known: Sequence[tuple[float, Schedule]]) -> Program:
    instance, policies = search.instance, search.options.policies
    cutoff = known[0][0]
    most = most_batches(instance, cutoff)
    _require_size("network", network_arcs(instance, most), MOST_NETWORK_ARCS, most)
    least = min(search.least_batches, most)
    if stage.relaxed:
        # The number of batches stays limited by the instance's own prices.
        variables = bounding_variables(instance, least=least, most=most, policies=policies)
    else:
        variables = NetworkVariables(
            instance, least=least, most=most, chunking=stage.chunking, policies=policies
        )
    hull = network.Hull(variables.instance, _relaxation_point)
    return Program(
        priced=variables.instance,
        milp=network.build(variables),
        cutoff_s=cutoff,
        start=_start(search, variables.encode, known),
        decode=variables.decode,
        separate=lambda point: hull.separate(variables, point),
    )


def _compact(search: Search, stage: Stage, known: Sequence[tuple[float, Schedule]]) -> Program:
    instance, cutoff = search.instance, known[0][0]
    most = most_batches(instance, cutoff)
    _require_size("compact", compact_steps(instance, most), MOST_COMPACT_STEPS, most)
    variables = CompactVariables(instance, most, search.options.policies)
    return Program(
        priced=instance,
        milp=compact.build(variables),
        cutoff_s=cutoff,
        start=_start(search, variables.encode, known),
        decode=variables.decode,
        separate=None,
    )


def _require_size(formulation: str, size: int, most: int, batches: int) -> None:
    """Refuse a program that would not fit in memory or outlast every time limit."""
    if size > most:
        raise UnsupportedError(
            f"the {formulation} formulation is too large: a schedule as short as the best one "
            f"known may have {batches} batches"
        )


def _start(
    search: Search,
    encode: Callable[[Schedule], FloatArray],
    known: Sequence[tuple[float, Schedule]],
) -> FloatArray | None:
    """The point of the best known schedule that the formulation can hold."""
    if search.options.warm_start == "none":
        return None
    for _, schedule in known:
        try:
            return encode(schedule)
        except OptschedError:
            continue  # outside the class; a worse one may be inside
    return None


def _relaxation_point(milp: Milp) -> FloatArray:
    point = unless_interrupted(solve_lp(milp)).point
    if point is None:
        raise SolverError("the linear program that prices hull rows was not solved")
    return point
