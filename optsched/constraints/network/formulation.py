"""The network program: its families, its cost, and how they are put together."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from optsched.constraints.network.arrival import arrival, intervals
from optsched.constraints.network.at_most import at_most
from optsched.constraints.network.batch_time import batch_time
from optsched.constraints.network.chunking import chunking
from optsched.constraints.network.clock import clock
from optsched.constraints.network.completion import completion
from optsched.constraints.network.counts import counts, earliest_ends, shares
from optsched.constraints.network.exact_time import exact_time
from optsched.constraints.network.fcfs import fcfs
from optsched.constraints.network.goodput import deadlines, goodput, pace
from optsched.constraints.network.kv_capacity import kv_capacity
from optsched.constraints.network.left import left
from optsched.constraints.network.limits import batch_requests, batch_tokens, prefill_tokens
from optsched.constraints.network.max_latency import max_latency
from optsched.constraints.network.no_hold import no_hold
from optsched.constraints.network.no_hybrid import no_hybrid
from optsched.constraints.network.phases import phases
from optsched.constraints.network.progress import progress
from optsched.constraints.network.residency import residency
from optsched.constraints.network.rounding import rounding
from optsched.constraints.network.values import value
from optsched.instance import Instance
from optsched.model.milp import Block, Milp
from optsched.model.network import NetworkVariables
from optsched.model.network_arcs import ArcKind

FloatArray = NDArray[np.float64]
Family = Callable[[Instance, NetworkVariables], Block]

FAMILIES: Mapping[str, Family] = {
    "completion": completion,
    "residency": residency,
    "kv_capacity": kv_capacity,
    "batch_tokens": batch_tokens,
    "prefill_tokens": prefill_tokens,
    "batch_requests": batch_requests,
    "progress": progress,
    "batch_time": batch_time,
    "phases": phases,
    "no-hybrid": no_hybrid,
    "no-hold": no_hold,
    "chunking": chunking,
    "clock": clock,
    "arrival": arrival,
    "fcfs": fcfs,
    "left": left,
    "counts": counts,
    "shares": shares,
    "max_latency": max_latency,
    "deadlines": deadlines,
    "goodput": goodput,
    "pace": pace,
    "exact_time": exact_time,
    "at_most": at_most,
    "rounding": rounding,
    "earliest_ends": earliest_ends,
    "intervals": intervals,
}
"""All families by name; the last three strengthen, the others define the program. A family without
rows in a program (arrivals offline, for instance) leaves no block."""


def build(variables: NetworkVariables, families: Mapping[str, Family] = FAMILIES) -> Milp:
    """The program of ``variables`` with the given families, minimising the value of its objective:
    seconds, or the weight that goodput misses (:mod:`optsched.constraints.network.values`)."""
    instance = variables.instance
    blocks = tuple(family(instance, variables) for family in families.values())
    lower, upper, integer = _bounds(variables)
    cost, offset = value(variables, variables.objective)
    return Milp(
        name=f"{instance.name}-network",
        cost=cost, offset=offset, lower=lower, upper=upper, integer=integer,
        column_names=_names(variables), blocks=tuple(b for b in blocks if b.rows),
    )  # fmt: skip


def _bounds(variables: NetworkVariables) -> tuple[FloatArray, FloatArray, NDArray[np.bool_]]:
    lower, upper = np.zeros(variables.columns), np.zeros(variables.columns)
    integer = np.ones(variables.columns, dtype=bool)
    upper[: len(variables.arcs)] = variables.arcs.most
    for group in variables.groups:
        lower[group.numbers], upper[group.numbers] = group.lower, group.upper
        integer[group.numbers] = group.integer
    if variables.slots.levels == 1:
        lower[variables.used[: variables.least]] = 1.0
    return lower, upper, integer


def _names(variables: NetworkVariables) -> tuple[str, ...]:
    arcs = variables.arcs
    columns = (arcs.kind, arcs.type, arcs.stage, arcs.batch)
    names = [
        f"{ArcKind(kind).label}_t{t}_g{g}_j{j}"
        for kind, t, g, j in zip(*(c.tolist() for c in columns), strict=True)
    ]
    for group in variables.groups:
        names += group.names()
    return tuple(names)
