"""Levels: how many tokens of its request are cached before and after every run.

The level grows by the tokens of a process run, restarts at 0 with an eviction, and is kept by a
swap, wherever the KV is. So levels are cumulative sums that restart, and how far a request has
ever come (its *frontier*) is their running maximum: tokens below the frontier are repeated by a
refill, and g, the number of generated tokens, is the number of k with s(k) <= frontier
(see :mod:`optsched.simulate.calls`). No state is stepped through.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optsched.instance import Instance
from optsched.schedule import Kind, Schedule
from optsched.simulate.calls import CallTable, offsets
from optsched.simulate.refusal import (
    refuse,
    require_known_requests,
    require_one_action,
    require_sizes,
)

IntArray = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Levels:
    """Cached tokens around every run of a schedule, shape ``(runs,)``.

    Parameters
    ----------
    before, after : int arrays
        Tokens cached (on the GPU, or in host memory while swapped out) before and after the run;
        an eviction leaves 0.
    frontier : int array
        Largest level that the request had before the run.
    reached : int array
        Keys ``request * stride + largest level after the run``, non-decreasing.
    stride : int
        Above every level, see :class:`~optsched.simulate.calls.CallTable`.
    """

    before: IntArray
    after: IntArray
    frontier: IntArray
    reached: IntArray
    stride: int

    def first_reach(
        self, schedule: Schedule, request: IntArray, level: IntArray
    ) -> tuple[IntArray, IntArray]:
        """Run and batch in which each ``request`` first reaches ``level``; elementwise.

        Only a process run raises the frontier, so the run is one: of c tokens per batch from
        level m, it reaches the level in its ceil((level - m) / c)-th batch.
        """
        run: IntArray = np.searchsorted(self.reached, request * self.stride + level)
        steps = -(-(level - self.before[run]) // schedule.tokens[run])
        return run, schedule.first_batch[run] + steps - 1


def run_levels(instance: Instance, schedule: Schedule, calls: CallTable) -> Levels:
    """Levels of a schedule.

    Raises
    ------
    ScheduleError
        A run breaks ``progress``, ``completion`` or ``residency``.
    """
    require_known_requests(instance, schedule)
    require_sizes(instance, schedule)
    require_one_action(instance, schedule)
    request, kind = schedule.request, schedule.kind
    head = np.concatenate(([True], request[1:] != request[:-1]))
    gain = schedule.batches * schedule.tokens
    total = np.cumsum(gain)
    # A sum restarts from what was processed before a request's first run or up to an eviction.
    restart = np.where(kind == Kind.EVICT, total, np.where(head, total - gain, 0))
    after = total - np.maximum.accumulate(restart)
    refuse(
        after > instance.final_tokens[request], instance, schedule,
        "completion", "the run processes more tokens than the request ever has",
    )  # fmt: skip
    reached = np.maximum.accumulate(request * calls.stride + after)
    levels = Levels(
        before=_shifted(after, head),
        after=after,
        frontier=_shifted(reached - request * calls.stride, head),
        reached=reached,
        stride=calls.stride,
    )
    _require_cached(instance, schedule, levels)
    _require_complete(instance, schedule, levels, head)
    _require_landings(instance, schedule, levels, calls)
    return levels


def _shifted(values: IntArray, head: NDArray[np.bool_]) -> IntArray:
    """The value of the run before, 0 at the first run of a request."""
    before = np.roll(values, 1)
    before[head] = 0
    return before


def _require_cached(instance: Instance, schedule: Schedule, levels: Levels) -> None:
    """Only what is cached can be evicted or swapped out."""
    leaves = (schedule.kind == Kind.EVICT) | (schedule.kind == Kind.SWAP_OUT)
    refuse(
        leaves & (levels.before == 0), instance, schedule,
        "residency", "evict or swap_out of a request that has nothing cached",
    )  # fmt: skip


def _require_complete(
    instance: Instance, schedule: Schedule, levels: Levels, head: NDArray[np.bool_]
) -> None:
    """The last run of every request, and no run before it, brings it to its final level."""
    final = instance.final_tokens[schedule.request]
    refuse(
        levels.frontier == final, instance, schedule, "completion", "it has finished before"
    )  # fmt: skip
    last = np.concatenate((head[1:], [True]))
    refuse(
        last & (levels.after < final), instance, schedule,
        "completion", "no run after this one, but the request has not generated all its tokens",
    )  # fmt: skip


def _require_landings(
    instance: Instance, schedule: Schedule, levels: Levels, calls: CallTable
) -> None:
    """No chunk passes over a level at which a token is generated (c <= s - m).

    Of a run of c > 1 tokens per batch from level m, every s(k) above the frontier and up to the
    run's end must be m plus a multiple of c. Single tokens cannot pass over anything.
    """
    run = np.flatnonzero(schedule.tokens > 1)
    request = schedule.request[run]
    generated = generated_tokens(instance, calls, request, levels.frontier[run])
    new = generated_tokens(instance, calls, request, levels.after[run]) - generated
    new = np.maximum(new, 0)  # less than before while a refill is below the frontier
    k = np.repeat(generated, new) + offsets(new)
    run, request = np.repeat(run, new), np.repeat(request, new)
    known = instance.prompt_tokens[request] + k + calls.appended_tokens(request, k)
    passed = np.zeros(len(schedule), dtype=bool)
    passed[run[(known - levels.before[run]) % schedule.tokens[run] > 0]] = True
    refuse(
        passed, instance, schedule,
        "progress", "processes more tokens than are known, expected at most those not cached",
    )  # fmt: skip


def generated_tokens(
    instance: Instance, calls: CallTable, request: IntArray, level: IntArray
) -> IntArray:
    """g(level) = #{k : s(k) <= level}: levels from I on, less the silent ones; elementwise."""
    above = np.maximum(level - instance.prompt_tokens[request] + 1, 0)
    generated: IntArray = above - calls.silent_levels(request, level)
    return generated
