"""Mean TTFT under a limit on mean latency, and the other way round.

If the limited mean is at most L, then for weights u of the one that is bounded and v of the other

    u (mean) >= (least of u (mean) + v (limited mean) over all schedules) - v L

and what bounds the weighted sum is one machine (``chains``) or prices of time (``time_prices``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction

from optsched.bounds.verify.refuted import hold
from optsched.clock_certificate import LimitedMean
from optsched.objective import Objective

MEANS = (Objective.MEAN_TTFT, Objective.MEAN_LATENCY)


def limited_mean(
    argument: LimitedMean, objective: Objective, subject_to: Mapping[Objective, float],
    weighted: Callable[[], Fraction],
) -> Fraction:  # fmt: skip
    """Seconds that the mean is at least; ``weighted`` gives the bound on the sum."""
    hold(objective in MEANS, f"the argument bounds a mean, not {objective}")
    own, other, limited = argument.first, argument.whole, Objective.MEAN_LATENCY
    if objective is Objective.MEAN_LATENCY:
        own, other, limited = argument.whole, argument.first, Objective.MEAN_TTFT
    hold(limited in subject_to, f"the argument needs a limit on {limited}, and there is none")
    return (weighted() - other * Fraction(subject_to[limited])) / own
