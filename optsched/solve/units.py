"""From the objective's unit to what a program minimises, and back."""

from __future__ import annotations

import math
from fractions import Fraction

from optsched.instance import Instance
from optsched.objective import Objective

_FINEST = 100_000  # units in all weights, at most: of more a bound's rounding may be whole units
_ROUNDING = 1e-6  # units


def cost(instance: Instance, objective: Objective, value: float) -> float:
    """Seconds as they are; goodput as the weight of the requests that miss an SLO.

    Its own inverse: also from a cost to the objective's value.
    """
    return instance.total_weight - value if objective.maximised else value


def attainable(instance: Instance, objective: Objective, bound: float) -> float:
    """``bound``, for goodput rounded down to a multiple of what all weights are multiples of.

    A program's bound is only as exact as its solver; a sum of whole weights is whole. A bound just
    below a multiple is taken for that multiple, which keeps it valid.
    """
    if not objective.maximised:
        return bound
    weights = [Fraction(request.weight) for request in instance.requests if request.weight]
    unit = Fraction(0)
    for weight in weights:
        unit = Fraction(
            math.gcd(unit.numerator * weight.denominator, weight.numerator * unit.denominator),
            unit.denominator * weight.denominator,
        )
    if unit == 0 or unit * _FINEST < sum(weights):
        return bound
    return float(unit * math.floor(Fraction(bound) / unit + Fraction(_ROUNDING)))
