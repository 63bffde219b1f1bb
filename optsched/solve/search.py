"""What one solve knows so far: schedules found, the bound, and the steps that gave them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from optsched.check import check
from optsched.instance import Instance
from optsched.objective import Objective
from optsched.result import OPTIMAL_GAP, Step, relative_gap
from optsched.solve.candidate import Candidate
from optsched.solve.proven import Proven
from optsched.solve.units import attainable, cost


@dataclass(frozen=True, kw_only=True)
class SolveOptions:
    """What to solve, and how long to try.

    Parameters
    ----------
    objective : Objective
        What to minimise, or for ``goodput`` maximise.
    then : Objective or None
        Second objective, over the schedules that are as good as the best one found.
    target : float or None
        Only answer whether a schedule is at most (``goodput``: at least) this good.
    asked : str
        The target as the user put it.
    subject_to : mapping of Objective to float
        Other objectives that must be at most (``goodput``: at least) this.
    policies : tuple of str
        Restrictions that every schedule must obey.
    formulation : str
        ``auto`` (what is exact for the instance), ``network``, ``compact``, or ``none``
        (schedulers and combinatorial bounds only).
    solver : str
        Back end, see :func:`optsched.solvers.solver`.
    effort : str
        Of the bounds that need no formulation, see :func:`optsched.bounds.best_bound`.
    time_limit_s : float
        For everything together.
    relative_gap : float
        Stop when value and bound are this close.
    seed, threads : int
        Of the solver.
    warm_start : str
        ``best`` (of all schedulers), one scheduler's name, ``given`` (only what the caller
        knows), or ``none``.
    write_model : Path or None
        Write the first model that is solved here (.mps or .lp).
    certificate : Path or None
        Write the proof of the best bound that needs no formulation here.
    """

    objective: Objective = Objective.MAKESPAN
    then: Objective | None = None
    target: float | None = None
    asked: str = ""
    subject_to: Mapping[Objective, float] = field(default_factory=dict)
    policies: tuple[str, ...] = ()
    formulation: str = "auto"
    solver: str = "highs"
    effort: str = "normal"
    time_limit_s: float = 60.0
    relative_gap: float = OPTIMAL_GAP
    seed: int = 0
    threads: int = 1
    warm_start: str = "best"
    write_model: Path | None = None
    certificate: Path | None = None


@dataclass(kw_only=True)
class Search:
    """State of one solve; the best value and the bound only ever improve.

    Parameters
    ----------
    policies : frozenset of str
        Those asked for and what they imply.
    proven : Proven or None
        The best bound that a certificate can be written for.
    scope : str
        The class of schedules that ``bound`` holds for.
    least_batches : int
        A number of batches that all schedules have.
    value, bound
        In the objective's unit.
    """

    instance: Instance
    options: SolveOptions
    policies: frozenset[str]
    scope: str
    deadline: float
    report: Callable[[str], None]
    proven: Proven | None = None
    least_batches: int = 1
    interrupted: bool = False
    infeasible: bool = False
    candidates: list[Candidate] = field(default_factory=list)
    bound: float | None = None
    proof: str | None = None
    steps: list[Step] = field(default_factory=list)

    @property
    def objective(self) -> Objective:
        """What is minimised or maximised."""
        return self.options.objective

    @property
    def best(self) -> Candidate | None:
        """The best schedule found that obeys the policies."""
        return self.candidates[0] if self.candidates else None

    @property
    def value(self) -> float | None:
        """Objective of the best schedule."""
        return self.candidates[0].values[self.objective] if self.candidates else None

    @property
    def gap(self) -> float | None:
        """Gap between the best schedule and the bound over all of them."""
        return relative_gap(self.value, self.bound, self.objective)

    @property
    def answer(self) -> str:
        """``yes`` or ``no`` if the target is settled, else ``unknown``.

        A bound that exceeds the target by rounding alone is no proof. Where the limits on other
        objectives cannot be kept no target is reached.
        """
        target = self.options.target
        if target is None:
            return "unknown"
        if self.value is not None and not self.objective.better(target, self.value):
            return "yes"
        if self.infeasible:
            return "no"
        if self.bound is None or not self.objective.better(target, self.bound):
            return "unknown"
        return "no" if abs(self.bound - target) > OPTIMAL_GAP * abs(target) else "unknown"

    @property
    def closed(self) -> bool:
        """Whether the gap is as small as was asked for, or the target settled."""
        if self.options.target is not None and self.answer != "unknown":
            return True
        return self.gap is not None and self.gap <= max(self.options.relative_gap, OPTIMAL_GAP)

    @property
    def remaining_s(self) -> float:
        """Seconds until the time limit."""
        return self.deadline - time.monotonic()

    def cost(self, value: float) -> float:
        """What a program minimises, see :func:`optsched.solve.units.cost`; its own inverse."""
        return cost(self.instance, self.objective, value)

    def offer(self, candidate: Candidate) -> None:
        """Keep a candidate, whose rules have been checked, if it obeys policies and limits."""
        if self.policies and check(self.instance, candidate.schedule, policies=self.policies):
            return
        for other, limit in self.options.subject_to.items():
            if other.better(limit, candidate.values[other]):
                return
        self.candidates.append(candidate)
        self.candidates.sort(key=lambda c: self.cost(c.values[self.objective]))

    def prove(self, bound: float, proof: str) -> None:
        """Take a bound over all schedules that obey the policies."""
        bound = attainable(self.instance, self.objective, bound)
        if self.bound is None or self.objective.better(self.bound, bound):
            self.bound, self.proof = bound, proof

    def record(
        self, method: str, begin: float, *, scope: str | None = None, value: float | None = None,
        bound: float | None = None, termination: str = "finished", note: str = "",
    ) -> None:  # fmt: skip
        """Add a step that began at ``begin`` on the monotonic clock and ends now."""
        wall_s = time.monotonic() - begin
        self.steps.append(
            Step(
                method=method,
                scope=scope or self.scope,
                value=value,
                bound=bound,
                termination=termination,
                wall_s=wall_s,
                note=note,
            )
        )

    def tell(self, what: str, value: float | None = None, bound: float | None = None) -> None:
        """Show what is being done, with the best of ``value``, ``bound`` and what is known."""
        values = [self.cost(v) for v in (value, self.value) if v is not None]
        bounds = [self.cost(b) for b in (bound, self.bound) if b is not None]
        best = self.cost(min(values)) if values else None
        proven = self.cost(max(bounds)) if bounds else None
        unit = self.objective.unit
        parts = [what]
        parts += [] if best is None else [f"value {best:.7g} {unit}"]
        parts += [] if proven is None else [f"bound {proven:.7g} {unit}"]
        if best and proven:
            # What a solver says on its way is shown, not judged.
            gap = abs(best - proven) / min(best, proven)
            parts.append(f"gap {100 * gap:.3f} %")
        self.report("  ".join(parts))
