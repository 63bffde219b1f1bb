"""Result of a solve: why it stopped, what it found and what is proven, as three separate facts.

"Optimal" is never stored: it is computed from value, bound and scope.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from optsched.errors import ContradictionError
from optsched.schedule import Schedule

OPTIMAL_GAP = 1e-7  # relative: back ends do not compute more exactly
_ROUNDING = 1e-7
ALL_SCHEDULES = "all schedules"


def relative_gap(value: float | None, bound: float | None) -> float | None:
    """(value - bound) / bound for a minimisation; None if either is unknown.

    Raises
    ------
    ContradictionError
        The value is below the bound by more than rounding.
    """
    if value is None or bound is None or bound <= 0:
        return None
    if value < bound * (1 - _ROUNDING):
        raise ContradictionError(
            f"a checked schedule takes {value!r} s, but the bound is {bound!r} s",
            hint="one of them is wrong: please report the instance",
        )
    return max(0.0, (value - bound) / bound)


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


@dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """What ``optsched solve`` returns and writes.

    Parameters
    ----------
    instance, digest : str
        Name and digest of the instance.
    objective : str
        What was minimised.
    value : float or None
        Objective of ``schedule``, checked and re-timed.
    bound : float or None
        Proven lower bound over the schedules of ``scope``.
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

    @property
    def gap(self) -> float | None:
        """(value - bound) / bound."""
        return relative_gap(self.value, self.bound)

    @property
    def optimal(self) -> bool:
        """Whether the schedule is proven optimal within ``scope``."""
        return self.gap is not None and self.gap <= OPTIMAL_GAP
