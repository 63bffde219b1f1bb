"""The policies that are about requests; ``no-hybrid`` is about whole batches."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from optsched.check.history import Evictions, History, Holds, Resumptions, Splits, Swaps
from optsched.check.milestones import Milestones
from optsched.check.violation import POLICIES, Findings
from optsched.errors import UnknownNameError
from optsched.handling import HANDLINGS, handling_of, required_handling
from optsched.instance import Instance
from optsched.schedule import Schedule
from optsched.trace import Trace

IntArray = NDArray[np.int64]


def require_known(policies: Collection[str]) -> None:
    """Raise :class:`UnknownNameError` for the first policy that the checker does not know."""
    for policy in policies:
        if policy not in POLICIES and handling_of(policy) is None:
            raise UnknownNameError("policy", policy, POLICIES)


def check_policies(
    instance: Instance,
    schedule: Schedule,
    history: History,
    marks: Milestones,
    trace: Trace | None,
    policies: Collection[str],
    findings: Findings,
) -> None:
    """Those of ``policies`` that are about requests."""
    if "no-evict" in policies:
        _no_evict(history.evictions, findings)
    if "no-chunk" in policies:
        _no_split("no-chunk", history.splits, findings)
    if "no-hold" in policies:
        _no_pause(
            "no-hold", "resident but not processed, batches in a row: {excess}",
            history.holds, marks, trace, findings,
        )  # fmt: skip
    if "fcfs" in policies:
        _fcfs(instance, history.first_token, schedule.batch_count, findings)
    if "no-swap" in policies:
        _no_swap(history.swaps, findings)
    if "nonpreemptive" in policies:
        _no_split("nonpreemptive", history.splits, findings)
        _no_pause(
            "nonpreemptive", "begun but not processed, batches in a row: {excess}",
            history.gaps, marks, trace, findings,
        )  # fmt: skip
    _handling(required_handling(instance, policies), history.resumptions, findings)


def _handling(
    required: tuple[str | None, ...], resumptions: Resumptions, findings: Findings
) -> None:
    """Every call is handled as its request's policy says, if any batch gave the choice."""
    position = [-1 if name is None else HANDLINGS.index(name) for name in required]
    asked = np.array(position, dtype=np.int64)[resumptions.request]
    wrong = (asked >= 0) & (asked != resumptions.handling)
    wrong &= resumptions.batch > resumptions.made + 1
    for k, name in enumerate(HANDLINGS):
        row = np.flatnonzero(wrong & (asked == k))
        findings.add(
            name, "its call of batch {made} is handled by {other}",
            excess=np.ones(row.size, dtype=np.int64), batch=resumptions.batch[row],
            request=resumptions.request[row], made=resumptions.made[row],
            other=np.array(HANDLINGS)[resumptions.handling[row]],
        )  # fmt: skip


def _no_evict(evictions: Evictions, findings: Findings) -> None:
    """No eviction of anything."""
    findings.add(
        "no-evict", "evicted, {excess} tokens lost", excess=evictions.tokens,
        batch=evictions.batch, request=evictions.request,
    )  # fmt: skip


def _no_swap(swaps: Swaps, findings: Findings) -> None:
    """No KV copied to or from the host."""
    findings.add(
        "no-swap", "{excess} tokens swapped", excess=swaps.tokens, batch=swaps.batch,
        request=swaps.request,
    )  # fmt: skip


def _no_split(policy: str, splits: Splits, findings: Findings) -> None:
    """Every fill in one batch."""
    findings.add(
        policy, "a fill is split, {excess} of its tokens are left for later batches",
        excess=splits.left, batch=splits.batch, request=splits.request,
    )  # fmt: skip


def _fcfs(instance: Instance, first_token: IntArray, last: int, findings: Findings) -> None:
    """First tokens in arrival order: in the same batch as, or a later one than, those of all
    requests that arrived before; requests that arrive at the same time may overtake each other.
    """
    arrival = np.array([request.arrival_s for request in instance.requests])
    names = np.array([request.id for request in instance.requests])
    order = np.lexsort((names, arrival))
    comes = np.where(first_token > 0, first_token, last + 1)[order]
    before = np.searchsorted(arrival[order], arrival[order], side="left")
    # The latest first token so far, and who has it.
    latest = np.maximum.accumulate(comes)
    holder = np.maximum.accumulate(np.where(comes == latest, np.arange(comes.size), 0))
    ahead = np.flatnonzero((before > 0) & (latest[before - 1] > comes))
    overtaken = holder[before[ahead] - 1]
    findings.add(
        "fcfs", "its first token comes {excess} batches before that of {overtaken!r}, "
        "which arrived earlier",
        excess=comes[overtaken] - comes[ahead], batch=comes[ahead], request=order[ahead],
        overtaken=names[order[overtaken]],
    )  # fmt: skip


def _no_pause(
    policy: str,
    text: str,
    holds: Holds,
    marks: Milestones,
    trace: Trace | None,
    findings: Findings,
) -> None:
    """None of these stretches of batches, but for those in which the request pauses.

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
        policy, text,
        excess=(stop - first)[held], batch=first[held], request=holds.request[held],
    )  # fmt: skip
