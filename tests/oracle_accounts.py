"""What the objectives cost along the way, for the exhaustive search of ``oracle.py``.

A label is a column: TIME (end of the last batch), COST (what has been decided so far), the release
of each request (its arrival or the return of its call, 0 if that is not in the future) and, for
goodput, when each request is due. An account tells how a batch changes it, bounds what it will be
at the end from below, and compares labels of one state.

**Lower bounds.** Of the requests that are open (not finished; for TTFT, without a first token),
the j-th one closes no earlier than

- the j-th smallest of the earliest ends alone, max(now, release) + time alone;
- now + the sum of the j smallest shared bounds, since the batches until then last at least as long
  as the shares of those j requests.

**Comparing.** Let a schedule lead from a label B to the end, and follow it from a label A of the
same state. Each batch begins at the latest of the end of the one before and the releases of what it
processes. Let ``lag`` be the largest of time of A - time of B and, of each request whose release in
A lies ahead, that release - max(its release, time) in B. By induction over the batches every start
and end, and so every later return of a call, comes at most ``lag`` later than from B, or -lag
earlier if that is negative. If no release lies ahead in either label, or all are equal, everything
moves by exactly that.
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from optsched.objective import Objective
from tests.oracle_bounds import Shares, alone_bound, shared_bounds
from tests.oracle_moves import FloatArray, IntArray
from tests.oracle_space import Batches, Space

TIME, COST = 0, 1
BoolArray = NDArray[np.bool_]
Label = tuple[float, ...]


def lag(one: Label, other: Label, count: int) -> float:
    """By how much everything that follows ``one`` is later than after ``other``, at most."""
    late, now = one[TIME] - other[TIME], other[TIME]
    for release, other_release in zip(one[2 : 2 + count], other[2 : 2 + count], strict=True):
        if release > 0:
            late = max(late, release - max(other_release, now))
    return late


def in_step(one: Label, other: Label, count: int) -> bool:
    """Whether everything that follows the two labels differs by a shift in time."""
    ahead = one[2 : 2 + count], other[2 : 2 + count]
    return not any(map(any, ahead)) or (one[TIME] == other[TIME] and ahead[0] == ahead[1])


class Left:
    """What each request needs until it reaches a set of its states; places as in the space.

    ``alone``, ``(requests, states)``, and ``shared``, ``(bounds, requests, states)``, padded.
    """

    def __init__(self, space: Space, *, first_token: bool) -> None:
        limits = Shares.of(space.instance)
        most = max(space.sizes)
        reached, alone, shared = [], [], []
        for kind in space.types:
            there = kind.begun if first_token else kind.done
            pad = (0, most - len(kind.states))
            rows = shared_bounds(kind.tables, limits, space.cost, there)
            for _ in kind.members:
                reached.append(np.pad(there, pad))
                alone.append(np.pad(alone_bound(kind.tables, space.cost, there), pad))
                shared.append(np.pad(rows, ((0, 0), pad)))
        self.reached, self.alone = np.array(reached), np.array(alone)
        # Shares and lines often coincide; keep one of each set of equal bounds.
        self.shared = np.unique(np.stack(shared, axis=1), axis=0)
        self.place = np.arange(len(alone))[:, None]


def time_alone(space: Space) -> FloatArray:
    """What each request needs alone to finish, ``(requests, states)``."""
    alone = [alone_bound(kind.tables, space.cost, kind.done) for kind in space.type_of]
    return np.stack([np.pad(row, (0, max(space.sizes) - row.size)) for row in alone])


class Clock:
    """Releases in labels, and what follows from them, whatever the objective."""

    def __init__(self, space: Space) -> None:
        self.space, self.prune = space, space.prune
        self.arrival_s = space.arrival_s[:, None]
        self.count = len(space.members)
        self.released = slice(2, 2 + self.count)  # rows of a label
        self.alone = time_alone(space)
        self._place = np.arange(self.count)[:, None]

    def begin(self, label: Label, batches: Batches) -> tuple[BoolArray, FloatArray]:
        """Which batches may follow a label, and when they start."""
        release = np.array(label[self.released])[:, None]
        start = np.maximum(label[TIME], np.where(batches.processed, release, 0.0).max(axis=0))
        return ~(batches.paused & (release <= start)).any(axis=0), start

    def _releases(
        self, label: Label, before: IntArray, columns: IntArray, end_s: FloatArray
    ) -> FloatArray:
        """Releases that lie ahead after the batches that end then, else 0."""
        made, call_s = self.space.made, self.space.call_s[self._place, columns]
        new = made[self._place, columns] > made[self._place, before[:, None]]
        release = np.where(
            new & (call_s > -np.inf), end_s + call_s, np.array(label[self.released])[:, None]
        )
        return np.where(release > end_s, release, 0.0)

    def comparable(self, one: Label, other: Label) -> bool:
        """Whether what may follow ``other`` may follow ``one``.

        If a policy lets a request pause only as long as its call takes, only if both differ by a
        shift: an earlier start may find that a call has not yet, or already, returned.
        """
        return not self.space.clocked or in_step(one, other, self.count)


class Account(Clock):
    """An objective that sums or takes the largest of times at which requests reach a state."""

    def __init__(self, objective: Objective, space: Space) -> None:
        super().__init__(space)
        self.objective = objective
        self.left = Left(space, first_token=objective is Objective.MEAN_TTFT)
        self.summed = objective in (Objective.MEAN_TTFT, Objective.MEAN_LATENCY)
        self.arrivals = np.unique(self.arrival_s)

    def start(self) -> FloatArray:
        """The label of the first state."""
        return np.concatenate((np.zeros(2), self.space.arrival_s))

    def value(self, label: Label) -> float:
        """The objective of a label at the goal."""
        if self.objective is Objective.MAKESPAN:
            return label[TIME]
        return label[COST] / len(self.arrival_s) if self.summed else label[COST]

    def after(
        self, label: Label, before: IntArray, columns: IntArray, end_s: FloatArray
    ) -> FloatArray:
        """Labels, ``(rows, batches)``, after the batches that end then."""
        reached, place = self.left.reached, self.left.place
        new = reached[place, columns] & ~reached[place, before[:, None]]
        times = np.where(new, end_s - self.arrival_s, 0.0)
        if self.objective is Objective.MAKESPAN:
            cost = end_s
        elif self.summed:
            cost = label[COST] + times.sum(axis=0)
        else:
            cost = np.maximum(label[COST], times.max(axis=0))
        return np.vstack([end_s, cost, self._releases(label, before, columns, end_s)])

    def floors(self, columns: IntArray, labels: FloatArray) -> FloatArray:
        """Lower bounds on the cost at the end, ``(labels,)``."""
        left, now = self.left, labels[TIME]
        closed = left.reached[left.place, columns]
        if not self.prune:  # what is open costs the time until now
            so_far = np.where(closed, 0.0, np.maximum(now - self.arrival_s, 0.0))
            if self.objective is Objective.MAKESPAN:
                return np.asarray(now)
            if self.summed:
                return np.asarray(labels[COST] + so_far.sum(axis=0))
            return np.asarray(np.maximum(labels[COST], so_far.max(axis=0)))
        alone = np.where(
            closed, now, np.maximum(now, labels[self.released]) + left.alone[left.place, columns]
        )
        work = left.shared[:, left.place, columns]
        if self.summed:
            together = now + np.cumsum(np.sort(work, axis=1), axis=1).max(axis=0)
            ends = np.maximum(together, np.sort(alone, axis=0))
            rest = np.sum(ends - now, axis=0)
            floors = labels[COST] + rest + np.where(closed, 0.0, now - self.arrival_s).sum(axis=0)
        elif self.objective is Objective.MAKESPAN:
            floors = np.maximum(now + work.sum(axis=1).max(axis=0), alone.max(axis=0))
        else:
            floors = np.maximum(labels[COST], np.where(closed, 0.0, alone - self.arrival_s).max(0))
            for last in self.arrivals:  # the requests that arrive no later
                those = np.where(self.arrival_s <= last, work, 0.0).sum(axis=1).max(axis=0)
                floors = np.maximum(floors, np.where(those > 0, now + those - last, 0.0))
        return np.asarray(np.where(closed.all(axis=0), labels[COST], floors))

    def settled(self, labels: FloatArray, floors: FloatArray) -> FloatArray:
        """Labels with their cost raised to what it will be at least, where that is a maximum.

        The largest latency in the end is at least the floor; so raising it loses nothing, and
        makes labels comparable that differ only in latencies which will be exceeded.
        """
        if self.prune and self.objective is Objective.MAX_LATENCY:
            labels[COST] = floors
        return labels

    def dominates(self, one: Label, other: Label, columns: IntArray) -> bool:
        """Whether everything that can follow ``other`` is no better than it is after ``one``."""
        if not self.comparable(one, other):
            return False
        late = lag(one, other, self.count)
        if late <= 0 and one[COST] <= other[COST]:
            return True
        if not (self.prune and self.summed):
            return False
        still_open = int((~self.left.reached[self.left.place[:, 0], columns]).sum())
        return one[COST] + still_open * late <= other[COST]


class Goodput(Clock):
    """The weight of the requests that do not meet all their SLOs.

    The last rows of a label hold for each place the time by which its request must finish: -inf
    once it has missed, or is sure to miss, an SLO; inf once it is finished, or if nothing depends
    on it. The first token sets it to the earlier of arrival + latency SLO and first token +
    (O - 1) TPOT SLO.
    COST has what the finished requests lost.
    """

    def __init__(self, space: Space) -> None:
        super().__init__(space)
        self.due = slice(2 + self.count, None)  # rows of a label
        self.all, self.first = (Left(space, first_token=first) for first in (False, True))
        requests = [kind.request for kind in space.type_of]
        self.weight = np.array([r.weight for r in requests])[:, None]

        def slo(name: str) -> FloatArray:
            given = (getattr(r, name) if r.weight > 0 else None for r in requests)
            return np.array([np.inf if value is None else value for value in given])[:, None]

        self.first_due = self.arrival_s + slo("ttft_slo_s")
        self.last_due = self.arrival_s + slo("latency_slo_s")
        gaps = np.array([[r.output_tokens - 1] for r in requests])
        # From the first token to the end; whatever it is if the first token is the last one.
        self.spread = np.where(gaps > 0, slo("tpot_slo_s") * np.maximum(gaps, 1), np.inf)

    def start(self) -> FloatArray:
        """The label of the first state."""
        return np.concatenate((np.zeros(2), self.space.arrival_s, self.last_due[:, 0]))

    def value(self, label: Label) -> float:
        """The goodput of a label at the goal."""
        return float(self.weight.sum()) - label[COST]

    def after(
        self, label: Label, before: IntArray, columns: IntArray, end_s: FloatArray
    ) -> FloatArray:
        """Labels, ``(rows, batches)``, after the batches that end then."""
        place, was = self.all.place, before[:, None]
        begins = self.first.reached[place, columns] & ~self.first.reached[place, was]
        ends = self.all.reached[place, columns] & ~self.all.reached[place, was]
        due = np.broadcast_to(np.array(label[self.due])[:, None], columns.shape)
        due = np.where(begins, np.minimum(due, end_s + self.spread), due)
        due = np.where(begins & (end_s > self.first_due), -np.inf, due)
        lost = np.where(ends & (end_s > due), self.weight, 0.0).sum(axis=0)
        due = np.where(ends, np.inf, due)
        release = self._releases(label, before, columns, end_s)
        return np.vstack([end_s, label[COST] + lost, release, due])

    def floors(self, columns: IntArray, labels: FloatArray) -> FloatArray:
        """Lower bounds on the weight lost in the end, ``(labels,)``.

        A set of requests can all be on time only if each would be alone, and if the shared bounds
        of the set, and of each of its subsets, are no more than the time until the last of its
        dues. The best such set is what can still be met.
        """
        if not self.prune:
            return np.asarray(labels[COST])
        now, due, place = labels[TIME], labels[self.due], self.all.place
        closed, begun = self.all.reached[place, columns], self.first.reached[place, columns]
        slack = 1e-12 * (1.0 + now)
        ready = np.maximum(now, labels[self.released]) - slack
        first_due = np.where(begun, np.inf, self.first_due)
        late = (ready + self.all.alone[place, columns] > due) | (
            ready + self.first.alone[place, columns] > first_due
        )
        labels[self.due] = np.where(~closed & late, -np.inf, due)
        work, fills = (x.shared[:, place, columns] for x in (self.all, self.first))
        weight = np.where(closed, 0.0, self.weight)
        best = np.zeros(columns.shape[1])
        possible: dict[tuple[int, ...], BoolArray] = {(): np.ones(columns.shape[1], dtype=bool)}
        for size in range(1, len(columns) + 1):
            for chosen in itertools.combinations(range(len(columns)), size):
                rows = list(chosen)
                fits = np.all([possible[rest] for rest in _without_one(chosen)], axis=0)
                for each, dues in ((work, due), (fills, first_due)):
                    need = now - slack + each[:, rows].sum(axis=1).max(axis=0)
                    fits &= need <= dues[rows].max(axis=0)
                possible[chosen] = fits
                best = np.maximum(best, np.where(fits, weight[rows].sum(axis=0), 0.0))
        return np.asarray(labels[COST] + weight.sum(axis=0) - best)

    def settled(self, labels: FloatArray, floors: FloatArray) -> FloatArray:
        """The labels as they are."""
        return labels

    def dominates(self, one: Label, other: Label, columns: IntArray) -> bool:
        """Whether everything that can follow ``other`` is no better than it is after ``one``.

        If no end is later, a request which is due no earlier misses only if it does after
        ``other``; the others may be lost on top. So may those without a first token that have an
        SLO on TPOT, unless all moves alike: their first token may come earlier, and what follows
        may not, if it waits for an arrival or a call.
        """
        if not self.comparable(one, other) or lag(one, other, self.count) > 0:
            return False
        lost = one[COST]
        if not in_step(one, other, self.count):
            begun = self.first.reached[self.all.place[:, 0], columns]
            lost += float(self.weight[~begun & np.isfinite(self.spread[:, 0])].sum())
        for weight, due, other_due in zip(
            self.weight[:, 0].tolist(), one[self.due], other[self.due], strict=True
        ):
            if due < other_due:
                lost += weight
        return lost <= other[COST]


def _without_one(chosen: tuple[int, ...]) -> list[tuple[int, ...]]:
    return [chosen[:k] + chosen[k + 1 :] for k in range(len(chosen))]


def account_of(objective: Objective, space: Space) -> Account | Goodput:
    """The account of an objective."""
    return Goodput(space) if objective is Objective.GOODPUT else Account(objective, space)
