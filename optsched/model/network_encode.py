"""From a schedule to a point of the network formulation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from optsched.errors import UnsupportedError
from optsched.model.network_arcs import ArcKind
from optsched.schedule import Kind, Schedule

if TYPE_CHECKING:
    from optsched.model.network import NetworkVariables

FloatArray = NDArray[np.float64]


def encode(variables: NetworkVariables, schedule: Schedule) -> FloatArray:
    """The point of a valid schedule, shape ``(columns,)``.

    The program's value there is the simulated makespan; with chunked fills, if attention
    telescopes and no partial fill pauses (a pause is charged as a chunk), and unless chunks are
    free.

    Raises
    ------
    UnsupportedError
        The schedule is outside the class: too short or too long, swaps, evictions or holds that
        a policy forbids, chunks without ``chunking``, an evicted partial fill, or more partial
        fills than the formulation has; or it breaks a rule.
    """
    batches = schedule.batch_count
    if not variables.least <= batches <= variables.most:
        raise UnsupportedError(
            f"the schedule has {batches} batches, "
            f"the program {variables.least} to {variables.most}",
            hint="build the program with a horizon that contains the schedule",
        )
    point = np.zeros(variables.columns)
    point[variables.used[:batches]] = 1.0
    actions = _actions(schedule)
    arcs = variables.arcs
    keys = zip(*(column.tolist() for column in _identity(variables)), strict=True)
    number = {key: i for i, key in enumerate(keys)}
    partial = {int(arc): k for k, arc in enumerate(variables.partials.wait)}
    for t, kind in enumerate(variables.types):
        for request in kind.members:
            path = _path(kind.prompt_tokens, kind.output_tokens, actions[request], request)
            for arc_kind, stage, batch, cached in path:
                arc = number.get((arc_kind, t, stage, batch))
                if arc is None:
                    raise _outside(
                        request, batch, f"its {ArcKind(arc_kind).label} at stage {stage}"
                    )
                point[arc] += 1
                if arc_kind == ArcKind.WAIT and cached:
                    k = partial.get(arc)
                    if k is None or point[variables.partials.begun[k]]:
                        raise _outside(request, batch, "another partial fill of its class")
                    point[variables.partials.begun[k]] = 1.0
                    point[variables.partials.tokens[k]] = cached
    _require_one_first_fill(variables, point)
    _fill_dependent_columns(variables, point, arcs.generates)
    return point


def _identity(variables: NetworkVariables) -> tuple[NDArray[np.int64], ...]:
    arcs = variables.arcs
    return arcs.kind, arcs.type, arcs.stage, arcs.batch


def _actions(schedule: Schedule) -> list[dict[int, tuple[int, int]]]:
    """Per request: batch -> (kind, tokens)."""
    actions: list[dict[int, tuple[int, int]]] = []
    columns = (schedule.request, schedule.kind, schedule.first_batch)
    for request, kind, first, batches, tokens in zip(
        *(c.tolist() for c in (*columns, schedule.batches, schedule.tokens)), strict=True
    ):
        while len(actions) <= request:
            actions.append({})
        if kind in (Kind.SWAP_IN, Kind.SWAP_OUT):
            raise _outside(request, first, "a swap")
        for batch in range(first, first + batches):
            actions[request][batch] = (kind, tokens)
    return actions


def _path(
    prompt: int, output: int, actions: dict[int, tuple[int, int]], request: int
) -> list[tuple[int, int, int, int]]:
    """Arcs (kind, stage, batch, tokens cached after it) of one request until it finishes."""
    path = []
    stage = cached = batch = 0
    last = max(actions)
    while stage < output:
        batch += 1
        if batch > last:
            raise _outside(request, batch, "the end of the schedule before it has finished")
        size = prompt + stage
        resident = stage >= 1 and cached == size - 1
        kind, tokens = actions.get(batch, (None, 0))
        arc = ArcKind.HOLD if resident else ArcKind.WAIT
        at = stage
        if kind == Kind.EVICT:
            if not resident:
                raise _outside(request, batch, "an eviction of a partial or empty cache")
            arc, cached = ArcKind.EVICT, 0
        elif kind == Kind.PROCESS:
            cached += tokens
            if cached > size:
                raise _outside(request, batch, f"{cached} of {size} tokens")
            if cached == size:
                arc = ArcKind.DECODE if resident else ArcKind.FILL
                stage += 1
            elif stage >= 1 and cached == size - 1:
                arc = ArcKind.RESTORE
        path.append((int(arc), at, batch, cached))
    return path


def _fill_dependent_columns(
    variables: NetworkVariables, point: FloatArray, generates: NDArray[np.bool_]
) -> None:
    """Set the columns that the flow determines: batch-time excess and indicators."""
    arcs, cost, batches = variables.arcs, variables.instance.cost, variables.most

    def per_batch(entries: tuple[NDArray[np.int64], NDArray[np.int64], FloatArray]) -> FloatArray:
        rows, columns, values = entries
        sums = np.zeros(batches)
        np.add.at(sums, rows, values * point[columns])
        return sums

    if variables.excess.size:
        tokens = per_batch(variables.batch_sum(arcs.tokens, of_partials=True))
        alpha, beta = min(cost.pieces, key=lambda piece: piece[1])
        above = cost.token_time(tokens) - (alpha + beta * tokens)
        point[variables.excess] = 1e6 * above * (point[variables.used] > 0)
    if variables.any_decode.size:
        decodes = per_batch(variables.batch_sum(arcs.of(ArcKind.DECODE).astype(np.int64)))
        point[variables.any_decode] = decodes > 0
    if variables.any_prefill.size:
        prefills = per_batch(variables.batch_sum(arcs.tokens * arcs.prefills, of_partials=True))
        point[variables.any_prefill] = prefills > 0


def _require_one_first_fill(variables: NetworkVariables, point: FloatArray) -> None:
    partials = variables.partials
    first = partials.stage == 0
    partial = np.bincount(partials.batch[first], weights=point[partials.begun[first]], minlength=1)
    if partial.max() > 1:
        batch = int(np.argmax(partial > 1))
        raise UnsupportedError(
            f"{int(partial[batch])} first fills are partial after batch {batch}, "
            "the network formulation has one",
            hint="the compact formulation has any number",
        )


def _outside(request: int, batch: int, what: str) -> UnsupportedError:
    return UnsupportedError(
        f"the network formulation does not contain the schedule: request {request}, "
        f"batch {batch}: {what}"
    )
