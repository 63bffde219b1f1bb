"""A target as people put it: a number, or a fraction of what a scheduler reaches."""

from __future__ import annotations

import math

from optsched.errors import InvalidInputError
from optsched.instance import Instance
from optsched.objective import Objective
from optsched.solve.candidate import evaluate


def target_value(instance: Instance, objective: Objective, text: str) -> float:
    """What ``text`` asks for, in the objective's unit.

    Parameters
    ----------
    text : str
        ``X``, ``X*SCHEDULER`` or ``SCHEDULER``, where for goodput ``all`` is the weight of all
        requests. A scheduler is run and its schedule checked.

    Raises
    ------
    InvalidInputError
        It is none of these, or negative or not finite.
    UnknownNameError
        No scheduler has this name.
    """
    value = _number(text)
    if value is None:
        factor, name = _parts(text)
        if name == "all" and objective.maximised:
            value = factor * instance.total_weight
        else:
            value = factor * evaluate(instance, name).values[objective]
    if not (math.isfinite(value) and value >= 0):
        raise InvalidInputError(
            f"target: got {text!r}, expected a finite number >= 0",
            hint="a number, or a fraction of a scheduler's value such as 0.9*sarathi",
        )
    return value


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _parts(text: str) -> tuple[float, str]:
    """Factor and scheduler of ``X*NAME``, ``NAME*X`` or ``NAME``."""
    first, star, second = (part.strip() for part in text.partition("*"))
    if not star:
        return 1.0, first
    for factor, name in ((_number(first), second), (_number(second), first)):
        if factor is not None:
            return factor, name
    raise InvalidInputError(
        f"target: got {text!r}, expected NUMBER*SCHEDULER",
        hint="a number, or a fraction of a scheduler's value such as 0.9*sarathi",
    )
