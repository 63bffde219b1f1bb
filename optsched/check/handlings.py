"""How a schedule handles the KV of every call."""

from __future__ import annotations

from optsched.check.lifecycle import follow
from optsched.check.milestones import milestones
from optsched.check.violation import Findings
from optsched.handling import HANDLINGS, HandledCall
from optsched.instance import Instance
from optsched.schedule import Schedule


def handlings(instance: Instance, schedule: Schedule) -> tuple[HandledCall, ...]:
    """The calls that ``schedule`` makes and resumes from, by request and then in order."""
    marks = milestones(instance)
    ids = [request.id for request in instance.requests]
    resumed = follow(instance, schedule, marks, Findings(ids)).resumptions
    rows = zip(
        resumed.request.tolist(), marks.after[resumed.call].tolist(), resumed.made.tolist(),
        resumed.batch.tolist(), resumed.handling.tolist(), strict=True,
    )  # fmt: skip
    return tuple(
        HandledCall(
            request=ids[i], after_tokens=after, batch=made, resumed=batch,
            handling=HANDLINGS[handling],
        )
        for i, after, made, batch, handling in sorted(rows)
    )  # fmt: skip
