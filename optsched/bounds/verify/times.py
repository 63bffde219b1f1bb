"""Bounds in units from a number of batches: under a line, balanced, in two phases, on a path."""

from __future__ import annotations

from optsched.bounds.verify.counts import batches
from optsched.bounds.verify.law import law_of
from optsched.bounds.verify.phases import phases
from optsched.bounds.verify.refuted import hold
from optsched.bounds.verify.steps import steps_of
from optsched.bounds.verify.units import Units
from optsched.bounds.verify.work import own_work, work_and_setups
from optsched.bounds.verify.workload import Workload
from optsched.certificate import BalancedTime, LineTime, OfflineTime


def offline_time(workload: Workload, argument: OfflineTime, units: Units) -> int:
    """The bound that ``argument`` proves for requests that are all there from the start."""
    count = batches(workload, argument.count)
    if isinstance(argument, LineTime):
        return _under_a_line(workload, argument, count, units)
    beyond = _beyond_new_tokens(workload, units)
    if isinstance(argument, BalancedTime):
        law = law_of(workload.cost, workload.limits.batch_tokens, units)
        return beyond + law.least(workload.new_tokens, count)
    return beyond + phases(workload, argument, count, units)


def _under_a_line(workload: Workload, argument: LineTime, count: int, units: Units) -> int:
    """a N0 + work with b per token and the excess of chunks + set-ups."""
    line, limits = argument.line, workload.limits
    law = law_of(workload.cost, limits.batch_tokens, units)
    hold(law.above(line, units, first=1), "the line is not below the batch-time law")
    steps = steps_of(workload.cost, limits.fill_tokens, units, units.of(line.slope_s), line)
    return units.of(line.intercept_s) * count + work_and_setups(workload, steps, units)


def _beyond_new_tokens(workload: Workload, units: Units) -> int:
    """What a schedule takes besides g of each batch's new tokens.

    Tokens processed again make a batch longer by at least the first slope s of g each. So work is
    counted at s per token, and s per new token, which g has, is taken off.
    """
    limits = workload.limits
    slope = law_of(workload.cost, limits.batch_tokens, units).first_slope
    steps = steps_of(workload.cost, limits.fill_tokens, units, slope)
    return work_and_setups(workload, steps, units) - slope * workload.new_tokens


def times_alone(workload: Workload, units: Units) -> list[int]:
    """Least time of each request's batches if it had the machine alone, without its pauses.

    Its steps lie in distinct batches, each of which takes at least what it takes with this step
    only: a decode g(1) + d0, chunks of a fill g + p0, best spread evenly.
    """
    limits, cost = workload.limits, workload.cost
    filling = law_of(cost, limits.batch_tokens, units, extra=units.of(cost.p0))
    steps = steps_of(cost, limits.fill_tokens, units, token=0)
    single = law_of(cost, limits.batch_tokens, units)(1) + units.of(cost.d0)

    def fill(size: int, before: int) -> int:
        new = size - before
        return steps.fill(size, before) + filling.least(new, -(-new // limits.fill_tokens))

    return own_work(workload, fill, lambda size: single + steps.decode(size))
