"""The stage that sets labels instead of solving a program."""

from __future__ import annotations

import math
import time

from optsched.errors import InfeasibleError, UnsupportedError
from optsched.labels import Found
from optsched.labels import search as set_labels
from optsched.solve.candidate import assess
from optsched.solve.plan import Stage
from optsched.solve.program import known_to
from optsched.solve.search import Search
from optsched.solvers.outcome import Outcome


def run_labels(search: Search, stage: Stage, time_limit_s: float) -> Outcome | None:
    """Add to ``search`` what label setting finds and proves; there is no solver's outcome."""
    begin = time.monotonic()
    if search.options.subject_to:
        # Labels are compared by one objective.
        search.record(
            stage.name, begin, scope=stage.scope, termination="skipped",
            note="it keeps no limits on other objectives",
        )  # fmt: skip
        return None
    cutoff = min((value for value, _ in known_to(search, stage)), default=math.inf)
    try:
        found = set_labels(
            search.instance, search.objective, policies=search.policies, cutoff=cutoff,
            time_limit_s=time_limit_s, report=search.tell,
        )  # fmt: skip
    except (UnsupportedError, InfeasibleError) as error:
        # Infeasible without chunks alone: what no schedule can do is refused before.
        ended = "infeasible" if isinstance(error, InfeasibleError) else "skipped"
        search.record(stage.name, begin, scope=stage.scope, termination=ended, note=error.message)
        return None
    value = None
    if found.schedule is not None:
        candidate = assess(search.instance, found.schedule, stage.name)
        value = candidate.values[search.objective]
        search.offer(candidate)
    if stage.scope == search.scope:
        if math.isfinite(found.bound):
            search.prove(found.bound, stage.name)
        else:
            search.infeasible = True
    search.record(
        stage.name, begin, scope=stage.scope, value=value,
        bound=found.bound if math.isfinite(found.bound) else None,
        termination=_ended(found), note=f"{found.labels} labels",
    )  # fmt: skip
    if found.interrupted:
        raise KeyboardInterrupt
    return None


def _ended(found: Found) -> str:
    if found.interrupted:
        return "interrupted"
    return "finished" if found.proven else "time-limit"
