"""Objectives: what a schedule is judged by (``docs/problem.md``, section 5)."""

from __future__ import annotations

from enum import StrEnum


class Objective(StrEnum):
    """What is minimised, in seconds; ``goodput``, a weight of requests, is maximised."""

    MAKESPAN = "makespan"
    MEAN_LATENCY = "mean-latency"
    MEAN_TTFT = "mean-ttft"
    MAX_LATENCY = "max-latency"
    GOODPUT = "goodput"

    @property
    def maximised(self) -> bool:
        """Whether more is better."""
        return self is Objective.GOODPUT

    @property
    def unit(self) -> str:
        """``s``, or ``weight`` of requests."""
        return "weight" if self.maximised else "s"

    def loss(self, value: float) -> float:
        """What to compare values by, where less is better."""
        return -value if self.maximised else value

    def better(self, one: float, other: float) -> bool:
        """Whether ``one`` is strictly better than ``other``."""
        return self.loss(one) < self.loss(other)


OBJECTIVES = tuple(objective.value for objective in Objective)
