"""What is asked of a bound on an objective of the clock, and what it answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from optsched.certificate import Argument
from optsched.instance import Instance
from optsched.objective import Objective


@dataclass(frozen=True, kw_only=True)
class Question:
    """A bound on ``objective`` is wanted.

    Parameters
    ----------
    effort : str
        One of ``optsched.bounds.EFFORTS``.
    deadline : float
        On the monotonic clock; what takes long is not begun, or not continued, after it.
    target : float or None
        The objective's value of a known schedule.
    subject_to : mapping of Objective to float
        Only schedules whose other objectives are at most (``goodput``: at least) this count.
    """

    instance: Instance
    objective: Objective
    effort: str
    deadline: float
    target: float | None = None
    subject_to: Mapping[Objective, float] = field(default_factory=dict)

    @property
    def left_s(self) -> float:
        """Seconds until the deadline, at least 0."""
        return max(0.0, self.deadline - time.monotonic())


@dataclass(frozen=True, kw_only=True)
class Found:
    """A bound in floating point, in the objective's unit, and the choices that prove it."""

    value: float
    argument: Argument


Bounder: TypeAlias = Callable[[Question], dict[str, Found]]
"""What each argument tried gives, by name; empty if none applies to the objective."""
