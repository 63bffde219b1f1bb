"""Best-first search over labels, for the exhaustive search of ``oracle.py``."""

from __future__ import annotations

import heapq
import itertools
import math
from dataclasses import dataclass

import numpy as np

from optsched.errors import InfeasibleError, UnsupportedError
from optsched.schedule import Schedule, from_steps
from tests.oracle_accounts import Account, Goodput, Label
from tests.oracle_moves import FloatArray, IntArray
from tests.oracle_space import Space

DIVE_WEIGHTS = (0.0, 0.5, 2.0)


@dataclass(frozen=True, eq=False)
class Reached:
    """A state with a label, and how it was reached: the positions of the requests after the batch
    as they stood in the state before, and which of them stands at each place now."""

    key: int
    columns: IntArray
    label: Label
    parent: Reached | None
    moved: IntArray
    order: IntArray


class Family:
    """What one batch leads to from a reached state, most promising first."""

    def __init__(
        self, space: Space, account: Account | Goodput, parent: Reached, below: float
    ) -> None:
        batches = space.batches(parent.columns)
        possible, start = account.begin(parent.label, batches)
        end = start + batches.length_s
        labels = account.after(parent.label, parent.columns, batches.columns, end)
        floors = account.floors(batches.columns, labels)
        place = np.arange(len(batches.columns))[:, None]
        alone: FloatArray = account.alone[place, batches.columns].sum(axis=0)
        # A request whose call can no longer be handled as it must never finishes.
        keep = np.flatnonzero(possible & (floors < below) & np.isfinite(alone))
        labels, floors = account.settled(labels, floors)[:, keep], floors[keep]
        moved, alone = batches.columns[:, keep], alone[keep]
        self.parent = parent
        # Of equally promising ones, first the one that is closest to its end.
        best = np.lexsort((alone, floors))
        self.floors, self.alone, labels = floors[best], alone[best], labels[:, best]
        self.moved = moved[:, best]
        times = np.split(labels[2:], range(len(moved), len(labels) - 2, len(moved)))
        self.order = space.order(self.moved, times)
        self.columns = np.take_along_axis(self.moved, self.order, axis=0)
        labels[2:] = np.vstack([np.take_along_axis(each, self.order, axis=0) for each in times])
        self.labels = labels
        self.keys: list[int] = space.keys(self.columns).tolist()

    def child(self, k: int) -> Reached:
        """The k-th one."""
        label = tuple(self.labels[:, k].tolist())
        return Reached(
            self.keys[k], self.columns[:, k], label, self.parent, self.moved[:, k],
            self.order[:, k],
        )  # fmt: skip


def search(space: Space, account: Account | Goodput, most_states: int) -> tuple[Label, Schedule]:
    """The best label at the goal, and a schedule that leads to it."""
    nobody = np.arange(len(space.members))
    start = Reached(
        space.key(space.start.tolist()), space.start, tuple(account.start().tolist()), None,
        space.start, nobody,
    )  # fmt: skip
    best, below = _dive(space, account, start) if space.prune else (None, math.inf)
    labels: dict[int, list[Label]] = {start.key: [start.label]}
    heap: list[tuple[float, float, int, int]] = []  # floor, time alone, family, child
    families: dict[int, Family] = {}
    numbers = itertools.count()
    settled = 0

    def known(reached: Reached) -> bool:
        """Whether a settled label at its state is as good."""
        others = labels.get(reached.key, ())
        return any(account.dominates(other, reached.label, reached.columns) for other in others)

    def push(number: int, child: int) -> None:
        """Queue the next child of a family that is not known to be reached as well."""
        family = families[number]
        while child < len(family.keys) and known(family.child(child)):
            child += 1
        if child < len(family.keys):
            entry = (float(family.floors[child]), float(family.alone[child]), number, child)
            heapq.heappush(heap, entry)
        else:
            del families[number]

    def expand(reached: Reached) -> None:
        nonlocal below
        family = Family(space, account, reached, below)
        ends = [k for k, key in enumerate(family.keys) if key == space.goal]
        if ends:
            below = min(below, float(family.floors[ends[0]]))
        number = next(numbers)
        families[number] = family
        push(number, 0)

    expand(start)
    while heap:
        _, _, number, child = heapq.heappop(heap)
        reached = families[number].child(child)
        push(number, child + 1)
        if known(reached):
            continue
        if reached.key == space.goal:
            return reached.label, _schedule(space, reached)
        kept = [
            other
            for other in labels.get(reached.key, ())
            if not account.dominates(reached.label, other, reached.columns)
        ]
        labels[reached.key] = [*kept, reached.label]
        settled += 1
        if settled >= most_states:
            raise UnsupportedError(
                f"{space.name!r}: no optimum after {most_states} states",
                hint="the oracle is for about 4 short requests",
            )
        expand(reached)
    if best is None:
        raise InfeasibleError(f"{space.name!r} has no schedule under these policies")
    return best.label, _schedule(space, best)  # nothing is better than what diving found


def _dive(space: Space, account: Account | Goodput, start: Reached) -> tuple[Reached | None, float]:
    """A schedule by always taking the batch that looks best; (None, inf) if every try gets stuck.

    It only bounds the search: a label whose floor is no less than the cost of a known schedule
    cannot lead to a better one.
    """
    best, below = None, math.inf
    for weight in DIVE_WEIGHTS:
        at, seen = start, {start.key}
        while at.key != space.goal:
            family = Family(space, account, at, below)
            looks = np.argsort(family.floors + weight * family.alone, kind="stable").tolist()
            fresh = next((k for k in looks if family.keys[k] not in seen), None)
            if fresh is None:
                break
            at = family.child(fresh)
            seen.add(at.key)
            if at.key == space.goal:
                best, below = at, float(family.floors[fresh])
    return best, below


def _schedule(space: Space, last: Reached) -> Schedule:
    """The schedule that leads to a label."""
    path = [last]
    while path[-1].parent is not None:
        path.append(path[-1].parent)
    who = np.array(space.members)  # the request that stands at each place
    steps: list[tuple[int, int, int, int]] = []
    for batch, (before, after) in enumerate(itertools.pairwise(path[::-1]), start=1):
        for place, kind in enumerate(space.type_of):
            actions = kind.actions(int(before.columns[place]), int(after.moved[place]))
            steps += [(int(who[place]), int(action), batch, tokens) for action, tokens in actions]
        who = who[after.order]
    return from_steps(steps)
