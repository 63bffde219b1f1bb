"""The best bound that a certificate can be written for, whichever objective it is about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from optsched.bounds import BestBound, best_bound, certificate_of
from optsched.bounds.clock import ClockBound, certify_clock, clock_bound
from optsched.certificate import Certificate
from optsched.instance import Instance
from optsched.objective import Objective


@dataclass(frozen=True, kw_only=True, eq=False)
class Proven:
    """A bound on an objective, found without a formulation: over all schedules, or over those that
    are within limits on others.

    Parameters
    ----------
    objective : Objective
        What it is about.
    value : float
        In the objective's unit; for ``goodput`` an upper bound, else a lower one.
    proof : str
        Name of the argument that gives it.
    parts : dict of str to float
        What each argument gives.
    source : BestBound or ClockBound
        What a certificate is made of.
    """

    objective: Objective
    value: float
    proof: str
    parts: dict[str, float]
    source: BestBound | ClockBound

    def certificate(self, instance: Instance) -> Certificate:
        """The certificate of the bound on ``instance``, checked in exact arithmetic."""
        if isinstance(self.source, BestBound):
            return certificate_of(instance, self.source)
        return certify_clock(instance, self.source)


def prove(
    instance: Instance, objective: Objective, *, effort: str = "normal",
    time_limit_s: float | None = None, target: float | None = None,
    subject_to: Mapping[Objective, float] = MappingProxyType({}),
) -> Proven:  # fmt: skip
    """The best bound that ``effort`` allows.

    Parameters
    ----------
    effort, time_limit_s
        See :func:`optsched.bounds.best_bound`.
    target : float, optional
        Value of a known schedule: nothing more is tried once the bound reaches it.
    subject_to : mapping of Objective to float, optional
        Limits on other objectives, that the schedules may be taken to be within.

    Raises
    ------
    InfeasibleError
        A request cannot run even alone.
    """
    if objective is Objective.MAKESPAN:
        best = best_bound(instance, effort=effort, time_limit_s=time_limit_s, target_s=target)
        return Proven(
            objective=objective, value=best.bound.value_s, proof=best.bound.proof,
            parts=best.bound.parts, source=best,
        )  # fmt: skip
    found = clock_bound(
        instance, objective, effort=effort, time_limit_s=time_limit_s, target=target,
        subject_to=subject_to,
    )  # fmt: skip
    return Proven(
        objective=objective, value=found.value, proof=found.proof, parts=dict(found.parts),
        source=found,
    )  # fmt: skip
