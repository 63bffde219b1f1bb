"""What a scheduler is."""

from __future__ import annotations

from typing import Protocol

from optsched.instance import Instance
from optsched.schedule import Schedule


class Scheduler(Protocol):
    """Instance -> Schedule: any callable of that shape, a plain function for instance.

    It returns a complete schedule in terms of the positions of ``instance.requests``; whatever it
    decides is then checked against every rule and timed by the cost model.
    """

    def __call__(self, instance: Instance, /) -> Schedule:
        """A schedule for ``instance``."""
        ...
