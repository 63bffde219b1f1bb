"""The checker's two entry points."""

from __future__ import annotations

from collections.abc import Collection

from optsched.check.batches import check_batches
from optsched.check.lifecycle import follow
from optsched.check.milestones import milestones
from optsched.check.policies import check_policies, require_known
from optsched.check.times import check_times
from optsched.check.violation import Findings, Violation
from optsched.errors import ScheduleError
from optsched.instance import Instance
from optsched.schedule import Schedule
from optsched.trace import Trace

_SHOWN = 3


def check(
    instance: Instance,
    schedule: Schedule,
    trace: Trace | None = None,
    policies: Collection[str] = (),
) -> tuple[Violation, ...]:
    """Every violation of the rules of ``docs/problem.md`` section 3, and of the policies given.

    Parameters
    ----------
    instance : Instance
    schedule : Schedule
        May be broken in any way that the record allows.
    trace : Trace, optional
        Times of the batches; without them ``arrival``, ``pause`` and ``clock`` are not checked.
    policies : collection of str, optional
        Of :data:`~optsched.check.violation.POLICIES`.

    Returns
    -------
    tuple of Violation
        By batch, rule and request; empty for a valid schedule.

    Raises
    ------
    UnknownNameError
        A policy that the checker does not know.
    """
    require_known(policies)
    findings = Findings([request.id for request in instance.requests])
    marks = milestones(instance)
    history = follow(instance, schedule, marks, findings)
    check_batches(instance, history, schedule.batch_count, "no-hybrid" in policies, findings)
    if trace is not None:
        check_times(instance, schedule, history, marks, trace, findings)
    check_policies(instance, schedule, history, marks, trace, policies, findings)
    return findings.violations()


def require_valid(
    instance: Instance,
    schedule: Schedule,
    trace: Trace | None = None,
    policies: Collection[str] = (),
) -> None:
    """Raise :class:`ScheduleError` naming the first violations if :func:`check` finds any.

    Raises
    ------
    ScheduleError
        The schedule or the trace breaks a rule or a policy.
    UnknownNameError
        A policy that the checker does not know.
    """
    violations = check(instance, schedule, trace, policies)
    if not violations:
        return
    number = "1 violation" if len(violations) == 1 else f"{len(violations)} violations"
    shown = "; ".join(violation.message for violation in violations[:_SHOWN])
    more = f"; and {len(violations) - _SHOWN} more" if len(violations) > _SHOWN else ""
    raise ScheduleError(
        f"the schedule breaks the rules of instance {instance.name!r}, {number}: {shown}{more}"
    )
