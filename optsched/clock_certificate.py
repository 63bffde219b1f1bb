"""Arguments about the objectives of the clock: the choices that prove a bound on a mean, and on
goodput.

As in ``optsched.certificate`` nothing here is trusted: other choices prove another value, or
nothing. ``optsched/bounds/verify/clock`` says what each proves, and why.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from optsched.errors import require, require_count
from optsched.line import Line
from optsched.time_pricing import CallPrices, TimePrices

_MOST_PARTS = 2**30
_MOST_PRICES = 1_000_000
_MOST_PRICE = 2**200


class Shares(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the intercept of a line is split among what a batch has only so much of.

    Each number over the sum of all is the part of the intercept that is shared out by KV memory
    held, tokens processed, prefill tokens processed, and requests processed; ``setups`` is the part
    that a batch pays whatever it holds.
    """

    memory: int = 0
    tokens: int = 0
    prefill: int = 0
    requests: int = 0
    setups: int = 0

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            require_count(f"shares.{name}", getattr(self, name), 0, _MOST_PARTS)
        require(self.parts >= 1, "shares", self.parts, "at least one part")

    @property
    def parts(self) -> int:
        """The number that all are counted against."""
        return self.memory + self.tokens + self.prefill + self.requests + self.setups


class SharedOrder(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="shared-machine"
):
    """The k-th request is done no sooner than by shortest remaining charge first (B6)."""

    line: Line
    shares: Shares


class SmallestOrder(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="k-smallest"
):
    """The k-th request is done no sooner than the k smallest of everything allow (B6, B1)."""

    line: Line


class AloneOrder(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="alone"
):
    """The k-th request is done no sooner than the k-th of all if each had the machine alone."""


Order: TypeAlias = SharedOrder | SmallestOrder | AloneOrder


class OrderedMean(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="k-th-times"
):
    """The k-th time to be reached is at least the largest that any of ``orders`` gives (B6)."""

    orders: tuple[Order, ...]

    def __post_init__(self) -> None:
        require(1 <= len(self.orders) <= 20, "orders", len(self.orders), "1 to 20")


class GroupedMean(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="serial-batches"
):
    """Requests are done in groups, each of which delays all that come after it (B7).

    Parameters
    ----------
    line, shares
        The set-up of a group is the ``setups`` part of the intercept.
    starts_s : tuple of float
        Arrivals on the instance's clock, ascending: the requests that arrive from one of them on
        and before the next are treated on their own, none of them before its start.
    """

    line: Line
    shares: Shares
    starts_s: tuple[float, ...]

    def __post_init__(self) -> None:
        starts = list(self.starts_s)
        require(starts == sorted(set(starts)), "starts_s", len(starts), "ascending times")


class UniformMean(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="uniform"
):
    """Equal requests that are all there from the start: a point and prices for the quadratic
    program over how many requests end in which batch (B8), whose paths are followed (B3).

    Parameters
    ----------
    line
        Below the batch-time law.
    ends, counts : tuples of int
        The point: ``counts`` over 2 ** ``count_bits`` requests end in batch ``ends``, ascending.
    bucket_batches : int
        Prices are the same for so many consecutive batches; none after the last bucket.
    memory, tokens, prefill : tuples of int
        Per bucket, in 2 ** -``unit_bits`` seconds: prices of a page held in one batch, of a token
        processed, and of a prefill token on top of that.
    """

    line: Line
    ends: tuple[int, ...]
    counts: tuple[int, ...]
    count_bits: int
    bucket_batches: int
    memory: tuple[int, ...]
    tokens: tuple[int, ...]
    prefill: tuple[int, ...]
    unit_bits: int

    def __post_init__(self) -> None:
        require_ascending("ends", self.ends, 1)
        require_prices("counts", self.counts, len(self.ends))
        require_count("bucket_batches", self.bucket_batches, 1, _MOST_PRICES)
        for name in ("memory", "tokens", "prefill"):
            require_prices(name, getattr(self, name), len(self.memory))
        require_count("count_bits", self.count_bits, 0, 1000)
        require_count("unit_bits", self.unit_bits, 0, 1000)


class PricedWork(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="priced-time"
):
    """Prices of machine time in units of weight: a request counts if its weight exceeds what its
    charges cost where its objectives let them be.

    Parameters
    ----------
    line, shares
        What a batch's time is charged with.
    starts_s : tuple of float
        Where each price begins, on the instance's clock, ascending; time before the first has no
        price, the last price holds until ``end_s`` and time from there on has none.
    prices : tuple of int
        In 2 ** -``unit_bits`` units of weight per second.
    """

    line: Line
    shares: Shares
    starts_s: tuple[float, ...]
    end_s: float
    prices: tuple[int, ...]
    unit_bits: int

    def __post_init__(self) -> None:
        starts = [*self.starts_s, self.end_s]
        require(starts == sorted(set(starts)), "starts_s, end_s", len(starts), "ascending times")
        require(max(map(abs, starts)) < float("inf"), "starts_s, end_s", starts[-1], "finite times")
        require_prices("prices", self.prices, len(self.starts_s))
        require_count("unit_bits", self.unit_bits, 0, 1000)


class MachineChains(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="machine-chains"
):
    """One machine serves the charge of each request's first token, then that of the rest."""

    line: Line
    shares: Shares


class LimitedMean(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="limited-mean"
):
    """A bound on ``first`` x mean TTFT + ``whole`` x mean latency, of which one is limited.

    Parameters
    ----------
    first, whole : int
        Weights; what matters is their ratio.
    weighted : MachineChains or TimePrices
        What bounds the weighted sum.
    """

    first: int
    whole: int
    weighted: MachineChains | TimePrices

    def __post_init__(self) -> None:
        require_count("first", self.first, 1, _MOST_PARTS)
        require_count("whole", self.whole, 1, _MOST_PARTS)


ClockArgument: TypeAlias = (
    OrderedMean | GroupedMean | UniformMean | PricedWork | TimePrices | CallPrices | LimitedMean
)


def require_ascending(name: str, values: tuple[int, ...], at_least: int) -> None:
    """Whole numbers, each larger than the one before."""
    require(list(values) == sorted(set(values)), name, len(values), "ascending whole numbers")
    require(
        min(values, default=at_least) >= at_least, name, min(values, default=0), f">= {at_least}"
    )
    require(max(values, default=0) <= 10**9, name, max(values, default=0), "at most 10^9")
    require(len(values) <= _MOST_PRICES, name, len(values), f"at most {_MOST_PRICES}")


def require_prices(name: str, values: tuple[int, ...], count: int) -> None:
    """``count`` whole numbers >= 0 of a reasonable size."""
    require(len(values) == count <= _MOST_PRICES, name, len(values), f"{count} numbers")
    low, high = min(values, default=0), max(values, default=0)
    require(0 <= low <= high <= _MOST_PRICE, name, low if low < 0 else high, "numbers >= 0")
