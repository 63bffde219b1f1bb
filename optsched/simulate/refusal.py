"""Refusal of schedules that have no loads: those for which levels and tokens mean nothing.

Limits (KV cache, batch sizes, host memory) and times are the checker's business: a schedule that
only breaks those still has loads.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optsched.errors import ScheduleError
from optsched.instance import Instance
from optsched.schedule import Kind, Schedule

HINT = "`optsched check` lists every violation"


def refuse(
    bad: NDArray[np.bool_], instance: Instance, schedule: Schedule, rule: str, what: str
) -> None:
    """Raise :class:`ScheduleError` for the first run marked in ``bad``, shape ``(runs,)``."""
    if bad.any():
        at = int(np.argmax(bad))
        name = instance.requests[int(schedule.request[at])].id
        batch = int(schedule.first_batch[at])
        raise ScheduleError(f"{rule}: request {name!r}, batch {batch}: {what}", hint=HINT)


def require_known_requests(instance: Instance, schedule: Schedule) -> None:
    """Every run is of a request of the instance, and every request has a run."""
    runs = np.bincount(schedule.request[schedule.request < len(instance)], minlength=len(instance))
    if len(schedule) and schedule.request[-1] >= len(instance):
        raise ScheduleError(
            f"the schedule processes request number {int(schedule.request[-1])}, "
            f"expected numbers from 0 to {len(instance) - 1}",
            hint="was it made for another instance?",
        )
    if not runs.all():
        name = instance.requests[int(np.argmin(runs))].id
        raise ScheduleError(f"completion: request {name!r} is never processed", hint=HINT)


def require_sizes(instance: Instance, schedule: Schedule) -> None:
    """Sizes that later arithmetic can hold: no run beyond its request, no number of a batch
    beyond the number of batches that process something."""
    process = schedule.kind == Kind.PROCESS
    refuse(
        process & (schedule.tokens < 1), instance, schedule,
        "progress", "processes 0 tokens, expected at least 1",
    )  # fmt: skip
    room = instance.final_tokens[schedule.request] // np.maximum(schedule.tokens, 1)
    refuse(
        process & (schedule.batches > room), instance, schedule,
        "progress", "the run processes more tokens than the request ever has",
    )  # fmt: skip
    most = int(schedule.batches[process].sum())
    refuse(
        schedule.first_batch > most, instance, schedule,
        "progress", f"a batch before it processes nothing (at most {most} process something)",
    )  # fmt: skip


def require_one_action(instance: Instance, schedule: Schedule) -> None:
    """One action per request and batch, but for a swap in that also processes; and nothing but a
    swap in or an evict after a swap out."""
    first, kind = schedule.first_batch, schedule.kind
    same = schedule.request[1:] == schedule.request[:-1]
    together = (kind[:-1] == Kind.SWAP_IN) & (kind[1:] == Kind.PROCESS) & (first[1:] == first[:-1])
    overlap = same & ~together & (first[1:] < first[:-1] + schedule.batches[:-1])
    refuse(
        np.concatenate(([False], overlap)), instance, schedule,
        "residency", "two actions at once, expected one (or swap_in with process)",
    )  # fmt: skip
    away = np.concatenate(([False], same & (kind[:-1] == Kind.SWAP_OUT)))
    refuse(
        away & ((kind == Kind.PROCESS) | (kind == Kind.SWAP_OUT)), instance, schedule,
        "residency", "its KV is in host memory, expected swap_in or evict first",
    )  # fmt: skip
    refuse(
        ~away & (kind == Kind.SWAP_IN), instance, schedule,
        "residency", "swap_in of a request that is not swapped out",
    )  # fmt: skip
