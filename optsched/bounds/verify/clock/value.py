"""What an argument proves about an objective of the clock."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction

from optsched.bounds.verify.clock.call_prices import call_mean
from optsched.bounds.verify.clock.chains import chained_mean
from optsched.bounds.verify.clock.goodput import priced_weight
from optsched.bounds.verify.clock.grouped import grouped_mean
from optsched.bounds.verify.clock.limited import limited_mean
from optsched.bounds.verify.clock.ordered import ordered_mean
from optsched.bounds.verify.clock.time_prices import priced_mean
from optsched.bounds.verify.clock.times import Clock
from optsched.bounds.verify.clock.uniform import uniform_mean
from optsched.bounds.verify.refuted import RefutedError, hold
from optsched.bounds.verify.units import cost_doubles, units_for
from optsched.bounds.verify.workload import Workload
from optsched.certificate import Argument
from optsched.clock_certificate import (
    ClockArgument,
    GroupedMean,
    LimitedMean,
    MachineChains,
    OrderedMean,
    PricedWork,
    SharedOrder,
    SmallestOrder,
    UniformMean,
)
from optsched.instance import Instance
from optsched.line import Line
from optsched.objective import Objective
from optsched.time_pricing import CallPrices, TimePrices


def clock_value(
    instance: Instance, objective: Objective, argument: Argument,
    subject_to: Mapping[Objective, float],
) -> Fraction:  # fmt: skip
    """The mean in seconds that no schedule is below, or the weight that none is above, among those
    within the limits ``subject_to``.

    Raises
    ------
    RefutedError
        The argument does not hold for this instance, or says nothing about the objective.
    """
    if not isinstance(argument, ClockArgument):
        raise RefutedError(f"the argument says nothing about {objective}")
    if isinstance(argument, TimePrices):
        hold(objective is Objective.MEAN_LATENCY, "prices of time bound mean latency only")
        return priced_mean(instance, argument)
    if isinstance(argument, CallPrices):
        hold(objective is Objective.MEAN_LATENCY, "prices of calls bound mean latency only")
        return call_mean(instance, argument)
    if isinstance(argument, LimitedMean):
        return limited_mean(
            argument, objective, subject_to, lambda: weighted_mean(instance, argument)
        )
    workload = Workload(instance.requests, instance.limits, instance.cost)
    units = units_for(_doubles(instance, argument), workload.cap)
    clock = Clock(workload, units, objective)
    if isinstance(argument, OrderedMean):
        return ordered_mean(clock, argument)
    if isinstance(argument, GroupedMean):
        return grouped_mean(clock, argument)
    if isinstance(argument, UniformMean):
        return uniform_mean(clock, argument)
    return priced_weight(clock, argument)


def weighted_mean(instance: Instance, argument: LimitedMean) -> Fraction:
    """Seconds that ``first`` x mean TTFT + ``whole`` x mean latency is at least."""
    first, whole, weighted = argument.first, argument.whole, argument.weighted
    if isinstance(weighted, TimePrices):
        return priced_mean(instance, weighted, first=first, whole=whole)
    workload = Workload(instance.requests, instance.limits, instance.cost)
    units = units_for(_doubles(instance, weighted), workload.cap)
    clock = Clock(workload, units, Objective.MEAN_LATENCY)
    return chained_mean(workload, units, clock.releases, weighted, first, whole)


def _doubles(instance: Instance, argument: ClockArgument | MachineChains) -> Iterator[float]:
    """All doubles that are used in units."""
    yield from cost_doubles(instance.cost)
    yield instance.cost.swap_tok
    for request in instance.requests:
        yield request.arrival_s
        yield from (call.duration_s for call in request.calls)
    for line in _lines(argument):
        yield from (line.intercept_s, line.slope_s, line.excess_s)


def _lines(argument: ClockArgument | MachineChains) -> list[Line]:
    if isinstance(argument, OrderedMean):
        return [o.line for o in argument.orders if isinstance(o, SharedOrder | SmallestOrder)]
    assert isinstance(argument, GroupedMean | UniformMean | PricedWork | MachineChains)
    return [argument.line]
