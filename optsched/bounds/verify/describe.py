"""What an argument says, in words."""

from __future__ import annotations

from optsched.bounds.verify.clock.describe import describe_clock
from optsched.certificate import (
    HELD_PARTS,
    Argument,
    ArrivalTime,
    BalancedTime,
    Count,
    HeldTime,
    LineTime,
    MemoryCount,
    OwnLatency,
    PathTime,
    PhasesTime,
    PricedTime,
    PromptCount,
    StepCount,
    TokenCount,
    WalkTime,
    WeightCount,
    WindowTime,
)


def describe(argument: Argument) -> list[str]:
    """One line per step of the argument."""
    if isinstance(argument, PathTime | OwnLatency):
        return [f"request {argument.request!r} takes that long even alone"]
    if isinstance(argument, ArrivalTime):
        start = f"what arrives at {argument.from_s!r} s or later starts then, and needs"
        return [start, *describe(argument.late)]
    if isinstance(argument, WindowTime):
        start = f"what arrives from {argument.from_s!r} to {argument.until_s!r} s starts at the "
        start += "first of these arrivals at the soonest; together they need"
        return [start, *describe(argument.window)]
    if isinstance(argument, LineTime):
        line = argument.line
        text = f"unavoidable work, a batch of n tokens taking {line.intercept_s!r} + "
        text += f"{line.slope_s!r} n s at least"
        if line.excess_s:
            text += f", and {line.excess_s!r} s more per token beyond {line.knee_tokens}"
        return [text, *_batches(argument.count)]
    if isinstance(argument, HeldTime):
        line = argument.line
        text = f"{HELD_PARTS - argument.memory_parts} parts of work, {argument.memory_parts} of "
        text += "memory over time with what calls hold, a batch of n tokens taking "
        text += f"{line.intercept_s!r} + {line.slope_s!r} n s at least"
        return [text, *_batches(argument.count)]
    if isinstance(argument, BalancedTime):
        return ["attention, and new tokens spread evenly over batches", *_batches(argument.count)]
    if isinstance(argument, WalkTime):
        contents = len(argument.pricing.potentials)
        return [f"closed walks through {contents} memory contents under prices of token events"]
    if isinstance(argument, PricedTime):
        horizons = argument.pricing.horizons
        prices = sum(4 * len(h.memory) for h in horizons)
        text = f"cheapest paths of requests under {prices} prices of batches, {len(horizons)} "
        return [text + "horizons", *_batches(argument.count)]
    if not isinstance(argument, PhasesTime):
        return describe_clock(argument)
    split = "attention, and new tokens before and after the last first token of requests with "
    split += f"{argument.remaining} more batches or more"
    return [split, *_batches(argument.count)]


def _batches(count: Count) -> list[str]:
    """What proves the number of batches."""
    if isinstance(count, MemoryCount):
        how = "KV memory"
        if count.threshold_pages:
            how += f", threshold {count.threshold_pages} pages"
        if count.rounding:
            how += f", rounding {count.rounding}"
        if count.head or count.tail:
            how += f", without the first {count.head} and last {count.tail}"
    elif isinstance(count, WeightCount):
        how = f"KV memory, weights of {len(count.pages)} sizes and the richest batch"
    elif isinstance(count, TokenCount | PromptCount | StepCount):
        what = {TokenCount: "tokens", PromptCount: "prefill tokens", StepCount: "steps"}
        how = what[type(count)] + (f", without the last {count.tail}" if count.tail else "")
    else:
        how = "the longest chain of steps of a request"
    return [f"batches are counted by {how}"]
