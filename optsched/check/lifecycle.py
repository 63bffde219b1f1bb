"""Follows every request through its runs, all requests at once.

Round k plays the k-th run of every request that has one, so the work is that of the runs and not
of the batches. Rules checked here and in ``processing`` and ``residency``: ``progress`` and
``completion`` of each request, ``residency``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optsched.check.history import History
from optsched.check.milestones import Milestones
from optsched.check.processing import note_gaps, process_run
from optsched.check.residency import evict, swap_in, swap_out
from optsched.check.state import Log, State, initial_state
from optsched.check.violation import Findings
from optsched.instance import Instance
from optsched.schedule import Kind, Schedule

IntArray = NDArray[np.int64]


def follow(
    instance: Instance, schedule: Schedule, marks: Milestones, findings: Findings
) -> History:
    """What the schedule makes the requests do; breaches go to ``findings``.

    What a rule forbids is not done, or done as far as it can be: the conventions are those of
    :mod:`optsched.check`.
    """
    request, kind, first, stop, tokens = _playable(instance, schedule, findings)
    counts = np.bincount(request, minlength=len(instance))
    order = np.argsort(-counts, kind="stable")
    falling = -counts[order]
    run = (np.cumsum(counts) - counts)[order]
    state = initial_state(instance, marks, order)
    log = Log(marks, findings)
    for k in range(int(counts.max())):
        active = int(np.searchsorted(falling, -k))
        rows = run[:active] + k
        _play(state.head(active), kind[rows], first[rows], stop[rows], tokens[rows], log)
    _close(state, schedule.batch_count, log)
    return log.history()


def _playable(
    instance: Instance, schedule: Schedule, findings: Findings
) -> tuple[IntArray, IntArray, IntArray, IntArray, IntArray]:
    """Columns request, kind, first, stop, tokens of the runs that name a request and do a thing."""
    process = schedule.kind == Kind.PROCESS
    known = schedule.request < len(instance)
    idle = process & known & (schedule.tokens < 1)
    for rule, bad in (("progress", ~known & process), ("residency", ~known & ~process)):
        if bad.any():
            findings.add(
                rule,
                "a run names the request at position {position}, of which there is none",
                excess=np.maximum(schedule.tokens[bad], 1), batch=schedule.first_batch[bad],
                position=schedule.request[bad],
            )  # fmt: skip
    if idle.any():
        findings.add(
            "progress", "a process run of no token, at least 1 expected",
            excess=1 - schedule.tokens[idle], batch=schedule.first_batch[idle],
            request=schedule.request[idle],
        )  # fmt: skip
    stop = schedule.first_batch + schedule.batches
    columns = (schedule.request, schedule.kind, schedule.first_batch, stop, schedule.tokens)
    good = known & ~idle
    if good.all():
        return columns
    request, kind, first, stop, tokens = (column[good] for column in columns)
    return request, kind, first, stop, tokens


def _play(
    at: State, kind: IntArray, first: IntArray, stop: IntArray, tokens: IntArray, log: Log
) -> None:
    """One run of each request in ``at``, from batch ``first`` to before ``stop``."""
    process = kind == Kind.PROCESS
    free = np.where(process, at.free_process, at.free)
    shared = np.minimum(stop, free) - first
    clash = np.flatnonzero(shared > 0)
    if clash.size:
        log.findings.add(
            "residency", "a second action in the same batch, batches: {excess}",
            excess=shared[clash], batch=first[clash], request=at.request[clash],
        )  # fmt: skip
    first = np.maximum(first, free)
    done = first < stop
    _note_holds(at, np.flatnonzero(done & (at.cached > 0) & (first > at.free)), first, log)
    at.free[done] = stop[done]
    at.free_process[done] = np.where(kind == Kind.SWAP_IN, stop - 1, stop)[done]
    if not process.all():
        moves = ((Kind.EVICT, evict), (Kind.SWAP_OUT, swap_out), (Kind.SWAP_IN, swap_in))
        for action, move in moves:
            row = np.flatnonzero(done & (kind == action))
            if row.size:
                move(at, row, first[row], log)
    row = np.flatnonzero(done & process)
    if row.size:
        process_run(at, row, first[row], (stop - first)[row], tokens[row], log)


def _note_holds(at: State, row: IntArray, stop: IntArray, log: Log) -> None:
    if row.size:
        log.holds.add(
            at.request[row], at.free[row], stop[row], at.called_batch[row], at.called[row]
        )


def _close(at: State, last_batch: int, log: Log) -> None:
    """After the last run: who is not done, and who waits until the end."""
    missing = at.output - at.generated
    short = np.flatnonzero(missing > 0)
    if short.size:
        log.findings.add(
            "completion", "generates {done} of its {output} tokens",
            excess=missing[short], request=at.request[short],
            done=at.generated[short], output=at.output[short],
        )  # fmt: skip
    stop = np.full(at.free.size, last_batch + 1, dtype=np.int64)
    _note_holds(at, np.flatnonzero((at.cached > 0) & (at.free < stop)), stop, log)
    note_gaps(at, np.arange(at.free.size), stop, log)
