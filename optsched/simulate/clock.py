"""The clock: how long batches take and when they start (problem, sections 4 and 5)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optsched.cost import CostModel
from optsched.errors import ScheduleError
from optsched.instance import Instance
from optsched.schedule import Schedule
from optsched.simulate.load import Loads, loads
from optsched.trace import Trace

FloatArray = NDArray[np.float64]


def durations(cost: CostModel, load: Loads) -> FloatArray:
    """Seconds that every batch takes, shape ``(batches,)``: the batch-time law over its loads."""
    decode = (
        cost.d0 * (load.decodes > 0) + cost.d_kv * load.decode_cached + cost.d_req * load.decodes
    )
    prefill = (
        cost.p0 * (load.prefills > 0)
        + cost.p_sq * load.prefill_square
        + cost.mixed * load.prefill_cross
        + cost.p_kv * load.prefill_cached
        + cost.p_req * load.prefills
    )
    times: FloatArray = (
        cost.token_time(load.tokens) + decode + prefill + cost.swap_tok * load.swapped_tokens
    )
    return times


def simulate(instance: Instance, schedule: Schedule) -> Trace:
    """Times of ``schedule`` when every batch starts as early as it may.

    A batch starts at the latest of the end of the batch before it, the arrivals and call returns
    of what it processes, and its own deliberate wait. So rules ``arrival`` and ``pause`` hold by
    construction.

    Raises
    ------
    ScheduleError
        As :func:`~optsched.simulate.load.loads`; or a wait is for a batch that does not exist.
    """
    load = loads(instance, schedule)
    start, end = _clock(load, durations(instance.cost, load), _earliest(instance, schedule, load))
    pause = np.zeros(len(instance))
    np.add.at(pause, load.call_request, load.call_duration_s)
    return Trace(
        source="simulated",
        start_s=start,
        end_s=end,
        first_token_s=end[load.first_token_batch - 1],
        finish_s=end[load.last_token_batch - 1],
        pause_s=pause,
    )


def _earliest(instance: Instance, schedule: Schedule, load: Loads) -> FloatArray:
    """The latest of arrivals and deliberate waits for every batch, shape ``(batches,)``.

    Starts never decrease, so the first batch that processes a request stands for all of them.
    """
    earliest = np.zeros(load.tokens.size)
    np.maximum.at(earliest, load.first_batch - 1, instance.release_s)
    beyond = schedule.wait_batch > load.tokens.size
    if beyond.any():
        raise ScheduleError(
            f"waits: batch {int(schedule.wait_batch[beyond][0])} does not exist, "
            f"expected a number from 1 to {load.tokens.size}"
        )
    np.maximum.at(earliest, schedule.wait_batch - 1, schedule.wait_until_s)
    return earliest


def _clock(
    load: Loads, duration_s: FloatArray, earliest_s: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Start and end of every batch; a call's return depends on ends, hence the loop."""
    returns: dict[int, list[tuple[int, float]]] = {}
    for caller, resume, wait_s in zip(
        load.call_batch.tolist(), load.resume_batch.tolist(), load.call_duration_s.tolist(),
        strict=True,
    ):  # fmt: skip
        returns.setdefault(resume - 1, []).append((caller - 1, wait_s))
    starts: list[float] = []
    ends: list[float] = []
    now = 0.0
    for j, (duration, earliest) in enumerate(
        zip(duration_s.tolist(), earliest_s.tolist(), strict=True)
    ):
        now = max(now, earliest)
        if j in returns:
            now = max(now, *(ends[caller] + wait_s for caller, wait_s in returns[j]))
        starts.append(now)
        now += duration
        ends.append(now)
    return np.array(starts), np.array(ends)
