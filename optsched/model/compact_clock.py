"""What the compact formulation knows about time before anything is solved.

Which clock columns an objective needs, in which unit, and how large times can become, which is
what its big-Ms are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optsched.instance import Instance
from optsched.model.compact_skips import Skips, cut_gaps, skips
from optsched.model.contexts import calls_of
from optsched.model.milestones import earliest_ends
from optsched.model.milp import FloatArray, IntArray
from optsched.objective import Objective

BoolArray = NDArray[np.bool_]

UNTIL_FINISH, UNTIL_FIRST, AFTER_FIRST = "until_finish", "until_first", "after_first"

_SLACK = 1e-9  # relative, outwards, on whatever a value limits
_ROUNDING = 1e-12  # of the latest time: what sums of batch times in another order differ by
_UNITS_OF_A_BATCH = 1024.0
_MOST_UNITS = 2.0**23
_ALWAYS_MET_S = 1e100


@dataclass(frozen=True, kw_only=True)
class Goal:
    """What is minimised and what else is limited.

    Parameters
    ----------
    objective : Objective
    at_most : mapping of Objective to float
        That objective's value is at most this (goodput: at least).
    cutoff : float or None
        Value of a known schedule: worse ones may be cut off.
    """

    objective: Objective
    at_most: Mapping[Objective, float]
    cutoff: float | None

    @property
    def objectives(self) -> frozenset[Objective]:
        """Everything that is minimised or limited."""
        return frozenset({self.objective, *self.at_most})

    def limits(self) -> dict[Objective, float]:
        """The largest value (goodput: the least) that is of interest, by objective."""
        found = dict(self.at_most)
        if self.cutoff is not None:
            worse = min if not self.objective.maximised else max
            found[self.objective] = worse(self.cutoff, found.get(self.objective, self.cutoff))
        return found

    def needs_clock(self, instance: Instance, *, swapping: bool = False) -> bool:
        """Whether times must be columns: not for the makespan of requests that arrive at once,
        make no calls and cannot be swapped (whose chunks need no price of their own)."""
        plain = instance.offline and not instance.has_calls and not swapping
        return not plain or self.objectives != {Objective.MAKESPAN}


@dataclass(frozen=True, kw_only=True, eq=False)
class Clock:
    """Times of an instance within a horizon of J batches.

    Parameters
    ----------
    instance : Instance
        With long gaps between arrivals cut short (:mod:`optsched.model.compact_skips`); the times
        below are its times.
    skips : Skips
        What was cut.
    unit_s : float
        Seconds per unit of a clock column: a power of two, so that scaling is exact. A batch takes
        some thousand units, or as many as keep the latest time below 2^23 units: the tolerances
        of solvers are absolute.
    arrivals_s : float array, shape ``(arrivals,)``
        Distinct arrivals after 0, ascending.
    latest_s : float array, shape ``(J + 1,)``
        No batch j ends after entry j + 1, in any schedule of interest.
    idle_s : float array, shape ``(J,)``
        The longest that the machine can stand idle before batch j.
    longest_s : float array, shape ``(J,)``
        The longest from the end of one batch to the end of the next, idling included.
    longest_without_s : float array, shape ``(requests, J)``
        The same where the request takes no part in the batch.
    shortest_s : float
        No batch takes less.
    phases : mapping of str to bool array, shape ``(requests,)``
        Phases of a request's life whose length is needed, and for which requests:
        :data:`UNTIL_FINISH` and :data:`UNTIL_FIRST` (its first token), both from time 0, and
        :data:`AFTER_FIRST` (from its first token to its end).
    exact : bool
        Whether a batch must be kept from taking longer, or starting later, than it has to: only
        the time after the first token can gain from that, and only if a later arrival stops it.
    """

    instance: Instance
    skips: Skips
    unit_s: float
    arrivals_s: FloatArray
    latest_s: FloatArray
    idle_s: FloatArray
    longest_s: FloatArray
    longest_without_s: FloatArray
    shortest_s: float
    phases: Mapping[str, BoolArray]
    exact: bool

    @property
    def release_s(self) -> FloatArray:
        """When each request arrives, shape ``(requests,)``."""
        return self.instance.release_s

    @property
    def classes(self) -> BoolArray:
        """Whether each request arrives at entry k of ``arrivals_s`` or later, shape
        ``(arrivals, requests)``."""
        found: BoolArray = self.release_s >= self.arrivals_s[:, None]
        return found

    @property
    def class_of(self) -> IntArray:
        """Position of each request's arrival in ``arrivals_s``, -1 for arrivals at 0."""
        return np.searchsorted(self.arrivals_s, self.release_s, side="right") - 1

    def allowance_s(self, limit_s: float) -> float:
        """How far outwards a limit on a time is moved, so that no rounding error, of the
        simulator or of a solver, makes a schedule miss what it meets."""
        latest_s = float(self.latest_s[-1] + self.skips.skipped_s.sum())
        return _SLACK * abs(limit_s) + _ROUNDING * latest_s

    def allowance(self, instance: Instance, objective: Objective, limit: float) -> float:
        """The same for the limit on an objective, in its unit."""
        if objective.maximised:
            return _SLACK * instance.total_weight
        return self.allowance_s(limit)


def clock(instance: Instance, batches: int, goal: Goal, *, swapping: bool = False) -> Clock:
    """The clock of ``instance`` for at most ``batches`` batches.

    Whatever the machine idles for a call is within the pause of that call, so all batches and all
    calls together are the most that passes without an arrival.
    """
    cost = instance.cost
    shortest = float(cost.token_time(1)) + min(cost.d0, cost.p0)
    longest, longest_without = _longest_batches(instance, swapping)
    phases = _phases(instance, goal)
    pauses = calls_of(instance).duration_s
    away = float(pauses.sum())
    cut, skipped = cut_gaps(instance, batches * longest + away)
    last = float(cut.release_s.max())
    boundary = np.arange(batches + 1)
    end = _latest_end_s(cut, goal, float(skipped.sum()))
    latest = np.minimum(last + away + boundary * longest, end)
    idle = np.maximum(last - boundary[:-1] * shortest, 0.0)
    idle = np.maximum(idle, pauses.max(initial=0.0))
    unit = max(shortest / _UNITS_OF_A_BATCH, float(latest[-1]) / _MOST_UNITS)
    return Clock(
        instance=cut,
        skips=_skips(instance, skipped, phases, goal),
        unit_s=2.0 ** math.floor(math.log2(unit)),
        arrivals_s=np.unique(cut.release_s)[1:],
        latest_s=latest,
        idle_s=idle,
        longest_s=idle + longest,
        longest_without_s=idle + longest_without[:, None],
        shortest_s=shortest,
        phases=phases,
        exact=not instance.offline and bool(phases[AFTER_FIRST].any()),
    )


def _latest_end_s(instance: Instance, goal: Goal, skipped_s: float) -> float:
    """When the last batch of a schedule of interest ends, at the latest, seconds.

    A makespan is that time and what was skipped; a maximum latency V leaves a request until T + V;
    and of the latencies, whose sum is n V, all but one are at least what
    :func:`~optsched.model.milestones.earliest_ends` says, so the sum of ends bounds the last one.
    """
    latest, release = math.inf, instance.release_s
    for objective, value in goal.limits().items():
        if objective is Objective.MAKESPAN:
            latest = min(latest, value - skipped_s + _SLACK * value)
        elif objective is Objective.MAX_LATENCY:
            latest = min(latest, float(release.max()) + value)
        elif objective is Objective.MEAN_LATENCY:
            others = float(earliest_ends(instance)[:-1].sum())
            latest = min(latest, len(instance) * value + float(release.sum()) - others)
    return latest * (1 + _SLACK)


def _skips(
    instance: Instance, skipped_s: FloatArray, phases: Mapping[str, BoolArray], goal: Goal
) -> Skips:
    """What the goal says of those who wait across an arrival."""
    limits, n = goal.limits(), len(instance)
    longest = min(
        n * limits.get(Objective.MEAN_LATENCY, math.inf),
        limits.get(Objective.MAX_LATENCY, math.inf),
    )
    first = min(longest, n * limits.get(Objective.MEAN_TTFT, math.inf))
    gaps = np.maximum(instance.output_tokens - 1, 1)
    slos = {
        UNTIL_FINISH: objectives_s(instance, "latency_slo_s"),
        UNTIL_FIRST: objectives_s(instance, "ttft_slo_s"),
        AFTER_FIRST: objectives_s(instance, "tpot_slo_s") * gaps,
    }
    counts = Objective.GOODPUT in goal.objectives
    if not counts:
        slos = {name: np.full(n, np.inf) for name in slos}
    return skips(
        instance, skipped_s, phases,
        most_s={UNTIL_FINISH: longest * (1 + _SLACK), UNTIL_FIRST: first * (1 + _SLACK)},
        slos_s={name: limit * (1 + _SLACK) for name, limit in slos.items()},
        priced={
            UNTIL_FINISH: bool(goal.objectives & {Objective.MEAN_LATENCY, Objective.MAX_LATENCY}),
            UNTIL_FIRST: Objective.MEAN_TTFT in goal.objectives,
            AFTER_FIRST: False,
        },
    )  # fmt: skip


def objectives_s(instance: Instance, name: str) -> FloatArray:
    """That service-level objective of every request, infinite where none is given or it is so
    large that sums with it would overflow."""
    given = [getattr(request, name) for request in instance.requests]
    return np.array([math.inf if slo is None or slo > _ALWAYS_MET_S else slo for slo in given])


def _longest_batches(instance: Instance, swapping: bool) -> tuple[float, FloatArray]:
    """The longest that any batch takes, and any without each request, shape ``(requests,)``."""
    cost, limits = instance.cost, instance.limits
    steps = np.array([_longest_step_s(instance, i) for i in range(len(instance))])
    tokens = instance.final_tokens
    setup = cost.d0 + cost.p0
    # What comes in is on the host before the batch, what goes out is there after it.
    moved = min(2 * limits.host_kv_tokens, int((tokens - 1).sum())) if swapping else 0
    swaps = cost.swap_tok * moved

    def longest(members: BoolArray) -> float:
        if not members.any():
            return 0.0
        most = limits.batch_requests or len(instance)
        attention = float(np.sort(steps[members])[::-1][:most].sum())
        processed = min(limits.batch_tokens, int(tokens[members].sum()))
        return float(cost.token_time(processed)) + setup + attention + swaps

    everyone = np.ones(len(instance), dtype=bool)
    without = [longest(np.arange(len(instance)) != i) for i in range(len(instance))]
    return longest(everyone), np.array(without)


def _longest_step_s(instance: Instance, i: int) -> float:
    """The dearest step of a request, without the time of its tokens."""
    final = int(instance.final_tokens[i])
    chunk = np.arange(1, min(final, instance.limits.fill_tokens) + 1)
    prefill = float(instance.cost.prefill_time(chunk, final - chunk).max())
    return max(prefill, float(instance.cost.decode_time(final - 1)))


def _phases(instance: Instance, goal: Goal) -> dict[str, BoolArray]:
    """For which requests each phase matters."""

    def limited(name: str) -> BoolArray:
        if Objective.GOODPUT not in goal.objectives:
            return np.zeros(len(instance), dtype=bool)
        return np.array([getattr(request, name) is not None for request in instance.requests])

    ends = bool(goal.objectives & {Objective.MEAN_LATENCY, Objective.MAX_LATENCY})
    return {
        UNTIL_FINISH: limited("latency_slo_s") | ends,
        UNTIL_FIRST: limited("ttft_slo_s") | (Objective.MEAN_TTFT in goal.objectives),
        AFTER_FIRST: limited("tpot_slo_s") & (instance.output_tokens > 1),
    }
