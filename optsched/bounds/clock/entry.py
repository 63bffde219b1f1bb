"""The best bound on an objective of the clock, and what proves it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from optsched.bounds.best import EFFORTS
from optsched.bounds.clock.call_prices import call_price_bounds
from optsched.bounds.clock.found import Bounder, Found, Question
from optsched.bounds.clock.goodput import goodput_bounds
from optsched.bounds.clock.grouped import grouped_bounds
from optsched.bounds.clock.limited import limited_bounds, used_limits
from optsched.bounds.clock.ordered import ordered_bounds
from optsched.bounds.clock.time_prices import time_price_bounds
from optsched.bounds.clock.uniform import uniform_bounds
from optsched.bounds.clock.windows import window_bounds
from optsched.certificate import Argument
from optsched.errors import require
from optsched.instance import Instance, require_feasible
from optsched.objective import Objective

_SECONDS = {"quick": 5.0, "normal": 60.0, "thorough": 600.0}
_ROUNDING = 1e-12  # an argument proves the bound if none before it is as good up to rounding
_REACHED = 1e-9  # relative; a bound this close to a known schedule cannot be improved

# By cost. Each is asked after the ones before it, unless their bound reaches a known schedule.
_BOUNDERS: dict[Objective, tuple[Bounder, ...]] = {
    Objective.MEAN_LATENCY: (
        ordered_bounds,
        grouped_bounds,
        uniform_bounds,
        time_price_bounds,
        call_price_bounds,
        limited_bounds,
    ),
    Objective.MEAN_TTFT: (ordered_bounds, grouped_bounds, limited_bounds),
    Objective.MAX_LATENCY: (window_bounds,),
    Objective.GOODPUT: (goodput_bounds,),
}


class ClockBound(msgspec.Struct, frozen=True, kw_only=True):
    """A bound on an objective that holds for every schedule of an instance.

    Parameters
    ----------
    value : float
        No schedule has less, in seconds; for goodput none has more, in weight.
    proof : str
        Name of the argument that gives it, a key of ``parts``.
    parts : dict of str to float
        What each argument tried gives.
    argument : Argument
        The choices that prove it, for a certificate.
    subject_to : mapping of Objective to float
        Limits on other objectives that it needs: it holds for the schedules within them.
    """

    objective: Objective
    value: float
    proof: str
    parts: dict[str, float]
    argument: Argument
    subject_to: Mapping[Objective, float] = MappingProxyType({})


def clock_bound(
    instance: Instance,
    objective: Objective,
    *,
    effort: str = "normal",
    time_limit_s: float | None = None,
    target: float | None = None,
    subject_to: Mapping[Objective, float] = MappingProxyType({}),
) -> ClockBound:
    """The best bound on ``objective``: a lower one in seconds, for goodput an upper one in weight.

    It holds for every schedule, with or without evictions, chunks, hybrid batches, swapping and
    waiting. Doubles are summed in an order of their own, so the value may be off an exact one by a
    relative 1e-9 or so; ``certify_clock`` claims what is proven exactly.

    Parameters
    ----------
    effort : str
        ``quick``, ``normal`` or ``thorough``.
    time_limit_s : float, optional
        5, 60 or 600 s by effort if not given. What takes long is not begun after it.
    target : float, optional
        Value of a known schedule: nothing more is tried once the bound reaches it.
    subject_to : mapping of Objective to float, optional
        Limits on other objectives, of which those on mean TTFT and mean latency are used: the bound
        need only hold for the schedules within them.

    Raises
    ------
    InfeasibleError
        A request cannot run even alone.
    InvalidInputError
        The objective is the makespan, or there is no such effort.
    """
    require(
        objective in _BOUNDERS, "objective", str(objective),
        f"one of {', '.join(_BOUNDERS)}", hint="best_bound bounds the makespan",
    )  # fmt: skip
    require(effort in EFFORTS, "effort", effort, f"one of {', '.join(EFFORTS)}")
    require_feasible(instance)
    limit = _SECONDS[effort] if time_limit_s is None else time_limit_s
    question = Question(
        instance=instance, objective=objective, effort=effort,
        deadline=time.monotonic() + limit, target=target, subject_to=subject_to,
    )  # fmt: skip
    found: dict[str, Found] = {}
    for bounder in _BOUNDERS[objective]:
        if found and _reached(question, found):
            break
        found |= bounder(question)
    proof = _best(objective, found)
    argument = found[proof].argument
    return ClockBound(
        objective=objective, value=found[proof].value, proof=proof,
        parts={name: part.value for name, part in found.items()},
        argument=argument, subject_to=used_limits(objective, argument, subject_to),
    )  # fmt: skip


def _best(objective: Objective, found: dict[str, Found]) -> str:
    """The first part that no other beats by more than rounding."""
    if objective.maximised:
        least = min(part.value for part in found.values())
        return next(n for n, part in found.items() if part.value <= least * (1 + _ROUNDING))
    most = max(part.value for part in found.values())
    return next(n for n, part in found.items() if part.value >= most * (1 - _ROUNDING))


def _reached(question: Question, found: dict[str, Found]) -> bool:
    if question.target is None:
        return False
    best = found[_best(question.objective, found)].value
    if question.objective.maximised:
        return best <= question.target * (1 + _REACHED)
    return best >= question.target * (1 - _REACHED)
