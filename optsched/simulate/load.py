"""Loads: what every batch of a schedule processes, as far as its time and memory depend on it.

Vectorised over runs and never expanded to request-batches: a workload of 20,000 requests has
millions of those, but only some 100,000 runs. Of the steps of a run of one token per batch, those
are decodes that start at or above I and at the frontier (a refill repeats what is below it) and
that do not feed a response; everything else is prefill (problem, section 3). Both kinds have a
cached length that grows linearly in a run, so the sums per batch are cumulative sums of marks at
the ends of ranges (:mod:`optsched.simulate.ramps`).
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from optsched.errors import ScheduleError
from optsched.instance import Instance
from optsched.schedule import Kind, Schedule
from optsched.simulate.calls import CallTable, call_table
from optsched.simulate.levels import Levels, run_levels
from optsched.simulate.ramps import constant, linear
from optsched.simulate.refusal import HINT
from optsched.simulate.residency import kv_in_use

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Loads:
    """Loads per batch, and the batches in which something happens to a request or a call.

    Entry j of a per-batch array is batch j + 1; batch numbers in values count from 1. With c
    the tokens of a step and m those that its request had cached before the batch:

    Parameters
    ----------
    tokens : int array, shape ``(batches,)``
        n, tokens processed.
    decodes, prefills : int arrays, shape ``(batches,)``
        Steps of each kind.
    decode_cached : int array, shape ``(batches,)``
        Sum of m over decode steps.
    prefill_square, prefill_cross, prefill_cached : int arrays, shape ``(batches,)``
        Sums of c^2, of m * c and of m over prefill steps.
    swapped_tokens : int array, shape ``(batches,)``
        Tokens copied between GPU and host memory.
    kv_tokens, host_kv_tokens : int arrays, shape ``(batches,)``
        KV in use after the batch, in whole pages and with the requests that it finished, and
        tokens swapped out.
    first_batch : int array, shape ``(requests,)``
        The first batch that processes the request.
    first_token_batch, last_token_batch : int arrays, shape ``(requests,)``
        The batches that generate its first and last token.
    refilled_tokens : int array, shape ``(requests,)``
        Tokens that it processed again after evictions.
    call_request, call_batch, resume_batch : int arrays, shape ``(calls,)``
        For every call, sorted by request: who makes it, in which batch, and the first batch after
        it that processes the request.
    call_duration_s : float array, shape ``(calls,)``
        Seconds until it returns.
    """

    tokens: IntArray
    decodes: IntArray
    prefills: IntArray
    decode_cached: IntArray
    prefill_square: IntArray
    prefill_cross: IntArray
    prefill_cached: IntArray
    swapped_tokens: IntArray
    kv_tokens: IntArray
    host_kv_tokens: IntArray
    first_batch: IntArray
    first_token_batch: IntArray
    last_token_batch: IntArray
    refilled_tokens: IntArray
    call_request: IntArray
    call_batch: IntArray
    resume_batch: IntArray
    call_duration_s: FloatArray

    def __post_init__(self) -> None:
        for column in fields(self):
            getattr(self, column.name).setflags(write=False)


def loads(instance: Instance, schedule: Schedule) -> Loads:
    """Loads of a schedule that is assumed to be valid.

    Raises
    ------
    ScheduleError
        A request is unknown, never processed, not completed or processed afterwards; a batch
        processes nothing; or a run breaks ``progress`` or ``residency``. Limits are not looked at.
    """
    calls = call_table(instance)
    levels = run_levels(instance, schedule, calls)
    size = schedule.batch_count
    process = schedule.kind == Kind.PROCESS
    tokens, batches = schedule.tokens[process], schedule.batches[process]
    first, cached = schedule.first_batch[process] - 1, levels.before[process]

    processed = constant(first, batches, tokens, size)
    if not processed.all():
        empty = int(np.argmin(processed)) + 1
        raise ScheduleError(f"progress: batch {empty} processes nothing", hint=HINT)
    steps = constant(first, batches, np.ones_like(tokens), size)
    decodes, decode_cached = _decodes(instance, schedule, levels, calls)
    every = np.arange(len(instance))
    _, first_token_batch = levels.first_reach(schedule, every, instance.prompt_tokens)
    _, last_token_batch = levels.first_reach(schedule, every, instance.final_tokens)
    kv_tokens, host_kv_tokens = kv_in_use(instance, schedule, levels, last_token_batch)
    call_batch, resume_batch = _pauses(schedule, levels, calls)
    total = np.zeros(len(instance), dtype=np.int64)
    np.add.at(total, schedule.request[process], batches * tokens)
    return Loads(
        tokens=processed,
        decodes=decodes,
        prefills=steps - decodes,
        decode_cached=decode_cached,
        # A decode step has c = 1: it adds 1 to the sum of c^2 and m to that of m * c.
        prefill_square=constant(first, batches, tokens * tokens, size) - decodes,
        prefill_cross=linear(first, batches, cached * tokens, tokens * tokens, size)
        - decode_cached,
        prefill_cached=linear(first, batches, cached, tokens, size) - decode_cached,
        swapped_tokens=_swapped(schedule, levels),
        kv_tokens=kv_tokens,
        host_kv_tokens=host_kv_tokens,
        first_batch=schedule.first_batch[np.searchsorted(schedule.request, every)],
        first_token_batch=first_token_batch,
        last_token_batch=last_token_batch,
        # Every level up to the final one is reached once for the first time.
        refilled_tokens=total - instance.final_tokens,
        call_request=calls.request.copy(),
        call_batch=call_batch,
        resume_batch=resume_batch,
        call_duration_s=calls.duration_s,
    )


def _decodes(
    instance: Instance, schedule: Schedule, levels: Levels, calls: CallTable
) -> tuple[IntArray, IntArray]:
    """Decode steps, and the sum of m over them, for every batch; each ``(batches,)``.

    A step of one token from level m is a decode iff m + 1 = s(g) and m >= I. As s(g) is above the
    frontier, m is at it, and m + 1 is not a silent level.
    """
    size = schedule.batch_count
    floor = np.maximum(levels.frontier, instance.prompt_tokens[schedule.request])
    low, high = np.maximum(levels.before, floor), levels.after
    run = np.flatnonzero((schedule.tokens == 1) & (low < high))
    low, high = low[run], high[run]
    owner, silent_low, silent_high = calls.overlaps(schedule.request[run], low, high)
    count = np.zeros(size, dtype=np.int64)
    cached = np.zeros(size, dtype=np.int64)
    for sign, of, start, end in (
        (1, run, low, high),
        (-1, run[owner], silent_low, silent_high),
    ):
        first = schedule.first_batch[of] - 1 + start - levels.before[of]
        one = np.ones_like(start)
        count += sign * constant(first, end - start, one, size)
        cached += sign * linear(first, end - start, start, one, size)
    return count, cached


def _pauses(schedule: Schedule, levels: Levels, calls: CallTable) -> tuple[IntArray, IntArray]:
    """The batch that makes each call and the first to process its request afterwards."""
    run, batch = levels.first_reach(schedule, calls.request, calls.level)
    process = np.flatnonzero(schedule.kind == Kind.PROCESS)
    # A call is made before the last token, so the request has a later step: in the same run, or
    # in its next process run (the modulus only keeps the index of an unused entry in range).
    within = batch < schedule.first_batch[run] + schedule.batches[run] - 1
    following = process[np.searchsorted(process, run, side="right") % process.size]
    return batch, np.where(within, batch + 1, schedule.first_batch[following])


def _swapped(schedule: Schedule, levels: Levels) -> IntArray:
    """Tokens copied in either direction in every batch, ``(batches,)``."""
    swapped = np.zeros(schedule.batch_count, dtype=np.int64)
    swap = (schedule.kind == Kind.SWAP_IN) | (schedule.kind == Kind.SWAP_OUT)
    np.add.at(swapped, schedule.first_batch[swap] - 1, levels.before[swap])
    return swapped
