"""What one solve knows so far: schedules found, the bound, and the steps that gave them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from optsched.bounds import BestBound
from optsched.check import check
from optsched.instance import Instance
from optsched.result import OPTIMAL_GAP, Step, relative_gap
from optsched.solve.compare import Candidate


@dataclass(frozen=True, kw_only=True)
class SolveOptions:
    """What to solve, and how long to try.

    Parameters
    ----------
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

    ``proven`` is the best bound that a certificate can be written for, ``scope`` the class of
    schedules that ``bound`` holds for, ``least_batches`` a number of batches that all have.
    """

    instance: Instance
    options: SolveOptions
    scope: str
    deadline: float
    report: Callable[[str], None]
    proven: BestBound | None = None
    least_batches: int = 1
    interrupted: bool = False
    candidates: list[Candidate] = field(default_factory=list)
    bound: float | None = None
    proof: str | None = None
    steps: list[Step] = field(default_factory=list)

    @property
    def best(self) -> Candidate | None:
        """The best schedule found that obeys the policies."""
        return self.candidates[0] if self.candidates else None

    @property
    def value(self) -> float | None:
        """Makespan of the best schedule."""
        return self.candidates[0].value if self.candidates else None

    @property
    def proven_s(self) -> float:
        """The best bound that a certificate can be written for, in seconds."""
        return self.proven.bound.value_s if self.proven else 0.0

    @property
    def gap(self) -> float | None:
        """Gap between the best schedule and the bound over all of them."""
        return relative_gap(self.value, self.bound)

    @property
    def closed(self) -> bool:
        """Whether the gap is as small as was asked for."""
        return self.gap is not None and self.gap <= max(self.options.relative_gap, OPTIMAL_GAP)

    @property
    def remaining_s(self) -> float:
        """Seconds until the time limit."""
        return self.deadline - time.monotonic()

    def offer(self, candidate: Candidate) -> None:
        """Keep a candidate, whose rules have been checked, if it obeys the policies as well."""
        policies = self.options.policies
        if not policies or not check(self.instance, candidate.schedule, policies=policies):
            self.candidates.append(candidate)
            self.candidates.sort(key=lambda c: c.value)

    def prove(self, bound: float, proof: str) -> None:
        """Take a bound over all schedules that obey the policies."""
        if self.bound is None or bound > self.bound:
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
        values = [v for v in (value, self.value) if v is not None]
        bounds = [b for b in (bound, self.bound) if b is not None]
        best, proven = min(values, default=None), max(bounds, default=None)
        # What a solver says on its way is shown, not judged.
        gap = None if best is None or not proven else max(0.0, best / proven - 1)
        parts = [what]
        parts += [] if best is None else [f"value {best:.7g} s"]
        parts += [] if proven is None else [f"bound {proven:.7g} s"]
        parts += [] if gap is None else [f"gap {100 * gap:.3f} %"]
        self.report("  ".join(parts))
