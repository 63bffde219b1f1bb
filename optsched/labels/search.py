"""A* over labels: an exact optimum of unchunked schedules, with calls, swapping and arrivals.

A *state* says of every request how many tokens it has generated and where its KV is; a *label* is
one way to get there: the end t of the last batch, when each request may go on (arrival, or return
of its call), and the part F of the objective that is settled. A batch starts at the latest of t and
the releases of what it processes, so starting anything earlier never hurts and idling needs no
action. Of two labels of a state, A makes B superfluous if t, F and every max(release, t) are no
larger: A may wait until B's t and go on exactly like B.

Labels are taken by F + the least that can follow (:mod:`optsched.labels.remaining`); the first
complete one is optimal, and before that the least such sum of those not yet taken is a bound.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from optsched.errors import UnsupportedError
from optsched.handling import handling_of
from optsched.instance import Instance, require_feasible
from optsched.labels.batches import Batch, Batches, State
from optsched.labels.remaining import LABELLED, Remaining
from optsched.labels.steps import GONE, all_steps
from optsched.objective import Objective
from optsched.schedule import Schedule, from_steps

POLICIES = frozenset({"no-evict", "no-chunk", "no-hybrid", "no-swap", "fcfs"})
MOST_REQUESTS = 12
_EQUAL = 1e-12  # relative; a label this close to another is no better
_LOOK = 1024  # labels between two looks at the clock


@dataclass(frozen=True, kw_only=True, eq=False)
class Found:
    """What the search found.

    Parameters
    ----------
    value : float or None
        Seconds, of ``schedule``; both None if none below the cutoff was found.
    bound : float
        No unchunked schedule under the policies is below it, or below the cutoff if that is less.
    proven : bool
        Whether ``value`` is the optimum, or nothing is below the cutoff.
    labels : int
        Labels made.
    interrupted : bool
        Whether a keyboard interrupt ended it; the caller passes it on.
    """

    value: float | None
    schedule: Schedule | None
    bound: float
    proven: bool
    labels: int
    interrupted: bool = False


@dataclass(slots=True)
class _Label:
    state: State
    end_s: float
    release_s: tuple[float, ...]
    settled_s: float
    before: _Label | None
    batch: Batch | None
    stale: bool = False


def search(
    instance: Instance, objective: Objective, *, policies: Collection[str] = (),
    cutoff: float = math.inf, time_limit_s: float = 60.0, most_labels: int = 2_000_000,
    report: Callable[[str], None] = lambda _: None,
) -> Found:  # fmt: skip
    """The best unchunked schedule below ``cutoff``, or a bound.

    Parameters
    ----------
    policies : collection of str
        Of :data:`POLICIES`, and handlings of calls.
    cutoff : float
        Value of a known schedule.
    most_labels : int
        Labels to keep; with more the search ends with a bound.

    Raises
    ------
    InfeasibleError
        A request cannot run even alone.
    UnsupportedError
        Too many requests, or another objective or policy.
    """
    unknown = [p for p in policies if p not in POLICIES and handling_of(p) is None]
    if unknown:
        raise UnsupportedError(f"label setting does not cover policy {sorted(unknown)[0]!r}")
    if objective not in LABELLED:
        raise UnsupportedError(f"label setting does not cover {objective.value}")
    if len(instance) > MOST_REQUESTS:
        raise UnsupportedError(
            f"label setting covers at most {MOST_REQUESTS} requests, got {len(instance)}"
        )
    require_feasible(instance, frozenset(policies) | {"no-chunk"})
    found = _Search(instance, objective, frozenset(policies), cutoff, most_labels)
    return found.run(time.monotonic() + time_limit_s, report)


class _Search:
    def __init__(
        self, instance: Instance, objective: Objective, policies: frozenset[str], cutoff: float,
        most_labels: int,
    ) -> None:  # fmt: skip
        self.objective, self.cutoff, self.most_labels = objective, cutoff, most_labels
        self.steps = all_steps(instance, policies)
        self.batches = Batches(instance, self.steps, policies)
        self.remaining = Remaining(instance, self.steps)
        self.release = tuple(each.release_s for each in self.steps)
        self.twins = _twins(instance, policies)
        self.kept: dict[State, list[_Label]] = {}
        self.open: list[tuple[float, int, int, _Label]] = []
        self.made = 0
        self.extending = 0.0  # cost of the label being extended
        self.mean = objective in (Objective.MEAN_LATENCY, Objective.MEAN_TTFT)
        self.scale = len(instance) if self.mean else 1

    def run(self, deadline: float, report: Callable[[str], None]) -> Found:
        """Search until the optimum, the deadline, the limit of labels or an interrupt."""
        try:
            return self._run(deadline, report)
        except KeyboardInterrupt:
            # The label that was being extended is in the queue no more.
            least = min([self.extending, *(entry[0] for entry in self.open[:1])])
            bound = min(least / self.scale, self.cutoff)
            return replace(self.found(None, bound, proven=False), interrupted=True)

    def _run(self, deadline: float, report: Callable[[str], None]) -> Found:
        start = tuple((0, GONE) for _ in self.steps)
        self.push(_Label(start, 0.0, self.release, 0.0, None, None))
        taken = 0
        while self.open:
            taken += 1
            if taken % _LOOK == 0:
                least = self.open[0][0] / self.scale
                report(f"label setting: {self.made} labels, bound {least:.7g} s")
                if time.monotonic() >= deadline or self.made >= self.most_labels:
                    return self.found(None, min(least, self.cutoff), proven=False)
            cost, _, _, label = heapq.heappop(self.open)
            self.extending = cost
            if label.stale:
                continue
            if all(g == each.output for (g, _), each in zip(label.state, self.steps, strict=True)):
                return self.found(label, cost / self.scale, proven=True)
            for batch in self.batches.after(label.state):
                self.push(self.extended(label, batch))
        return self.found(None, self.cutoff, proven=True)

    def found(self, label: _Label | None, bound: float, *, proven: bool) -> Found:
        schedule = None if label is None else _schedule(label)
        return Found(
            value=None if label is None else bound, schedule=schedule, bound=bound, proven=proven,
            labels=self.made,
        )  # fmt: skip

    def extended(self, label: _Label, batch: Batch) -> _Label:
        """The label after ``batch``."""
        start = max(label.end_s, max(label.release_s[i] for i in batch.processed))
        end = start + batch.time_s
        release, settled = list(label.release_s), label.settled_s
        for i in batch.processed:
            g = batch.after[i][0]
            each = self.steps[i]
            ended = g == each.output
            release[i] = end if ended else end + each.pause_s[g]
            if self.objective is Objective.MEAN_TTFT:
                settled += end - each.release_s if g == 1 else 0.0
            elif ended and self.objective is Objective.MEAN_LATENCY:
                settled += end - each.release_s
            elif ended and self.objective is Objective.MAX_LATENCY:
                settled = max(settled, end - each.release_s)
        return _Label(batch.after, end, tuple(max(r, end) for r in release), settled, label, batch)

    def push(self, label: _Label) -> None:
        """Keep a label, in the order of its twins, unless another one makes it superfluous."""
        cost = self.least(label)
        if cost >= self.cutoff * self.scale * (1 - _EQUAL):
            return
        state, release = self.sorted(label.state, label.release_s)
        if self.superfluous(state, release, label):
            return
        self.made += 1
        done = sum(g for g, _ in label.state)
        heapq.heappush(self.open, (cost, -done, self.made, label))

    def superfluous(self, state: State, release: tuple[float, ...], label: _Label) -> bool:
        """Whether a label kept for ``state`` is as good; drops those that this one replaces."""
        kept = self.kept.setdefault(state, [])
        end, settled = label.end_s, label.settled_s
        slack = 1 + _EQUAL
        for other in kept:
            if (
                other.end_s <= end * slack
                and other.settled_s <= settled * slack
                and all(
                    a <= b * slack
                    for a, b in zip(
                        self.sorted(other.state, other.release_s)[1], release, strict=True
                    )
                )
            ):
                return True
        left = []
        for other in kept:
            theirs = self.sorted(other.state, other.release_s)[1]
            if (
                end <= other.end_s
                and settled <= other.settled_s
                and all(a <= b for a, b in zip(release, theirs, strict=True))
            ):
                other.stale = True
            else:
                left.append(other)
        left.append(label)
        self.kept[state] = left
        return False

    def sorted(self, state: State, release: tuple[float, ...]) -> tuple[State, tuple[float, ...]]:
        """State and releases with identical requests in order: they may change places."""
        if not self.twins:
            return state, release
        places, times = list(state), list(release)
        for group in self.twins:
            order = sorted((places[i], times[i]) for i in group)
            for i, (place, when) in zip(group, order, strict=True):
                places[i], times[i] = place, when
        return tuple(places), tuple(times)

    def least(self, label: _Label) -> float:
        """No completion of ``label`` costs less (means: their sum)."""
        end, own = label.end_s, self.remaining.own_s
        alive = [
            (i, g, place, label.release_s[i]) for i, (g, place) in enumerate(label.state)
            if g < self.steps[i].output
        ]  # fmt: skip
        if self.objective is Objective.MAKESPAN:
            chains = max((max(end, r) + own(i, g, p) for i, g, p, r in alive), default=end)
            work = [self.remaining.work(i, g, p) for i, g, p, _ in alive]
            return max(end, chains, end + self.remaining.machine_s(work) if work else end)
        if self.objective is Objective.MEAN_LATENCY:
            return label.settled_s + sum(
                max(end, r) + own(i, g, p) - self.release[i] for i, g, p, r in alive
            )
        if self.objective is Objective.MAX_LATENCY:
            late = (max(end, r) + own(i, g, p) - self.release[i] for i, g, p, r in alive)
            return max(label.settled_s, max(late, default=0.0))
        return label.settled_s + sum(
            max(end, r) + self.remaining.first_token_s(i) - self.release[i]
            for i, g, _, r in alive if g == 0
        )  # fmt: skip


def _twins(instance: Instance, policies: frozenset[str]) -> tuple[tuple[int, ...], ...]:
    """Groups of requests that differ in nothing but their ids."""
    if any(":" in policy for policy in policies):
        return ()
    groups: dict[object, list[int]] = {}
    for i, request in enumerate(instance.requests):
        key = (
            request.prompt_tokens, request.output_tokens, request.arrival_s, request.calls,
        )  # fmt: skip
        groups.setdefault(key, []).append(i)
    return tuple(tuple(group) for group in groups.values() if len(group) > 1)


def _schedule(label: _Label) -> Schedule:
    batches: list[Batch] = []
    at: _Label | None = label
    while at is not None and at.batch is not None:
        batches.append(at.batch)
        at = at.before
    return from_steps(
        [
            (i, int(kind), j, tokens)
            for j, batch in enumerate(reversed(batches), start=1)
            for i, kind, tokens in batch.actions
        ]
    )
