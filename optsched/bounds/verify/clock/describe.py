"""What an argument about an objective of the clock says, in words."""

from __future__ import annotations

from optsched.clock_certificate import (
    AloneOrder,
    ClockArgument,
    GroupedMean,
    LimitedMean,
    MachineChains,
    Order,
    OrderedMean,
    SharedOrder,
    Shares,
    UniformMean,
)
from optsched.line import Line
from optsched.time_pricing import CallPrices, TimePrices


def describe_clock(argument: ClockArgument) -> list[str]:
    """One line per step of the argument."""
    if isinstance(argument, OrderedMean):
        start = "the k-th time, for each k, is at least the largest of"
        return [start, *(_order(order) for order in argument.orders)]
    if isinstance(argument, GroupedMean):
        windows = len(argument.starts_s)
        start = "requests are done in groups, shortest first, each delaying all that come after"
        start += f", in {windows} windows of arrival" if windows > 1 else ""
        return [start, _charges(argument.line, argument.shares)]
    if isinstance(argument, UniformMean):
        text = "equal requests: a convex program over how many end in which batch, bounded at a "
        text += f"point of {len(argument.ends)} batches, and cheapest paths under prices of "
        return [text + f"{len(argument.memory)} buckets of {argument.bucket_batches} batches"]
    if isinstance(argument, LimitedMean):
        sum_ = f"{argument.first} x mean TTFT + {argument.whole} x mean latency"
        return [f"of {sum_} the limited one is its limit at most", *_weighted(argument.weighted)]
    if isinstance(argument, CallPrices):
        text = f"{len(argument.machine)} prices of machine time and of memory: a batch earns them, "
        text += f"its steps are charged for its time in {len(argument.paces)} paces, requests for "
        text += "the KV they hold, and each takes its cheapest path in blocks of up to "
        text += f"{argument.block} tokens, with its KV kept, swapped or refilled at calls"
        return [text]
    if isinstance(argument, TimePrices):
        text = f"{len(argument.prices)} prices of time, {argument.knots[-1]} cells of "
        text += f"{argument.cell_s!r} s: a batch earns them, its steps are charged for it in "
        text += f"{len(argument.paces)} paces, and each request takes its cheapest path"
        return [text]
    text = (
        f"{len(argument.prices)} prices of time; a request counts if it could meet its objectives"
    )
    text += " alone, less what its charges cost before they are due"
    return [text, _charges(argument.line, argument.shares)]


def _weighted(argument: MachineChains | TimePrices) -> list[str]:
    if isinstance(argument, TimePrices):
        return describe_clock(argument)
    start = "the sum is no less than if one machine served each request's charge, first token first"
    return [start, _charges(argument.line, argument.shares)]


def _order(order: Order) -> str:
    if isinstance(order, AloneOrder):
        return "the k-th of all requests, each with the machine alone"
    if isinstance(order, SharedOrder):
        return f"shortest remaining charge first; {_charges(order.line, order.shares)}"
    return f"the k smallest of everything; {_line(order.line)}"


def _charges(line: Line, shares: Shares) -> str:
    names = ("memory", "tokens", "prefill", "requests", "setups")
    parts = {name: getattr(shares, name) for name in names}
    split = ", ".join(f"{part}/{shares.parts} by {name}" for name, part in parts.items() if part)
    return f"{_line(line)}, the first part shared {split}"


def _line(line: Line) -> str:
    text = f"a batch of n tokens takes {line.intercept_s!r} + {line.slope_s!r} n s at least"
    if line.excess_s:
        text += f" and {line.excess_s!r} s more per token beyond {line.knee_tokens}"
    return text
