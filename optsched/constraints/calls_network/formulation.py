"""The network program with calls: its families, its cost, and how they are put together."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from optsched.constraints.calls_network.clock import clock, made, spent
from optsched.constraints.calls_network.flow import flow, fresh
from optsched.constraints.calls_network.goodput import goodput
from optsched.constraints.calls_network.handling import fixed_swap, handling
from optsched.constraints.calls_network.limits import (
    batch_requests,
    batch_tokens,
    host_capacity,
    kv_capacity,
    prefill_tokens,
    rounding,
)
from optsched.constraints.calls_network.order import fcfs, symmetry
from optsched.constraints.calls_network.passing import chains, max_latency, passing
from optsched.constraints.calls_network.pause import arrival, pause, tails
from optsched.constraints.calls_network.phases import no_hybrid, phases
from optsched.constraints.calls_network.progress import progress
from optsched.constraints.calls_network.values import at_most, value
from optsched.instance import Instance
from optsched.model.calls_network import CallsNetworkVariables
from optsched.model.calls_network_arcs import Move
from optsched.model.milp import Block, Milp

FloatArray = NDArray[np.float64]
Family = Callable[[Instance, CallsNetworkVariables], Block]

FAMILIES: Mapping[str, Family] = {
    "completion": flow,
    "kv_capacity": kv_capacity,
    "host_capacity": host_capacity,
    "batch_tokens": batch_tokens,
    "prefill_tokens": prefill_tokens,
    "batch_requests": batch_requests,
    "progress": progress,
    "phases": phases,
    "no-hybrid": no_hybrid,
    "handling": handling,
    "swap": fixed_swap,
    "clock": clock,
    "made": made,
    "spent": spent,
    "arrival": arrival,
    "pause": pause,
    "fcfs": fcfs,
    "passing": passing,
    "max_latency": max_latency,
    "goodput": goodput,
    "at_most": at_most,
    "fresh": fresh,
    "symmetry": symmetry,
    "tails": tails,
    "chains": chains,
    "rounding": rounding,
}
"""All families by name; the last five strengthen, the others define the program. A family without
rows in a program leaves no block."""


def build(variables: CallsNetworkVariables, families: Mapping[str, Family] = FAMILIES) -> Milp:
    """The program of ``variables`` with the given families, minimising the value of its objective:
    seconds, or the weight that goodput misses."""
    instance = variables.instance
    blocks = tuple(family(instance, variables) for family in families.values())
    lower, upper = np.zeros(variables.columns), np.ones(variables.columns)
    integer = np.ones(variables.columns, dtype=bool)
    for group in variables.groups:
        lower[group.numbers], upper[group.numbers] = group.lower, group.upper
        integer[group.numbers] = group.integer
    lower[variables.used[: variables.least]] = 1.0
    cost, offset = value(variables, variables.objective)
    return Milp(
        name=f"{instance.name}-calls-network",
        cost=cost, offset=offset, lower=lower, upper=upper, integer=integer,
        column_names=_names(variables), blocks=tuple(b for b in blocks if b.rows),
    )  # fmt: skip


def _names(variables: CallsNetworkVariables) -> tuple[str, ...]:
    arcs = variables.arcs
    columns = (arcs.move, arcs.request, arcs.stage, arcs.batch)
    names = [
        f"{Move(move).label}_i{i}_g{g}_j{j}"
        for move, i, g, j in zip(*(c.tolist() for c in columns), strict=True)
    ]
    for group in variables.groups:
        names += group.names()
    return tuple(names)
