"""What a request does in every batch of a schedule, as arcs of the network."""

from __future__ import annotations

from optsched.errors import UnsupportedError
from optsched.model.network_arcs import ArcKind
from optsched.model.types import RequestType
from optsched.schedule import Kind, Schedule


def request_actions(schedule: Schedule) -> list[dict[int, tuple[int, int]]]:
    """Per request: batch -> (kind, tokens)."""
    actions: list[dict[int, tuple[int, int]]] = []
    columns = (schedule.request, schedule.kind, schedule.first_batch)
    for request, kind, first, batches, tokens in zip(
        *(c.tolist() for c in (*columns, schedule.batches, schedule.tokens)), strict=True
    ):
        while len(actions) <= request:
            actions.append({})
        if kind in (Kind.SWAP_IN, Kind.SWAP_OUT):
            raise outside(request, first, "a swap")
        for batch in range(first, first + batches):
            actions[request][batch] = (kind, tokens)
    return actions


def path(
    kind: RequestType, actions: dict[int, tuple[int, int]], request: int, before: int = 0
) -> list[tuple[int, int, int, int]]:
    """Arcs (kind, stage, slot, tokens cached after it) of one request from slot ``before`` + 1
    until it finishes."""
    steps = []
    stage = cached = 0
    batch = before
    last = max(actions)
    while stage < kind.output_tokens:
        batch += 1
        if batch > last:
            raise outside(request, batch, "the end of the schedule before it has finished")
        size = kind.prompt_tokens + stage
        resident = stage >= 1 and cached == size - 1
        action, tokens = actions.get(batch, (None, 0))
        arc = ArcKind.HOLD if resident else ArcKind.WAIT
        at = stage
        if action == Kind.EVICT:
            if not resident:
                raise outside(request, batch, "an eviction of a partial or empty cache")
            arc, cached = ArcKind.EVICT, 0
        elif action == Kind.PROCESS:
            cached += tokens
            if cached > size:
                raise outside(request, batch, f"{cached} of {size} tokens")
            if cached == size:
                arc = ArcKind.DECODE if resident else ArcKind.FILL
                stage += 1
            elif stage >= 1 and cached == size - 1:
                arc = ArcKind.RESTORE
        steps.append((int(arc), at, batch, cached))
    return steps


def outside(request: int, batch: int, what: str) -> UnsupportedError:
    """The error that says where a schedule leaves the formulation's class."""
    return UnsupportedError(
        f"the network formulation does not contain the schedule: request {request}, "
        f"batch {batch}: {what}"
    )
