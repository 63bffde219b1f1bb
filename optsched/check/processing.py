"""Process runs: what they fill and generate.

A run falls into stretches of one step type, between which the state of problem.md section 2
changes its course: the chunks that leave a fill unfinished, the step that completes it, and
decodes until the next call or the end. Over a stretch the cached tokens grow linearly.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optsched.check.residency import bring_back
from optsched.check.state import Log, State
from optsched.handling import HANDLINGS

IntArray = NDArray[np.int64]


def process_run(
    at: State, row: IntArray, batch: IntArray, left: IntArray, tokens: IntArray, log: Log
) -> None:
    """Process runs: ``left`` batches of ``tokens`` tokens from ``batch`` for each state in ``row``.

    Every turn of the loop plays one stretch of each run. A run has at most three for each of its
    request's milestones, so the loop ends after few turns whatever the schedule.
    """
    bring_back(at, row, batch, log)
    note_gaps(at, row, batch, log)
    at.processed[row] = batch + left
    told = np.zeros(row.size, dtype=bool)
    while row.size:
        past = at.generated[row] == at.output[row]
        if past.any():
            log.findings.add(
                "completion", "processed after it finished, batches: {excess}",
                excess=left[past], batch=batch[past], request=at.request[row[past]],
            )  # fmt: skip
            row, batch, left, tokens, told = (x[~past] for x in (row, batch, left, tokens, told))
        request, known, cached = at.request[row], at.known[row], at.cached[row]
        gap = known - cached
        beyond = (tokens > gap) & ~told
        if beyond.any():
            log.findings.add(
                "progress", "processes {tokens} tokens where {gap} are left to process",
                excess=(tokens - gap)[beyond], batch=batch[beyond], request=request[beyond],
                tokens=tokens[beyond], gap=gap[beyond],
            )  # fmt: skip
            told |= beyond
        partial = tokens < gap
        decode = (gap == 1) & (cached >= at.prompt[row])
        until_goal = np.where(decode, at.goal[row] - at.generated[row], 1)
        batches = np.minimum(np.where(partial, (gap - 1) // tokens, until_goal), left)
        take = np.minimum(tokens, gap)
        log.steps.add(request, batch, batches, take, cached, decode)
        _note_resumptions(at, row, batch, log)
        split = partial & (at.filling[row] == 0)
        if split.any():
            log.splits.add(request[split], batch[split], (gap - tokens)[split])
        at.filling[row] = partial
        at.cached[row] = cached + take * batches
        born = np.where(partial, 0, batches)
        begins = (born > 0) & (at.generated[row] == 0)
        log.first_token[request[begins]] = batch[begins]
        at.known[row] = known + born
        at.generated[row] += born
        batch, left = batch + batches, left - batches
        reached = np.flatnonzero(at.generated[row] == at.goal[row])
        if reached.size:
            _reach(at, row[reached], batch[reached] - 1, log)
        more = left > 0
        row, batch, left, tokens, told = (x[more] for x in (row, batch, left, tokens, told))


def note_gaps(at: State, row: IntArray, stop: IntArray, log: Log) -> None:
    """Batches before ``stop`` since those that processed the states in ``row``, if unfinished."""
    begun = (at.processed[row] > 0) & (at.generated[row] < at.output[row])
    gap = np.flatnonzero(begun & (at.processed[row] < stop))
    row = row[gap]
    if row.size:
        log.gaps.add(
            at.request[row], at.processed[row], stop[gap], at.called_batch[row], at.called[row]
        )


def _note_resumptions(at: State, row: IntArray, batch: IntArray, log: Log) -> None:
    resumed = np.flatnonzero(at.called[row] >= 0)
    if resumed.size:
        back = row[resumed]
        log.resumptions.add(
            at.request[back], at.called_batch[back], at.called[back], batch[resumed],
            at.handling[back],
        )  # fmt: skip
        at.called[back] = -1


def _reach(at: State, row: IntArray, batch: IntArray, log: Log) -> None:
    """States in ``row`` reach their milestone in ``batch``: they end, or they make their call."""
    ends = at.generated[row] == at.output[row]
    end, call = row[ends], row[~ends]
    if end.size:
        log.move(batch[ends], -at.cached[end], np.zeros(end.size, dtype=np.int64), later=1)
        at.cached[end] = 0
    if call.size:
        mark = at.milestone[call]
        at.known[call] += log.marks.response[mark]
        at.called[call] = mark
        at.called_batch[call] = batch[~ends]
        at.handling[call] = HANDLINGS.index("preserve")
        at.milestone[call] = mark + 1
        at.goal[call] = log.marks.after[mark + 1]
