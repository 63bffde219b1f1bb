"""Columns of the clock of the network with calls: starts, ends, and what objectives make of them.

Batches are numbered, not placed between arrivals, because the machine may be idle before any of
them: S_j and E_j are the start and end of batch j, and all that follows the last batch has its
end. Times of columns are in microseconds.

    made_igj    1 if request i has its token g after batch j; only for the g that rows ask for
    spent_ij    time that the steps of request i up to batch j take by themselves, in batches of
                their own; only for requests that arrive late or make calls
    passed_i    end of the batch that finishes request i, or that has its first token
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optsched.instance import Instance
from optsched.model.calls_network_arcs import Arcs
from optsched.model.calls_network_stages import Stages
from optsched.model.network_clock import MICROSECONDS
from optsched.model.network_columns import Allocation, Columns
from optsched.objective import Objective

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

_SLACK = 1e-9  # relative, and in seconds: no rounding puts a schedule outside the bounds
_OF_ENDS = frozenset({Objective.MEAN_LATENCY, Objective.MAX_LATENCY})


@dataclass(frozen=True, kw_only=True, eq=False)
class Clock:
    """Columns of the clock; groups that the program does not need are empty.

    Parameters
    ----------
    latest_s : float array, shape ``(batches,)``
        By when each batch ends, seconds.
    start, end : Columns, shape ``(batches,)``
    made : Columns, shape ``(pairs, batches)``
        ``row_of_token`` says which row is that of (request, g).
    spent : Columns, shape ``(chained, batches)``
        ``chained`` are positions of requests.
    passed : dict of Columns, shape ``(requests,)``
        By whether the milestone is the first token.
    longest : Columns, shape ``(1,)``
        The max latency; only where it is not the makespan.
    met : Columns, shape ``(requests,)``
        1 if the request meets its objectives; only for goodput.
    """

    latest_s: FloatArray
    start: Columns
    end: Columns
    made: Columns
    row_of_token: Mapping[tuple[int, int], int]
    chained: IntArray
    spent: Columns
    passed: Mapping[bool, Columns]
    longest: Columns
    met: Columns

    def made_by(self, request: int, token: int) -> IntArray:
        """Column numbers of "request i has its token g after batch j", shape ``(batches,)``."""
        numbers: IntArray = self.made.numbers[self.row_of_token[request, token]]
        return numbers


def clock_columns(
    instance: Instance, stages: Sequence[Stages], arcs: Arcs, last_batches: Sequence[IntArray],
    batches: int, new: Allocation, *,
    latest_s: float, objectives: Collection[Objective], policies: Collection[str],
    twins: Collection[int],
) -> Clock:  # fmt: skip
    """The columns that these objectives and policies need. ``twins`` are requests whose first
    tokens have to be in an order, and no schedule that matters ends after ``latest_s``."""
    requests, release = len(instance), instance.release_s
    longest = Objective.MAX_LATENCY in objectives and not instance.offline
    kinds = [
        first for first, needed in (
            (True, Objective.MEAN_TTFT in objectives),
            (False, Objective.MEAN_LATENCY in objectives or longest),
        ) if needed
    ]  # fmt: skip
    judged = Objective.GOODPUT in objectives
    chained = np.array(
        [i for i in range(requests) if False in kinds or stages[i].calls or release[i] > 0],
        dtype=np.int64,
    )
    pairs = {(i, g + d) for i, each in enumerate(stages) for g in each.calls for d in (0, 1)}
    firsts = set(np.flatnonzero(release > 0).tolist()) | set(twins)
    if "fcfs" in policies or True in kinds:
        firsts = set(range(requests))
    pairs |= {(int(i), 1) for i in firsts}
    if False in kinds:
        pairs |= {(i, len(each)) for i, each in enumerate(stages)}
    tokens = sorted(pairs)
    low, high = _certain(tokens, last_batches, batches)
    latest = np.minimum(_latest_ends_s(instance, stages, arcs, batches), latest_s)
    latest = latest * (1 + _SLACK) + _SLACK
    final = MICROSECONDS * float(latest[-1])
    return Clock(
        latest_s=latest,
        start=new.add("start_us", batches, upper=MICROSECONDS * latest),
        end=new.add("end_us", batches, upper=MICROSECONDS * latest),
        made=new.add("made", (len(tokens), batches), lower=low, upper=high),
        row_of_token={token: row for row, token in enumerate(tokens)},
        chained=chained,
        spent=new.add("spent_us", (chained.size, batches), upper=final),
        passed={
            first: new.add("first_us" if first else "end_of_us", requests, upper=final)
            for first in kinds
        },
        longest=new.add("longest_us", 1 if longest else 0, upper=final),
        met=new.add("met", requests if judged else 0, upper=1.0, integer=True),
    )  # fmt: skip


def _certain(
    tokens: Sequence[tuple[int, int]], last_batches: Sequence[IntArray], batches: int
) -> tuple[FloatArray, FloatArray]:
    """Bounds of ``made``: token g is there after batch g at the earliest, and after the last one
    in which it can come."""
    batch = np.arange(1, batches + 1)
    low, high = np.zeros((len(tokens), batches)), np.zeros((len(tokens), batches))
    for row, (i, g) in enumerate(tokens):
        high[row] = batch >= g
        low[row] = batch >= last_batches[i][g - 1]
    return low, high


def _latest_ends_s(
    instance: Instance, stages: Sequence[Stages], arcs: Arcs, batches: int
) -> FloatArray:
    """By when every batch ends if none waits deliberately, seconds; shape ``(batches,)``.

    While the machine is idle either a request that it waits for has not arrived or is in a pause,
    so it is idle for at most the last arrival and all pauses together.
    """
    cost = instance.cost
    seconds, tokens = np.zeros((2, len(instance), batches))
    at = arcs.request, arcs.batch - 1
    np.maximum.at(seconds, at, arcs.attention_s)
    np.maximum.at(tokens, at, arcs.tokens.astype(np.float64))
    longest = cost.token_time(np.maximum(tokens.sum(axis=0), 1.0)) + seconds.sum(axis=0)
    # Batches up to the j-th of a schedule that uses all of them; beyond its last nothing ends.
    idle = float(instance.release_s.max()) + float(sum(each.pause_s.sum() for each in stages))
    latest: FloatArray = idle + np.cumsum(longest + cost.d0 + cost.p0)
    return latest
