"""Mean TTFT under a limit on mean latency, and the other way round: the search for a weight.

``optsched/bounds/verify/clock/limited.py`` has the argument. What a weight proves is concave in it,
so it is searched from a good one on: first that of one machine, then around it for prices of time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray

from optsched.bounds.clock.chains import chained_sum
from optsched.bounds.clock.charges import Charging
from optsched.bounds.clock.found import Found, Question
from optsched.bounds.clock.time_prices import weighted_prices
from optsched.bounds.verify.clock.value import clock_value
from optsched.bounds.verify.refuted import RefutedError
from optsched.certificate import Argument
from optsched.clock_certificate import LimitedMean, MachineChains, Shares
from optsched.line import Line
from optsched.objective import Objective

FloatArray = NDArray[np.float64]
CHAINS, PRICES = "B6 under a limit", "B10 under a limit"
_OTHER = {
    Objective.MEAN_TTFT: Objective.MEAN_LATENCY, Objective.MEAN_LATENCY: Objective.MEAN_TTFT
}  # fmt: skip
_SCALE = 2**12  # the larger weight
_SPAN = range(-10, 11, 2)  # powers of 2 that the limited mean is weighted with at first
_STEPS = {"quick": 1, "normal": 3, "thorough": 5}
_PRICE_STEP = 0.5  # powers of 2
_PRICE_STEPS = {"quick": 1, "normal": 3, "thorough": 6}


def limited_bounds(question: Question) -> dict[str, Found]:
    """The best of one machine and of prices of time; nothing without a limit on the other mean."""
    limited = _OTHER[question.objective]
    if limited not in question.subject_to:
        return {}
    machine = _Machine(question, question.subject_to[limited])
    power, line, shares = machine.best()
    first, whole = _weights(question.objective, power)
    found = {}
    chains = _found(
        question, LimitedMean(first=first, whole=whole, weighted=MachineChains(
            line=line, shares=shares
        ))
    )  # fmt: skip
    if chains is not None:
        found[CHAINS] = chains
    priced = _priced(question, power)
    if priced is not None:
        found[PRICES] = priced
    return found


def used_limits(
    objective: Objective, argument: Argument, subject_to: Mapping[Objective, float]
) -> dict[Objective, float]:
    """The limits that ``argument`` needs."""
    if not isinstance(argument, LimitedMean):
        return {}
    return {_OTHER[objective]: subject_to[_OTHER[objective]]}


def _weights(objective: Objective, power: float) -> tuple[int, int]:
    """Weights of TTFT and latency of which that of the limited mean is 2^power of the other."""
    limited = 2.0 ** min(power, 0.0)
    own = 2.0 ** min(-power, 0.0)
    scaled = [max(1, round(_SCALE * x)) for x in (own, limited)]
    if objective is Objective.MEAN_LATENCY:
        scaled.reverse()
    return scaled[0], scaled[1]


def _found(question: Question, argument: LimitedMean) -> Found | None:
    """``argument`` with what it proves."""
    try:
        value = clock_value(
            question.instance, question.objective, argument, question.subject_to
        )  # fmt: skip
    except RefutedError:  # numbers beyond what the exact evaluation can hold
        return None
    return Found(value=float(value), argument=argument)


@dataclass(frozen=True)
class _Machine:
    """One machine's bound by weight, line and shares."""

    question: Question
    limit_s: float

    @cached_property
    def _charged(self) -> dict[tuple[Line, Shares], tuple[FloatArray, FloatArray]]:
        """Charges of fills and of the rest."""
        charging = Charging(self.question.instance)
        found = {}
        for choice in product(charging.lines, charging.corners):
            charges = charging(*choice)
            rest = np.maximum(charges.whole - charges.first, 0.0)
            found[choice] = (charges.first, rest)
        return found

    def value(self, power: float, choice: tuple[Line, Shares]) -> float:
        """Seconds that the mean is at least."""
        instance, objective = self.question.instance, self.question.objective
        first, whole = _weights(objective, power)
        own, other = (first, whole) if objective is Objective.MEAN_TTFT else (whole, first)
        release = instance.release_s
        total = chained_sum(release, *self._charged[choice], first, whole)
        mean = (total - (first + whole) * float(release.sum())) / release.size
        return (mean - other * self.limit_s) / own

    def best(self) -> tuple[float, Line, Shares]:
        """Power of the weight, line and shares."""
        choice = max(self._charged, key=lambda c: float(self._charged[c][1].sum()))
        power = float(max(_SPAN, key=lambda p: self.value(p, choice)))
        if self.question.effort != "quick":
            choice = max(self._charged, key=lambda c: self.value(power, c))
        steps = _STEPS[self.question.effort]
        power = _climbed(lambda p: self.value(p, choice), power, 1.0, steps)
        return power, *choice


def _climbed(value: Callable[[float], float], start: float, step: float, halvings: int) -> float:
    """A local maximum by steps that are halved so often."""
    best, at = value(start), start
    for _ in range(halvings):
        for side in (-step, step):
            while (there := value(at + side)) > best:
                best, at = there, at + side
        step /= 2
    return at


def _priced(question: Question, power: float) -> Found | None:
    """The best prices of time at some weights around 2^``power``."""
    tried: dict[float, Found | None] = {}

    def value(at: float) -> float:
        if at not in tried:
            if len(tried) >= _PRICE_STEPS[question.effort] or question.left_s <= 0:
                return -np.inf
            first, whole = _weights(question.objective, at)
            prices = weighted_prices(question, first, whole)
            tried[at] = None if prices is None else _found(
                question, LimitedMean(first=first, whole=whole, weighted=prices)
            )  # fmt: skip
        found = tried[at]
        return -np.inf if found is None else found.value

    _climbed(value, power, _PRICE_STEP, 2)
    found = [f for f in tried.values() if f is not None]
    return max(found, key=lambda f: f.value, default=None)
