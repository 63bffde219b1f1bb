"""Result of a solve: why it stopped, what it found and what is proven, as three separate facts.

"Optimal" is never stored: it is computed from value, bound and scope.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from optsched.errors import ContradictionError
from optsched.handling import HandledCall
from optsched.objective import Objective
from optsched.schedule import Schedule

OPTIMAL_GAP = 1e-7  # relative: back ends do not compute more exactly
_ROUNDING = 1e-7
ALL_SCHEDULES = "all schedules"
UNCHUNKED = "unchunked schedules"


def relative_gap(
    value: float | None, bound: float | None, objective: Objective = Objective.MAKESPAN
) -> float | None:
    """(value - bound) / bound for a minimisation, (bound - value) / value for a maximisation.

    None if either is unknown or what it is relative to is 0, unless they are equal.

    Raises
    ------
    ContradictionError
        The value is beyond the bound by more than rounding.
    """
    if value is None or bound is None:
        return None
    low, high = (value, bound) if objective.maximised else (bound, value)
    if high < low * (1 - _ROUNDING):
        raise ContradictionError(
            f"a checked schedule has {objective.value} {value!r}, but the bound is {bound!r}",
            hint="one of them is wrong: please report the instance",
        )
    if low <= 0:
        return 0.0 if high == low else None
    return max(0.0, (high - low) / low)


class Step(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One method that ``solve`` tried and what it contributed.

    ``scope`` is the class of schedules that its bound holds for.
    """

    method: str
    scope: str
    value: float | None
    bound: float | None
    termination: str
    wall_s: float
    note: str = ""


class Target(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Is there a schedule at most (for goodput: at least) this good?

    Parameters
    ----------
    asked : str
        As it was asked, e.g. ``0.9*sarathi``.
    value : float
        What that is, in the objective's unit.
    answer : str
        ``yes`` (the result's schedule), ``no`` (its bound) or ``unknown``.
    """

    asked: str
    value: float
    answer: str


class Tie(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The second objective, over the schedules that are as good as ``Result.value``."""

    objective: str
    value: float | None
    bound: float | None
    proof: str | None

    @property
    def gap(self) -> float | None:
        """See :func:`relative_gap`."""
        return relative_gap(self.value, self.bound, Objective(self.objective))


class Conflict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What makes a target unreachable.

    Parameters
    ----------
    rules : tuple of str
        Limits, policies and other objectives that are limited, without which it is not proven
        unreachable.
    requests : tuple of str
        Ids of the requests that it is unreachable with; for goodput those whose objectives cannot
        be met together. Empty where they were not told apart.
    relaxed_target : float or None
        The bound: no schedule is better, so the target must be at least (goodput: at most) this.
        None if no target can be reached, because the limits on other objectives cannot be kept.
    slo_factor : float or None
        For goodput: if all SLOs of ``requests`` were this many times as long they could be met
        together under all rules, as far as a search within a percent could tell.
    irreducible : bool
        Whether leaving out any one of the rules and requests was tried to the end.
    """

    rules: tuple[str, ...]
    requests: tuple[str, ...]
    relaxed_target: float | None
    slo_factor: float | None
    irreducible: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """What ``optsched solve`` returns and writes.

    Parameters
    ----------
    instance, digest : str
        Name and digest of the instance.
    objective : str
        What was minimised, or for ``goodput`` maximised.
    value : float or None
        Objective of ``schedule``, checked and re-timed.
    bound : float or None
        Proven lower (``goodput``: upper) bound over the schedules of ``scope``.
    proof : str or None
        Name of what proves the bound.
    scope : str
        The class of schedules that ``bound`` holds for, and why that loses nothing if so.
    policies : tuple of str
        Restrictions that the schedules had to obey.
    termination : str
        finished, gap-reached, time-limit, interrupted, infeasible or failed.
    formulation, reason : str or None
        The formulation that was solved and why it was chosen.
    steps : tuple of Step
        All that was tried, in order.
    certified : bool
        Whether a certificate was written.
    target : Target or None
        The question that was asked, if one was, and its answer.
    conflict : Conflict or None
        Why the target is out of reach, if it is.
    tie : Tie or None
        The second objective, if one was asked for.
    handling : tuple of HandledCall
        What the schedule does with the KV of each call.
    """

    instance: str
    digest: str
    objective: str
    value: float | None
    bound: float | None
    proof: str | None
    scope: str
    policies: tuple[str, ...]
    termination: str
    wall_s: float
    formulation: str | None = None
    reason: str | None = None
    solver: str | None = None
    schedule: Schedule | None = None
    found_by: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()
    certified: bool = False
    target: Target | None = None
    conflict: Conflict | None = None
    tie: Tie | None = None
    handling: tuple[HandledCall, ...] = ()

    @property
    def gap(self) -> float | None:
        """See :func:`relative_gap`."""
        return relative_gap(self.value, self.bound, Objective(self.objective))

    @property
    def optimal(self) -> bool:
        """Whether the schedule is proven optimal within ``scope``."""
        return self.gap is not None and self.gap <= OPTIMAL_GAP

    @property
    def interrupted(self) -> bool:
        """Whether somebody asked to stop on the way, whatever was proven by then."""
        return any(step.termination == "interrupted" for step in self.steps)

    @property
    def unchunked(self) -> Step | None:
        """What was proven of unchunked schedules alone: the step that proved most of them."""
        goal = Objective(self.objective)
        steps = [step for step in self.steps if step.scope == UNCHUNKED and step.bound is not None]
        return max(steps, key=lambda step: goal.loss(step.bound or 0.0), default=None)
