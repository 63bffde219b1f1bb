"""The columns that carry times, for the objectives of the clock and for arrivals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from optsched.instance import Instance
from optsched.model.compact_clock import (
    AFTER_FIRST,
    UNTIL_FINISH,
    UNTIL_FIRST,
    Clock,
    Goal,
)
from optsched.model.compact_table import Table
from optsched.objective import Objective


def add_clock(
    table: Table,
    instance: Instance,
    batches: int,
    policies: Sequence[str],
    goal: Goal,
    clock: Clock,
) -> None:
    """Times, in units of ``clock.unit_s``, and what decides them.

    Notes
    -----
    Per boundary: ``end`` (of the batch before it; 0 first). Per arrival k after 0 and batch:
    ``arrived`` (a request that arrives then or later is processed in this batch or was before).
    Per request and boundary: ``begun`` (has its first token). Per request and batch, of each
    phase of :class:`~optsched.model.compact_clock.Clock` that is needed: the time from the end of
    the batch before to the end of this one if the request is in that phase, else 0. Per request:
    ``misses`` (some service-level objective). Once: ``worst`` (the largest latency). Per arrival
    before which time is skipped and request, ``{phase}_skips`` (is in the phase meanwhile, and
    charged for it).

    Where times must be exact, per batch: ``at_once`` (starts at the end of the batch before, not
    at an arrival), and ``piece`` (affine piece that is the largest).
    """
    n, J, unit = len(instance), batches, clock.unit_s
    latest = clock.latest_s / unit
    boundary = np.arange(J + 1)
    makespan = unit * (boundary == J) if goal.objective is Objective.MAKESPAN else 0.0
    table.add("end", (J + 1,), upper=latest * (boundary > 0), cost=makespan, integer=False)
    if clock.arrivals_s.size:
        table.add("arrived", (clock.arrivals_s.size, J), integer=False)
    first, after = clock.phases[UNTIL_FIRST], clock.phases[AFTER_FIRST]
    if first.any() or after.any() or ("fcfs" in policies and not instance.offline):
        fill = -(-instance.prompt_tokens[:, None] // instance.limits.fill_tokens)
        output = instance.output_tokens[:, None]
        late = J - boundary < output  # O - 1 further tokens take a batch each
        table.add("begun", (n, J + 1), lower=late, upper=boundary >= fill)
    each = {Objective.MEAN_LATENCY: UNTIL_FINISH, Objective.MEAN_TTFT: UNTIL_FIRST}
    for name, which in clock.phases.items():
        if which.any():
            mean = unit / n if each.get(goal.objective) == name else 0.0
            table.add(
                name, (n, J), upper=clock.longest_s / unit, cost=mean, integer=False,
                where=which[:, None],
            )  # fmt: skip
            charged = clock.skips.charged[name]
            if charged.any():
                price = clock.skips.skipped_s[:, None] / n if mean else 0.0
                table.add(f"{name}_skips", charged.shape, cost=price, where=charged)
    if goal.objective in each:
        table.offset = -float(clock.release_s.mean())
    elif goal.objective is Objective.MAKESPAN:
        table.offset = float(clock.skips.skipped_s.sum())
    if Objective.MAX_LATENCY in goal.objectives:
        worst = unit if goal.objective is Objective.MAX_LATENCY else 0.0
        most = latest[-1] + clock.skips.skipped_s.sum() / unit
        table.add("worst", (1,), upper=most, cost=worst, integer=False)
    if Objective.GOODPUT in goal.objectives:
        limited = np.any(list(clock.phases.values()), axis=0)
        weight = instance.weights
        counts = goal.objective is Objective.GOODPUT
        table.add("misses", (n,), upper=limited, cost=weight if counts else 0.0)
    if clock.exact:
        table.add("at_once", (J,))
        if len(instance.cost.pieces) > 1:
            table.add("piece", (len(instance.cost.pieces), J))
