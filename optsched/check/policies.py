"""Policies ``no-evict``, ``no-chunk`` and ``no-hold``; ``no-hybrid`` is about whole batches."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from optsched.check.history import Evictions, Holds, Splits
from optsched.check.milestones import Milestones
from optsched.check.violation import POLICIES, Findings
from optsched.errors import UnknownNameError
from optsched.trace import Trace


def require_known(policies: Collection[str]) -> None:
    """Raise :class:`UnknownNameError` for the first policy that the checker does not know."""
    for policy in policies:
        if policy not in POLICIES:
            raise UnknownNameError("policy", policy, POLICIES)


def check_no_evict(evictions: Evictions, findings: Findings) -> None:
    """No eviction of anything."""
    findings.add(
        "no-evict", "evicted, {excess} tokens lost", excess=evictions.tokens,
        batch=evictions.batch, request=evictions.request,
    )  # fmt: skip


def check_no_chunk(splits: Splits, findings: Findings) -> None:
    """Every fill in one batch."""
    findings.add(
        "no-chunk", "a fill is split, {excess} of its tokens are left for later batches",
        excess=splits.left, batch=splits.batch, request=splits.request,
    )  # fmt: skip


def check_no_hold(holds: Holds, marks: Milestones, trace: Trace | None, findings: Findings) -> None:
    """A resident, unpaused request is processed in every batch.

    A request pauses from a call that takes time until it is next processed, or, where a trace
    tells when the call returns, until the first batch that starts then.
    """
    first, stop = holds.first, holds.stop
    paused = (holds.call >= 0) & (marks.duration_s[holds.call] > 0)
    if trace is None:
        first = np.where(paused, stop, first)
    else:
        timed = np.flatnonzero(paused & (holds.made <= trace.start_s.size))
        returned = trace.end_s[holds.made[timed] - 1] + marks.duration_s[holds.call[timed]]
        # Starts that go back break `clock`; their running maximum is a time all the same.
        clock = np.maximum.accumulate(trace.start_s)
        resumes = np.searchsorted(clock, returned) + 1
        resumes = np.where(resumes > clock.size, stop[timed], resumes)
        first = np.where(paused, stop, first)
        first[timed] = np.maximum(holds.first[timed], resumes)
    held = np.flatnonzero(first < stop)
    findings.add(
        "no-hold", "resident but not processed, batches in a row: {excess}",
        excess=(stop - first)[held], batch=first[held], request=holds.request[held],
    )  # fmt: skip
