"""Rules about times: ``arrival``, ``pause`` and ``clock``, on a trace."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optsched.check.history import History
from optsched.check.milestones import Milestones
from optsched.check.violation import Findings
from optsched.instance import Instance
from optsched.schedule import Schedule
from optsched.trace import Trace

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
_TOLERANCE = 1e-9  # relative to the largest time, at least to 1 s


def check_times(
    instance: Instance,
    schedule: Schedule,
    history: History,
    marks: Milestones,
    trace: Trace,
    findings: Findings,
) -> None:
    """``arrival``, ``pause`` and ``clock``; batches that the trace lacks are not looked at."""
    start, end = trace.start_s, trace.end_s
    scale = float(np.abs(np.concatenate((start, end))).max(initial=1.0))
    slack = _TOLERANCE * scale
    _check_clock(schedule, trace, slack, findings)

    steps = history.steps
    never = np.iinfo(np.int64).max
    first = np.full(len(instance), never)
    np.minimum.at(first, steps.request, steps.first)
    request = np.flatnonzero(first <= start.size)
    _check_after(
        "arrival", "starts {excess:.9g} s before the request arrives", start, first[request],
        instance.release_s[request], request, slack, findings,
    )  # fmt: skip

    calls = history.resumptions
    timed = calls.batch <= start.size
    returned = end[calls.made[timed] - 1] + marks.duration_s[calls.call[timed]]
    _check_after(
        "pause", "starts {excess:.9g} s before its call returns", start, calls.batch[timed],
        returned, calls.request[timed], slack, findings,
    )  # fmt: skip


def _check_after(
    rule: str,
    text: str,
    start: FloatArray,
    batch: IntArray,
    time_s: FloatArray,
    request: IntArray,
    slack: float,
    findings: Findings,
) -> None:
    """Each ``batch`` starts at or after the time beside it."""
    early = time_s - start[batch - 1]
    bad = early > slack
    if bad.any():
        findings.add(rule, text, excess=early[bad], batch=batch[bad], request=request[bad])


def _check_clock(schedule: Schedule, trace: Trace, slack: float, findings: Findings) -> None:
    start, end, batches = trace.start_s, trace.end_s, schedule.batch_count
    if start.size != batches:
        findings.add(
            "clock", "the trace has {timed} batches, the schedule {planned}",
            excess=np.array([abs(start.size - batches)]),
            timed=np.array([start.size]), planned=np.array([batches]),
        )  # fmt: skip
    waited = schedule.wait_batch <= start.size
    waiting, until = schedule.wait_batch[waited], schedule.wait_until_s[waited]
    for text, early, batch in (
        ("ends {excess:.9g} s before it starts", start - end, np.arange(1, start.size + 1)),
        (
            "starts {excess:.9g} s before the batch before it ends",
            end[:-1] - start[1:], np.arange(2, start.size + 1),
        ),
        ("starts {excess:.9g} s before its own not_before_s", until - start[waiting - 1], waiting),
    ):  # fmt: skip
        bad = early > slack
        if bad.any():
            findings.add("clock", text, excess=early[bad], batch=batch[bad])
