"""The compact formulation's variables: schedules to points and back.

Per request and batch: integers s (tokens known), m (tokens cached), c (tokens processed) and
binaries for generating, decoding, prefilling, evicting; the CSP of InferMax ("Optimizing LLM
Inference for Database Systems: Cost-Aware Scheduling for Concurrent Requests"), with chunks of any
size, hybrid batches, evictions, held KV, pages and several affine pieces; with arrivals, calls and
swapping, for every objective, and under every policy. Its rows are in
``optsched.constraints.compact``.

Verdicts on limits (service-level objectives, ``at_most``) are those of doubles, and a solver's
tolerances are coarser. Every limit on a time is therefore moved outwards a little: whatever meets
it in the simulator is a point, so that a bound of the program holds for all schedules; and a point
may promise what its schedule, timed again, misses by a rounding error. A decoded schedule counts
with the value that the simulator gives it; then the bound is not reached, and the gap says so.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import pairwise

import numpy as np

from optsched.errors import InvalidInputError, UnsupportedError
from optsched.handling import HANDLINGS, handling_of, required_handling
from optsched.instance import Instance, require_feasible
from optsched.model.compact_batches import least_batches
from optsched.model.compact_clock import AFTER_FIRST, Clock, Goal, clock
from optsched.model.compact_columns import build_columns
from optsched.model.compact_swaps import can_swap
from optsched.model.compact_table import Columns
from optsched.model.compact_times import batch_seconds, clock_values, require_within
from optsched.model.compact_values import actions, fill_point, values
from optsched.model.contexts import calls_of, contexts
from optsched.model.milp import FloatArray, IntArray
from optsched.objective import Objective
from optsched.schedule import Kind, Schedule, from_steps

POLICIES = (
    "no-evict", "no-chunk", "no-hybrid", "no-hold", "fcfs", "no-swap", "nonpreemptive", *HANDLINGS,
)  # fmt: skip
# Processed in every batch from the first one to the last: nothing evicted, split or held.
NONPREEMPTIVE = ("no-evict", "no-chunk", "no-hold")
_ACTIONS = {
    Kind.PROCESS: "tokens", Kind.EVICT: "evicts",
    Kind.SWAP_OUT: "swap_outs", Kind.SWAP_IN: "swap_ins",
}  # fmt: skip


class CompactVariables:
    """Columns of the compact formulation for at most ``batches`` batches.

    Parameters
    ----------
    instance : Instance
    batches : int
        Horizon; :func:`optsched.model.horizon.batch_horizon` gives one that loses no optimum.
    policies : sequence of str
        Any of :data:`POLICIES`; a handling may name a request, as in ``swap:r7``.
    objective : Objective
        What is minimised, in seconds; for goodput the weight of the requests that miss one of
        their service-level objectives.
    at_most : mapping of Objective to float
        Further limits: the value of that objective is at most (goodput: at least) this.
    cutoff : float or None
        The objective's value of a known schedule. It makes big-Ms tighter; schedules that are worse
        may then be cut off.
    strengthened : bool
        Whether to add columns per number of generated tokens, whose rows make the linear
        relaxation much stronger and change no schedule and no price.

    Attributes
    ----------
    clock : Clock or None
        Limits on times; None for the makespan of requests that arrive at once, make no calls and
        cannot be swapped, which is a sum of prices.
    calls : Calls
        The calls of the instance, the order of all that is per call.
    contexts : Contexts
        What requests know by tokens generated.
    handled : tuple of str or None
        How the calls of each request must be handled.

    Raises
    ------
    UnsupportedError
        A policy that it does not know; with calls that take time, ``no-hold`` and
        ``nonpreemptive``, which ask when a pause ends, and TPOT objectives, which may gain from
        waiting.
    InfeasibleError
        A request cannot run even alone.
    InvalidInputError
        Fewer batches than every schedule has.
    """

    def __init__(
        self,
        instance: Instance,
        batches: int,
        policies: Sequence[str] = (),
        *,
        objective: Objective = Objective.MAKESPAN,
        at_most: Mapping[Objective, float] | None = None,
        cutoff: float | None = None,
        strengthened: bool = True,
    ) -> None:
        _require_supported(instance, policies)
        self.handled = required_handling(instance, policies)
        if "nonpreemptive" in policies:
            policies = (*policies, *NONPREEMPTIVE)
        require_feasible(instance, policies)
        least = least_batches(instance)
        if batches < least:
            raise InvalidInputError(
                f"batches: got {batches}, expected at least {least}, which every schedule has"
            )
        self.instance, self.batches, self.policies = instance, batches, tuple(policies)
        self.strengthened = strengthened
        self.goal = Goal(objective=objective, at_most=dict(at_most or {}), cutoff=cutoff)
        self.contexts, self.calls = contexts(instance), calls_of(instance)
        self.swapping = can_swap(instance, policies)
        self.clock: Clock | None = None
        if self.goal.needs_clock(instance, swapping=self.swapping):
            self.clock = clock(instance, batches, self.goal, swapping=self.swapping)
            _require_dated(instance, self.clock)
        self.columns: Columns = build_columns(
            instance, batches, policies, strengthened, self.goal, self.clock
        )

    def __getitem__(self, name: str) -> IntArray:
        """Column numbers, of the shape that ``build_columns`` tells; -1 where there is none."""
        return self.columns.index[name]

    def __contains__(self, name: str) -> bool:
        return name in self.columns.index

    def encode(self, schedule: Schedule) -> FloatArray:
        """The point of a valid schedule; requests that are alike may change places.

        Raises
        ------
        UnsupportedError
            The schedule swaps where that is ruled out, waits deliberately, has more batches than
            there are, or breaks ``at_most`` or the cutoff.
        ScheduleError
            It leaves a request unfinished.
        """
        does = actions(self.instance, schedule, self.batches, swapping=self.swapping)
        order = self._by_finish(does.tokens)
        index, durations = self.columns.index, self.columns.durations
        time_unit_s = durations.get("time", 1.0)
        found = values(self.instance, does.of(order), time_unit_s)
        point = np.zeros(self.columns.lower.size)
        fill_point(point, index, found)
        if self.clock is not None:
            takes_s = batch_seconds(index, durations, point)
            times, worth = clock_values(self.instance, self.clock, found, takes_s)
            require_within(self.instance, self.clock, self.goal, worth)
            fill_point(point, index, times)
        return point

    def decode(self, point: FloatArray) -> Schedule:
        """The schedule of a point that is integer within the solver's tolerance."""
        found = {
            kind: np.rint(point[self[name]]).astype(int)
            for kind, name in _ACTIONS.items() if name in self
        }  # fmt: skip
        steps = []
        for kind, amount in found.items():
            at = np.argwhere(amount > 0)
            size = amount[amount > 0] if kind is Kind.PROCESS else np.zeros(len(at), dtype=int)
            steps.append(
                np.column_stack([at[:, 0], np.full(len(at), int(kind)), at[:, 1] + 1, size])
            )
        return from_steps(np.concatenate(steps))

    def handlings(self, point: FloatArray) -> tuple[str, ...]:
        """How a point handles every call, in the order of ``calls``."""
        if not len(self.calls):
            return ()
        return tuple(HANDLINGS[k] for k in point[self["handlings"]].argmax(axis=1).tolist())

    def alike(self) -> list[tuple[int, int]]:
        """Pairs of requests that are alike, each with the next one like it.

        Alike are those that no rule and no objective tells apart: of the same lengths, arrival and
        calls, handled in the same way, and, where goodput matters, with the same limits and weight.
        """
        pairs = [pair for members in self._groups() for pair in pairwise(members)]
        return sorted(pairs, key=lambda pair: pair[1])

    def _groups(self) -> list[list[int]]:
        groups: dict[tuple[Hashable, ...], list[int]] = {}
        for i, request in enumerate(self.instance.requests):
            kind: tuple[Hashable, ...] = (
                request.prompt_tokens, request.output_tokens, request.arrival_s, request.calls,
                self.handled[i] if request.calls else None,
            )  # fmt: skip
            if Objective.GOODPUT in self.goal.objectives:
                limits = request.ttft_slo_s, request.tpot_slo_s, request.latency_slo_s
                kind = (*kind, *limits, request.weight)
            groups.setdefault(kind, []).append(i)
        return list(groups.values())

    def _by_finish(self, tokens: IntArray) -> IntArray:
        """Which request's part each request takes, so that like requests finish in order."""
        batch = np.arange(tokens.shape[1])
        finish = np.where(tokens > 0, batch, 0).max(axis=1)
        order = np.arange(len(tokens))
        for members in self._groups():
            order[members] = sorted(members, key=lambda i: int(finish[i]))
        return order


def _require_supported(instance: Instance, policies: Sequence[str]) -> None:
    for name in policies:
        if name not in POLICIES and handling_of(name) is None:
            raise UnsupportedError(
                f"the compact formulation does not cover policy {name!r}",
                hint=f"it covers {', '.join(POLICIES)}",
            )
        if name in ("no-hold", "nonpreemptive") and calls_of(instance).duration_s.any():
            raise UnsupportedError(
                f"the compact formulation does not cover policy {name} with calls that take time"
            )


def _require_dated(instance: Instance, times: Clock) -> None:
    """Refuse objectives that need a clock whose upper sides are stated, which those of call
    returns are not."""
    if instance.has_calls and times.phases[AFTER_FIRST].any():
        raise UnsupportedError(
            "the compact formulation does not cover TPOT objectives of requests with calls",
            hint="leave tpot_slo_s out, or take another objective than goodput",
        )
