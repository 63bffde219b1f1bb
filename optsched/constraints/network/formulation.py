"""The network program: its families, its cost, and how they are put together."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from optsched.constraints.network.batch_time import batch_time
from optsched.constraints.network.chunking import chunking
from optsched.constraints.network.completion import completion
from optsched.constraints.network.kv_capacity import kv_capacity
from optsched.constraints.network.limits import batch_requests, batch_tokens, prefill_tokens
from optsched.constraints.network.no_hybrid import no_hybrid
from optsched.constraints.network.phases import phases
from optsched.constraints.network.progress import progress
from optsched.constraints.network.residency import residency
from optsched.constraints.network.rounding import rounding
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
    "chunking": chunking,
    "rounding": rounding,
}
"""All families by name; ``rounding`` strengthens, the others define the program."""


def build(variables: NetworkVariables, families: Mapping[str, Family] = FAMILIES) -> Milp:
    """The program of ``variables`` with the given families; cost in seconds.

    cost = sum over arcs of (beta tokens + attention) + sum_j (alpha y_j + x_j + d0 D_j + p0 P_j)
    with (alpha, beta) the flattest piece. A fill of S tokens costs p_sq S^2 + p_req however it
    is chunked, a restore p_sq (S-1)^2 + p_req. A fill that is partial after a batch, with f
    tokens cached, has one more chunk, which costs p_kv f + p_req, unless chunks are free.
    """
    instance = variables.instance
    blocks = tuple(family(instance, variables) for family in families.values())
    lower, upper, integer = _bounds(variables)
    return Milp(
        name=f"{instance.name}-network",
        cost=_cost(variables), offset=0.0, lower=lower, upper=upper, integer=integer,
        column_names=_names(variables), blocks=tuple(b for b in blocks if b.rows),
    )  # fmt: skip


def _cost(variables: NetworkVariables) -> FloatArray:
    arcs, law = variables.arcs, variables.instance.cost
    alpha, beta = min(law.pieces, key=lambda piece: piece[1])
    cost = np.zeros(variables.columns)
    decode, prefill = arcs.of(ArcKind.DECODE), arcs.prefills
    cost[: len(arcs)] = (
        beta * arcs.tokens
        + decode * law.decode_time(arcs.cached - 1)
        + prefill * law.prefill_time(arcs.tokens, 0)
    )
    cost[variables.used] = alpha
    cost[variables.excess] = 1e-6
    cost[variables.any_decode] = law.d0
    cost[variables.any_prefill] = law.p0
    if not variables.free_chunks:
        cost[variables.partials.begun] = law.p_req
        cost[variables.partials.tokens] = law.p_kv
    return cost


def _bounds(variables: NetworkVariables) -> tuple[FloatArray, FloatArray, NDArray[np.bool_]]:
    arcs, partials = variables.arcs, variables.partials
    lower, upper = np.zeros(variables.columns), np.ones(variables.columns)
    integer = np.ones(variables.columns, dtype=bool)
    upper[: len(arcs)] = arcs.most
    lower[variables.used[: variables.least]] = 1.0
    upper[variables.excess] = np.inf
    integer[variables.excess] = False
    upper[partials.tokens] = partials.most
    return lower, upper, integer


def _names(variables: NetworkVariables) -> tuple[str, ...]:
    arcs, partials = variables.arcs, variables.partials
    columns = (arcs.kind, arcs.type, arcs.stage, arcs.batch)
    names = [
        f"{ArcKind(kind).label}_t{t}_g{g}_j{j}"
        for kind, t, g, j in zip(*(c.tolist() for c in columns), strict=True)
    ]
    for label, column in (
        ("used", variables.used), ("excess_us", variables.excess),
        ("any_decode", variables.any_decode), ("any_prefill", variables.any_prefill),
    ):  # fmt: skip
        names += [f"{label}_j{j}" for j in range(1, column.size + 1)]
    classes = (partials.type, partials.stage, partials.batch)
    for label in ("begun", "partial_tokens"):
        names += [
            f"{label}_t{t}_g{g}_j{j}"
            for t, g, j in zip(*(c.tolist() for c in classes), strict=True)
        ]
    return tuple(names)
