"""From a schedule to a point of the network with calls.

KV that is dropped in the end is dropped in the first batch after its last token, whenever the
schedule does so (:mod:`optsched.model.calls_network_arcs`), and identical requests change their
names so that their first tokens come in order. The point is then as good as the schedule, or
better.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from optsched.errors import UnsupportedError
from optsched.model.calls_network_arcs import Move
from optsched.model.calls_network_encode_clock import set_clock
from optsched.model.network_encode import require_within
from optsched.schedule import Kind, Schedule

if TYPE_CHECKING:
    from optsched.model.calls_network import CallsNetworkVariables
    from optsched.model.calls_network_stages import Stages

FloatArray = NDArray[np.float64]
Actions = dict[int, dict[int, int]]
"""Of one request: batch -> kind -> tokens."""
Path = list[tuple[Move, int, int]]
"""Move, stage and batch of every arc of a request."""


def encode(variables: CallsNetworkVariables, schedule: Schedule) -> FloatArray:
    """The point of a valid schedule, shape ``(columns,)``.

    Raises
    ------
    UnsupportedError
        The schedule is outside the class: too short or too long, chunks, deliberate waiting, what
        a policy forbids; or it breaks a rule.
    """
    batches = require_within(schedule, variables.least, variables.most)
    actions = _actions(schedule, len(variables.stages))
    paths = [
        _path(stages, mine, request)
        for request, (stages, mine) in enumerate(zip(variables.stages, actions, strict=True))
    ]
    _order_twins(variables, paths)
    arcs = variables.arcs
    keys = zip(
        arcs.move.tolist(), arcs.request.tolist(), arcs.stage.tolist(), arcs.batch.tolist(),
        strict=True,
    )  # fmt: skip
    number = {key: a for a, key in enumerate(keys)}
    point = np.zeros(variables.columns)
    for request, path in enumerate(paths):
        for move, stage, batch in path:
            arc = number.get((int(move), request, stage, batch))
            if arc is None:
                raise _outside(request, batch, f"its {move.label} at stage {stage}")
            point[arc] = 1.0
    point[variables.used[:batches]] = 1.0
    _set_handlings(variables, point)
    set_clock(variables, point)
    return point


def _actions(schedule: Schedule, requests: int) -> list[Actions]:
    found: list[Actions] = [{} for _ in range(requests)]
    columns = schedule.request, schedule.kind, schedule.first_batch, schedule.batches
    for request, kind, first, batches, tokens in zip(
        *(column.tolist() for column in (*columns, schedule.tokens)), strict=True
    ):
        for batch in range(first, first + batches):
            found[request].setdefault(batch, {})[kind] = tokens
    return found


def _path(stages: Stages, actions: Actions, request: int) -> Path:
    """The arcs of one request until it finishes."""
    processed = sorted(batch for batch, kinds in actions.items() if Kind.PROCESS in kinds)
    if len(processed) != len(stages):
        raise _outside(request, processed[0] if processed else 1, "a fill of several batches")
    path: Path = [(Move.WAIT, 0, batch) for batch in range(1, processed[0])]
    before = 0
    for stage, batch in enumerate(processed):
        tokens = actions[batch][Kind.PROCESS]
        between = range(before + 1, batch)
        dropped = any(Kind.EVICT in actions.get(each, {}) for each in between)
        if stage and dropped:
            path.append((Move.EVICT, stage, before + 1))
            path += [(Move.WAIT, stage, each) for each in between[1:]]
        elif stage:
            path += _kept(stage, between, actions)
        fills = stage == 0 or dropped
        if tokens != (stages.known if fills else stages.appended)[stage]:
            raise _outside(request, batch, f"{tokens} tokens at stage {stage}")
        back = Kind.SWAP_IN in actions[batch]
        path.append((Move.FILL if fills else Move.BACK if back else Move.STEP, stage, batch))
        before = batch
    return path


def _kept(stage: int, between: range, actions: Actions) -> Path:
    """Arcs of the batches between two tokens of a request whose KV is kept, here or there."""
    path: Path = []
    rest = Move.HOLD
    for batch in between:
        kinds = actions.get(batch, {})
        move = rest
        if Kind.SWAP_OUT in kinds:
            move, rest = Move.OUT, Move.STAY
        elif Kind.SWAP_IN in kinds:
            move, rest = Move.IN, Move.HOLD
        path.append((move, stage, batch))
    return path


def _order_twins(variables: CallsNetworkVariables, paths: list[Path]) -> None:
    """Give the paths of identical requests to them in order of first tokens."""
    groups: list[list[int]] = []
    for one, other in variables.twins:
        for group in groups:
            if group[-1] == one:
                group.append(other)
                break
        else:
            groups.append([one, other])
    for group in groups:
        mine = sorted((paths[i] for i in group), key=_first_token)
        for i, path in zip(group, mine, strict=True):
            paths[i] = path


def _first_token(path: Path) -> int:
    return next(batch for move, _, batch in path if move is Move.FILL)


def _set_handlings(variables: CallsNetworkVariables, point: FloatArray) -> None:
    """The binaries of every call, from the arcs of its stage."""
    arcs = variables.arcs
    taken = point[: len(arcs)] > 0
    for row, (request, stage) in zip(variables.handling, variables.calls, strict=True):
        mine = taken & (arcs.request == request) & (arcs.stage == stage)
        swapped, dropped = (bool((mine & arcs.of(m)).any()) for m in (Move.OUT, Move.EVICT))
        point[row] = (not swapped and not dropped, dropped, swapped)


def _outside(request: int, batch: int, what: str) -> UnsupportedError:
    """The error that says where a schedule leaves the formulation's class."""
    return UnsupportedError(
        f"the network formulation does not contain the schedule: request {request}, "
        f"batch {batch}: {what}"
    )
