"""Certificate: a claimed bound on an objective, and what proves it.

A certificate holds the whole instance and the few choices that a proof consists of (which line
below the law, which counting argument, from which arrival on): everything else is recomputed when
it is checked. The choices are not trusted; other ones prove another value, or nothing.

A bound in seconds needs a number of batches, so an argument is a tree of records: *counts* prove
that every schedule has at least so many batches, *times* turn a count into seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeAlias

import msgspec

from optsched.clock_certificate import ClockArgument
from optsched.errors import require
from optsched.instance import Instance
from optsched.line import Line as Line
from optsched.objective import Objective
from optsched.pricing import BatchPricing
from optsched.walk_pricing import WalkPricing


class MemoryCount(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="memory"
):
    """Token events of S tokens hold ceil(S / b) pages of floor(M / b) in their batch (B1, B2).

    Parameters
    ----------
    head, tail : int
        h and t: only events that no schedule has in its first h nor in its last t batches count,
        and the bound is h + t + what they need.
    threshold_pages : int
        z: events of fewer than z pages count nothing, those of more than floor(M / b) - z pages
        a whole batch; 0 for none.
    rounding : int
        k of Fekete and Schepers' u_k, applied after the threshold; 0 for none.
    """

    head: int = 0
    tail: int = 0
    threshold_pages: int = 0
    rounding: int = 0


class WeightCount(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="weights"
):
    """An event of ``pages[s]`` pages earns ``weights[s]``; a knapsack says how much the richest
    batch earns (B2). Events of other sizes earn nothing."""

    pages: tuple[int, ...]
    weights: tuple[int, ...]

    def __post_init__(self) -> None:
        require(
            len(self.pages) == len(self.weights) == len(set(self.pages)), "weights.pages",
            len(self.pages), f"{len(self.weights)} different sizes, one per weight",
        )  # fmt: skip
        require(
            min(self.pages, default=1) >= 1, "weights.pages", min(self.pages, default=1), ">= 1"
        )
        lowest = min(self.weights, default=0)
        require(lowest >= 0, "weights.weights", lowest, "whole numbers >= 0")


class TokenCount(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="tokens"
):
    """New tokens that lie before the last ``tail`` batches of every schedule, C per batch (B1)."""

    tail: int = 0


class PromptCount(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="prompts"
):
    """Prefill tokens that lie before the last ``tail`` batches, min(C, P) per batch (B1)."""

    tail: int = 0


class StepCount(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="steps"):
    """Steps that lie before the last ``tail`` batches, ``batch_requests`` per batch (B1)."""

    tail: int = 0


class ChainCount(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="chain"
):
    """The steps of one request lie in distinct batches (B1)."""


Count: TypeAlias = MemoryCount | WeightCount | TokenCount | PromptCount | StepCount | ChainCount


class LineTime(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="line"):
    """Batches under a line below the law: a N0 + work + set-ups (B0, B1, B2, L2, L4)."""

    count: Count
    line: Line


class BalancedTime(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="balanced"
):
    """New tokens spread evenly over the batches, by convexity of the law (L1)."""

    count: Count


class PhasesTime(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="phases"
):
    """Prompts are done before the last decodes (L3).

    Parameters
    ----------
    remaining : int
        The split is at the last first token of the requests that need at least this many batches
        after theirs.
    lines : tuple of Line
        Used in pairs, one before and one after the split.
    intervals : int
        Where the split may be is cut into this many intervals.
    """

    count: Count
    remaining: int
    lines: tuple[Line, ...]
    intervals: int

    def __post_init__(self) -> None:
        require(self.remaining >= 0, "phases.remaining", self.remaining, "a number >= 0")
        require(
            1 <= self.intervals <= 100_000, "phases.intervals", self.intervals, "1 to 100000"
        )  # fmt: skip
        require(1 <= len(self.lines) <= 100, "phases.lines", len(self.lines), "1 to 100 lines")
        work = self.intervals * len(self.lines) ** 2
        require(work <= 10**7, "phases.intervals x lines^2", work, "at most 10000000")


class PricedTime(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="priced-batches"
):
    """Prices per batch of what a batch has only so much of, and cheapest paths under them (B3)."""

    count: Count
    pricing: BatchPricing


class WalkTime(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="walks"):
    """Prices of stages and potentials of memory contents: a schedule is a closed walk (B4)."""

    pricing: WalkPricing


HELD_PARTS = 64  # of a bound that are shared out between work and memory


class HeldTime(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="held-calls"
):
    """Work under a line, and memory over time with what calls hold; each call is handled at the
    least price (B9).

    Parameters
    ----------
    memory_parts : int
        theta: so many of ``HELD_PARTS`` parts of the bound are memory, the others work.
    """

    count: Count
    line: Line
    memory_parts: int

    def __post_init__(self) -> None:
        require(
            0 <= self.memory_parts <= HELD_PARTS, "held-calls.memory_parts", self.memory_parts,
            f"0 to {HELD_PARTS}",
        )  # fmt: skip


OfflineTime: TypeAlias = LineTime | BalancedTime | PhasesTime | PricedTime | WalkTime | HeldTime


class PathTime(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="critical-path"
):
    """The request called ``request`` finishes no sooner than it would alone."""

    request: str


class ArrivalTime(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="arrivals"
):
    """Requests that arrive at ``from_s`` (on the instance's clock) or later start then (B5)."""

    from_s: float
    late: OfflineTime


class WindowTime(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="window"
):
    """Of the requests that arrive from ``from_s`` to ``until_s``, on the instance's clock, the last
    one waits for all: for the latest arrival among them, for the largest latency."""

    from_s: float
    until_s: float
    window: OfflineTime


class OwnLatency(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="own-latency"
):
    """The request called ``request`` takes no less than it would alone."""

    request: str


Argument: TypeAlias = OfflineTime | PathTime | ArrivalTime | WindowTime | OwnLatency | ClockArgument


class Certificate(msgspec.Struct, frozen=True, kw_only=True):
    """A bound on an objective that holds for every schedule of ``instance``.

    Parameters
    ----------
    instance : Instance
        What the claim is about.
    digest : str
        Digest of the instance that the claim was made for.
    bound_s : float
        The claim: no schedule has less, in seconds; for goodput no schedule has more, in weight.
    proof : str
        Name of the argument, as ``optsched bound`` prints it.
    argument : Argument
        The choices that prove it.
    objective : Objective
        What the bound is on.
    subject_to : mapping of Objective to float
        The bound holds for the schedules whose other objectives are at most (``goodput``: at least)
        this.
    """

    instance: Instance
    digest: str
    bound_s: float
    proof: str
    argument: Argument
    objective: Objective = Objective.MAKESPAN
    subject_to: Mapping[Objective, float] = MappingProxyType({})

    def __post_init__(self) -> None:
        require(abs(self.bound_s) < float("inf"), "bound_s", self.bound_s, "a finite number")
        for other, limit in self.subject_to.items():
            require(0 <= limit < float("inf"), f"subject_to.{other}", limit, "a number >= 0")
