"""Builds the certificate of a bound on an objective of the clock, and checks it."""

from __future__ import annotations

import math
from fractions import Fraction

from optsched.bounds.clock.entry import ClockBound
from optsched.bounds.time_arguments import at_most
from optsched.bounds.verify.verdict import proven_value
from optsched.certificate import Certificate
from optsched.instance import Instance


def certify_clock(instance: Instance, bound: ClockBound) -> Certificate:
    """A certificate for ``bound``, whose claim is what its argument proves exactly if that is
    weaker than the bound in floating point."""
    proven = proven_value(instance, bound.objective, bound.argument, bound.subject_to)
    if bound.objective.maximised:
        claim = max(bound.value, _at_least(proven))
    else:
        claim = min(bound.value, at_most(proven))
    return Certificate(
        instance=instance, digest=instance.digest, objective=bound.objective, bound_s=claim,
        proof=bound.proof, argument=bound.argument, subject_to=bound.subject_to,
    )  # fmt: skip


def _at_least(value: Fraction) -> float:
    """The smallest double that is no less than ``value``."""
    near = float(value)
    return near if Fraction(near) >= value else math.nextafter(near, math.inf)
