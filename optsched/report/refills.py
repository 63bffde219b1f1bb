"""What every run repeats of work that was done before an eviction."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optsched.cost import CostModel
from optsched.errors import UnsupportedError
from optsched.instance import Instance
from optsched.schedule import Kind, Schedule
from optsched.simulate.calls import call_table
from optsched.simulate.levels import Levels, run_levels

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class ProcessRuns:
    """The process runs of a schedule, in its order; arrays of shape ``(process runs,)``.

    Parameters
    ----------
    request, first, batches, tokens : int arrays
        As in the schedule; ``first`` counts from 0.
    before, frontier : int arrays
        Tokens cached before the run, and the most that the request ever had cached before it.
    repeated : int array
        Tokens below the frontier that the run processes again.
    """

    request: IntArray
    first: IntArray
    batches: IntArray
    tokens: IntArray
    before: IntArray
    frontier: IntArray
    repeated: IntArray


def process_runs(instance: Instance, schedule: Schedule) -> ProcessRuns:
    """Process runs with what they repeat.

    Raises
    ------
    UnsupportedError
        A request makes calls.
    """
    if instance.has_calls:
        raise UnsupportedError("the gap of requests with calls is not explained yet")
    levels: Levels = run_levels(instance, schedule, call_table(instance))
    of = np.flatnonzero(schedule.kind == Kind.PROCESS)
    before, frontier = levels.before[of], levels.frontier[of]
    repeated = np.maximum(np.minimum(levels.after[of], frontier) - before, 0)
    return ProcessRuns(
        request=schedule.request[of], first=schedule.first_batch[of] - 1,
        batches=schedule.batches[of], tokens=schedule.tokens[of],
        before=before, frontier=frontier, repeated=repeated,
    )  # fmt: skip


def repeated_tokens(runs: ProcessRuns, size: int) -> IntArray:
    """Repeated tokens in every batch, shape ``(size,)``.

    A run of c tokens per batch repeats c in each of its first floor(repeated / c) batches and the
    rest in the next one.
    """
    again = np.flatnonzero(runs.repeated)
    first, tokens = runs.first[again], runs.tokens[again]
    whole, rest = np.divmod(runs.repeated[again], tokens)
    marks = np.zeros(size + 2, dtype=np.int64)
    np.add.at(marks, first, tokens)
    np.subtract.at(marks, first + whole, tokens)
    np.add.at(marks, first + whole, rest)
    np.subtract.at(marks, first + whole + 1, rest)
    return np.cumsum(marks)[:size]


def prefill_attention(
    cost: CostModel, tokens: IntArray, before: IntArray, steps: IntArray
) -> FloatArray:
    """Attention of the first ``steps`` steps of runs of ``tokens`` per batch, as prefill steps.

    sum over t < L of p_sq c^2 + p_mc m c + p_kv m + p_req with m = before + c t.
    """
    c, m, count = (np.asarray(a, dtype=np.float64) for a in (tokens, before, steps))
    cached = count * m + c * count * (count - 1) / 2
    attention: FloatArray = (
        count * (cost.p_sq * c * c + cost.p_req) + (cost.mixed * c + cost.p_kv) * cached
    )
    return attention
