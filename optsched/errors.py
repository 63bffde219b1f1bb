"""One hierarchy of errors. Each says what is wrong with which value, what was expected, and,
where there is one, a hint. ``exit_code`` is what the command line ends with.

Exit codes: 0 fine, 1 error, 2 usage, 3 rules violated or claim refuted, 4 limit reached
without proof.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class OptschedError(Exception):
    """Anything that optsched refuses or cannot do, told in one line and an optional hint."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\nhint: {self.hint}"


class InvalidInputError(OptschedError, ValueError):
    """A value in a record or a file is out of range, missing, misspelt or of the wrong type.

    Also a ValueError, so that the file decoder adds the JSON path to what a record refuses.
    """


class UnknownNameError(OptschedError):
    """A scheduler, preset, policy, formulation or solver that does not exist."""

    exit_code = 2

    def __init__(self, what: str, name: str, known: Iterable[str]) -> None:
        names = sorted(known)
        near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(names)}"
        super().__init__(f"unknown {what} {name!r}", hint=hint)


class InfeasibleError(OptschedError):
    """No schedule exists: a request cannot run even alone, or a policy forbids it."""


class UnsupportedError(OptschedError):
    """A formulation, bound or back end was asked for something it does not cover."""


class SolverError(OptschedError):
    """A solver is not installed, failed, or returned something that its own check refutes."""


class ScheduleError(OptschedError):
    """A schedule breaks a rule of the instance, or a claim about it is refuted."""

    exit_code = 3


class ContradictionError(OptschedError):
    """A checked schedule is shorter than a proven bound: one of the two is wrong, a bug."""

    exit_code = 3


def require(ok: bool, what: str, value: object, expected: str, hint: str | None = None) -> None:
    """Raise :class:`InvalidInputError` naming ``what``, its value and the expectation."""
    if not ok:
        raise InvalidInputError(f"{what}: got {value!r}, expected {expected}", hint=hint)


def require_count(what: str, value: object, at_least: int, at_most: int = 10**12) -> None:
    """A whole number of at least ``at_least``; booleans and floats are refused.

    The upper limit keeps sums of squares over a workload within 64 bits.
    """
    ok = isinstance(value, int) and not isinstance(value, bool)
    ok = ok and at_least <= value <= at_most  # type: ignore[operator]
    above = f" and <= {at_most}" if isinstance(value, int) and value > at_most else ""
    require(ok, what, value, f"a whole number >= {at_least}{above}")


def require_nonnegative(what: str, value: object) -> None:
    """A finite real number >= 0."""
    ok = isinstance(value, (int, float)) and not isinstance(value, bool)
    require(ok and 0 <= float(value) < float("inf"), what, value, "a finite number >= 0")  # type: ignore[arg-type]
