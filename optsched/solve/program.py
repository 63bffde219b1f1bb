"""The program of a stage: its rows, its horizon and its start, whichever formulation it is."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optsched.constraints import calls_network, compact, network
from optsched.errors import (
    InfeasibleError,
    InvalidInputError,
    OptschedError,
    SolverError,
    UnsupportedError,
)
from optsched.instance import Instance
from optsched.model.calls_network import CallsNetworkVariables
from optsched.model.calls_network import estimated_columns as columns_of_paths
from optsched.model.compact import CompactVariables
from optsched.model.hindsight import rounds_of
from optsched.model.hindsight_program import HindsightVariables
from optsched.model.hindsight_program import build as time_indexed
from optsched.model.horizon import batch_horizon
from optsched.model.milp import Block, Milp
from optsched.model.network import NetworkVariables, bounding_variables, estimated_columns
from optsched.objective import Objective
from optsched.result import OPTIMAL_GAP, UNCHUNKED
from optsched.schedule import Kind, Schedule
from optsched.solve.plan import (
    MOST_COMPACT_STEPS,
    MOST_NETWORK_COLUMNS,
    Stage,
    compact_steps,
    moves_kv,
)
from optsched.solve.search import Search
from optsched.solvers.interrupted import unless_interrupted
from optsched.solvers.lp import solve_lp

FloatArray = NDArray[np.float64]
# No better schedule has more batches than these objectives' values allow; after a first token or
# an SLO that is met a schedule may go on for long.
_SETTLED_BY_THE_END = (Objective.MAKESPAN, Objective.MEAN_LATENCY, Objective.MAX_LATENCY)


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
    cutoff : float
        Cost of a known schedule of the stage's class, or of the target if that is less; infinite
        without either. The horizon holds an optimal one of those that cost at most this, so the
        program's optimum or this, whichever is less, is a bound.
    start : float array or None
        A feasible point to start from.
    decode, encode : callable
        Point to schedule, and back; ``encode`` raises for one outside the program's class.
    """

    priced: Instance
    milp: Milp
    cutoff: float
    start: FloatArray | None
    decode: Callable[[FloatArray], Schedule]
    encode: Callable[[Schedule], FloatArray]
    separate: Callable[[FloatArray], Block | None] | None


class NoScheduleError(OptschedError):
    """No schedule costs at most ``cutoff`` and keeps every limit: there is nothing to build."""

    def __init__(self, message: str, cutoff: float) -> None:
        super().__init__(message)
        self.cutoff = cutoff


def program(search: Search, stage: Stage) -> Program:
    """The program of ``stage``.

    Raises
    ------
    NoScheduleError
        No schedule is within the cutoff and the limits.
    UnsupportedError
        It would be too large, or no schedule is known that limits the number of batches.
    """
    known = known_to(search, stage)
    build = {"compact": _compact, "rounds": _rounds, "network": _network}[stage.formulation]
    if stage.formulation == "network" and moves_kv(search.instance, search.policies):
        build = _network_of_paths
    return build(search, stage, known)


def known_to(search: Search, stage: Stage) -> list[tuple[float, Schedule]]:
    """Values and schedules known of the class that the stage is about, the best first."""
    known = [(c.values[search.objective], c.schedule) for c in search.candidates]
    if stage.scope == UNCHUNKED:
        known = [(value, s) for value, s in known if is_unchunked(search.instance, s)]
    return known


def _cutoff(search: Search, known: Sequence[tuple[float, Schedule]]) -> float:
    """Cost above which schedules do not matter."""
    cutoff = search.cost(known[0][0]) if known else math.inf
    target = search.options.target
    if target is None:
        return cutoff
    # Beyond what counts as a proof that the target cannot be reached.
    margin = 2 * OPTIMAL_GAP * abs(target)
    if search.objective.maximised:
        weights = [request.weight for request in search.instance.requests if request.weight]
        margin = max(margin, min(weights, default=0.0) / 2)
    return min(cutoff, search.cost(target) + margin)


def _most_batches(search: Search, stage: Stage, cutoff: float) -> int:
    """Batches that hold an optimal schedule of those that cost at most ``cutoff``.

    Raises
    ------
    NoScheduleError
        No schedule is within the cutoff and the limits.
    UnsupportedError
        There is no such number.
    """
    worst = 0.0 if search.objective.maximised else math.inf
    try:
        horizon = batch_horizon(
            search.instance, search.objective, search.cost(cutoff) if cutoff < math.inf else worst,
            unchunked=stage.formulation == "network" and not stage.chunking,
            policies=search.policies, at_most=search.options.subject_to,
        )  # fmt: skip
    except InvalidInputError as error:
        raise NoScheduleError(error.message, cutoff) from error
    if horizon.batches < search.least_batches:
        raise NoScheduleError(
            f"{horizon.reason}: at most {horizon.batches} batches, but every schedule has "
            f"{search.least_batches}", cutoff,
        )  # fmt: skip
    if not horizon.rigorous:
        raise UnsupportedError(f"no horizon holds every schedule: {horizon.reason}")
    return horizon.batches


def is_unchunked(instance: Instance, schedule: Schedule) -> bool:
    """Whether every fill takes one batch: no process run of more than one token is left partial.

    A request with nothing cached has all its known tokens to process; only the last chunk of a
    fill generates, so in an unchunked schedule every process step generates a token.
    """
    process = schedule.kind == Kind.PROCESS
    return int(schedule.batches[process].sum()) == int(instance.output_tokens.sum())


def _network(search: Search, stage: Stage, known: Sequence[tuple[float, Schedule]]) -> Program:
    instance, policies, objective = search.instance, search.policies, search.objective
    longest, room = int(instance.prompt_tokens.max()), instance.limits.fill_tokens
    if not stage.chunking and longest > room:
        raise NoScheduleError(
            f"a prompt of {longest} tokens takes several batches of {room}", math.inf
        )
    cutoff = _cutoff(search, known)
    most = late = _most_batches(search, stage, cutoff)
    size = estimated_columns(
        instance, most, policies=policies, objective=objective, at_most=search.options.subject_to
    )
    _require_size("network", size, MOST_NETWORK_COLUMNS, most)
    least = min(search.least_batches, most)
    if stage.relaxed:
        # The number of batches stays limited by the instance's own prices.
        variables = bounding_variables(instance, least=least, most=most, policies=policies)
    else:
        if objective in _SETTLED_BY_THE_END and cutoff < math.inf and _has_clock(search):
            limits = {**search.options.subject_to, objective: cutoff}
            wide = NetworkVariables(
                instance, least=least, most=most, chunking=stage.chunking, policies=policies,
                objective=objective, at_most=limits,
            )  # fmt: skip
            most, late = network.most_used(wide, _relaxation_bound)
        variables = NetworkVariables(
            instance, least=min(least, most), most=most, most_late=late, chunking=stage.chunking,
            policies=policies, objective=objective, at_most=search.options.subject_to,
        )  # fmt: skip
    hull = network.Hull(variables.instance, _relaxation_point)
    return Program(
        priced=variables.instance,
        milp=network.build(variables),
        cutoff=cutoff,
        start=_start(search, variables.encode, known),
        decode=variables.decode,
        encode=variables.encode,
        separate=lambda point: hull.separate(variables, point),
    )


def _network_of_paths(
    search: Search, stage: Stage, known: Sequence[tuple[float, Schedule]]
) -> Program:
    """The network that follows each request by itself, through calls and host memory."""
    instance, cutoff = search.instance, _cutoff(search, known)
    most = _most_batches(search, stage, cutoff)
    _require_size("network", columns_of_paths(instance, most), MOST_NETWORK_COLUMNS, most)
    try:
        variables = CallsNetworkVariables(
            instance, least=min(search.least_batches, most), most=most, policies=search.policies,
            objective=search.objective, at_most=search.options.subject_to,
            cutoff=search.cost(cutoff) if cutoff < math.inf else None,
        )  # fmt: skip
    except (InfeasibleError, InvalidInputError) as error:
        raise NoScheduleError(error.message, cutoff) from error
    return _ready(search, variables, calls_network.build(variables), known, cutoff)


def _has_clock(search: Search) -> bool:
    """Whether batches have times in the program: then a shorter horizon is worth its price."""
    makespan = search.objective is Objective.MAKESPAN and not search.options.subject_to
    return not (search.instance.offline and makespan)


def _rounds(search: Search, stage: Stage, known: Sequence[tuple[float, Schedule]]) -> Program:
    """When requests start, which is all that non-preemptive schedules of equal batches differ in;
    the default horizon is rigorous."""
    instance = search.instance
    cutoff = _cutoff(search, known)
    rounds = rounds_of(instance)
    horizon = rounds.horizon
    if search.objective is Objective.MEAN_LATENCY and cutoff < math.inf:
        horizon = min(horizon, rounds.horizon_within(cutoff * len(instance) / rounds.round_s))
    _require_size("time-indexed", horizon * len(rounds.types), MOST_NETWORK_COLUMNS, horizon)
    variables = HindsightVariables(
        instance, horizon=horizon, policies=sorted(search.policies), objective=search.objective,
        at_most=search.options.subject_to,
    )  # fmt: skip
    return _ready(search, variables, time_indexed(variables), known, cutoff)


def _compact(search: Search, stage: Stage, known: Sequence[tuple[float, Schedule]]) -> Program:
    instance, cutoff = search.instance, _cutoff(search, known)
    most = _most_batches(search, stage, cutoff)
    _require_size("compact", compact_steps(instance, most), MOST_COMPACT_STEPS, most)
    variables = CompactVariables(
        instance, most, sorted(search.policies), objective=search.objective,
        at_most=search.options.subject_to,
        cutoff=search.cost(cutoff) if cutoff < math.inf else None,
    )  # fmt: skip
    return _ready(search, variables, compact.build(variables), known, cutoff)


def _ready(
    search: Search, variables: CallsNetworkVariables | HindsightVariables | CompactVariables,
    milp: Milp, known: Sequence[tuple[float, Schedule]], cutoff: float,
) -> Program:  # fmt: skip
    """A program that prices the instance itself and has no further rows."""
    return Program(
        priced=search.instance, milp=milp, cutoff=cutoff,
        start=_start(search, variables.encode, known), decode=variables.decode,
        encode=variables.encode, separate=None,
    )  # fmt: skip


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


def _relaxation_bound(milp: Milp) -> float | None:
    return unless_interrupted(solve_lp(milp)).bound


def _relaxation_point(milp: Milp) -> FloatArray:
    point = unless_interrupted(solve_lp(milp)).point
    if point is None:
        raise SolverError("the linear program that prices hull rows was not solved")
    return point
