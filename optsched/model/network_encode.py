"""From a schedule to a point of the network formulation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from optsched.errors import UnsupportedError
from optsched.model.network_arcs import ArcKind
from optsched.model.network_clock_encode import set_clock
from optsched.model.network_paths import outside, path, request_actions
from optsched.model.network_placing import place_batches
from optsched.schedule import Schedule

if TYPE_CHECKING:
    from optsched.model.network import NetworkVariables

FloatArray = NDArray[np.float64]


def encode(variables: NetworkVariables, schedule: Schedule) -> FloatArray:
    """The point of a valid schedule, shape ``(columns,)``.

    The program's value there is the objective's of its simulation; with chunked fills, if
    attention telescopes and no partial fill pauses (a pause is charged as a chunk), and unless
    chunks are free.

    Raises
    ------
    UnsupportedError
        The schedule is outside the class: too short or too long, swaps, evictions or holds that
        a policy forbids, chunks without ``chunking``, an evicted partial fill, or more partial
        fills than the formulation has; or it breaks a rule.
    """
    batches = require_within(schedule, variables.least, variables.most)
    point = np.zeros(variables.columns)
    actions = request_actions(schedule)
    slot = place_batches(variables, actions, batches)
    point[variables.used[slot - 1]] = 1.0
    by_slot = [{int(slot[batch - 1]): action for batch, action in mine.items()} for mine in actions]
    keys = zip(*(column.tolist() for column in _identity(variables)), strict=True)
    number = {key: i for i, key in enumerate(keys)}
    partial = {int(arc): k for k, arc in enumerate(variables.partials.wait)}
    no_hold = bool({"no-hold", "nonpreemptive"} & variables.policies)
    for t, kind in enumerate(variables.types):
        levels = np.searchsorted(variables.slots.arrivals_s, kind.releases_s)
        first_slots = variables.slots.first[levels].tolist()
        for request, before in zip(kind.members, first_slots, strict=True):
            for arc_kind, stage, batch, cached in path(kind, by_slot[request], request, before):
                arc = number.get((arc_kind, t, stage, batch))
                if arc is None:
                    raise outside(request, batch, f"its {ArcKind(arc_kind).label} at stage {stage}")
                if arc_kind == ArcKind.HOLD and no_hold and point[variables.used[batch - 1]]:
                    raise outside(request, batch, "it is held")
                point[arc] += 1
                if arc_kind == ArcKind.WAIT and cached:
                    k = partial.get(arc)
                    if k is None or point[variables.partials.begun[k]]:
                        raise outside(request, batch, "another partial fill of its class")
                    point[variables.partials.begun[k]] = 1.0
                    point[variables.partials.tokens[k]] = cached
    _require_one_first_fill(variables, point)
    _fill_dependent_columns(variables, point)
    set_clock(variables, point)
    return point


def require_within(schedule: Schedule, least: int, most: int) -> int:
    """The schedule's number of batches.

    Raises
    ------
    UnsupportedError
        It has fewer than ``least`` or more than ``most``, or batches that wait deliberately.
    """
    batches = schedule.batch_count
    if not least <= batches <= most:
        raise UnsupportedError(
            f"the schedule has {batches} batches, the program {least} to {most}",
            hint="build the program with a horizon that contains the schedule",
        )
    if schedule.wait_batch.size:
        raise UnsupportedError("the network formulation has no schedules that wait deliberately")
    return batches


def _identity(variables: NetworkVariables) -> tuple[NDArray[np.int64], ...]:
    arcs = variables.arcs
    return arcs.kind, arcs.type, arcs.stage, arcs.batch


def _fill_dependent_columns(variables: NetworkVariables, point: FloatArray) -> None:
    """Set the columns that the flow determines: batch-time excess and indicators."""
    arcs, cost, batches = variables.arcs, variables.instance.cost, variables.slots.count

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
