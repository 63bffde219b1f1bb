"""Prices of batches: the numbers that prove a time-indexed Lagrangian bound.

Any prices >= 0 prove some bound; these records hold them as whole numbers of a binary fraction of
a second, so that what is stored is exactly what is evaluated.
"""

from __future__ import annotations

import msgspec

from optsched.errors import require, require_count

_MOST_BATCHES = 10**7  # keeps a check of crafted prices short
_MOST_BUCKETS = 1_000_000


class PricedBatches(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Prices for schedules of at most ``most_batches`` batches.

    Parameters
    ----------
    most_batches : int
        n, the horizon.
    bucket_batches : int
        The prices are the same for so many consecutive batches.
    stride : int
        Paths are followed in steps of so many batches: a divisor of ``bucket_batches`` and a
        multiple of the page size.
    unit_bits : int
        Prices count units of 2 ** -unit_bits seconds.
    memory, tokens, prefill, requests : tuple of int
        Per bucket: price of a KV token held in one batch, of a token processed on top of the
        smallest slope of the law, of a prefill token, and of a request processed.
    """

    most_batches: int
    bucket_batches: int
    stride: int
    unit_bits: int
    memory: tuple[int, ...]
    tokens: tuple[int, ...]
    prefill: tuple[int, ...]
    requests: tuple[int, ...]

    def __post_init__(self) -> None:
        require_count("most_batches", self.most_batches, 1, _MOST_BATCHES)
        require_count("stride", self.stride, 1, _MOST_BATCHES)
        require_count("bucket_batches", self.bucket_batches, 1, _MOST_BATCHES)
        require(
            self.bucket_batches % self.stride == 0, "stride", self.stride,
            f"a divisor of bucket_batches = {self.bucket_batches}",
        )  # fmt: skip
        require(0 <= self.unit_bits <= 1000, "unit_bits", self.unit_bits, "0 to 1000")
        buckets = -(-self.most_batches // self.bucket_batches)
        require(buckets <= _MOST_BUCKETS, "buckets", buckets, f"at most {_MOST_BUCKETS}")
        for name in ("memory", "tokens", "prefill", "requests"):
            prices = getattr(self, name)
            require(len(prices) == buckets, name, len(prices), f"one price for each of {buckets}")
            require(min(prices) >= 0, name, min(prices), "whole numbers >= 0")


class BatchPricing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that a time-indexed Lagrangian bound consists of, but for the least number of
    batches that it starts from.

    Parameters
    ----------
    cells : tuple of int
        Ascending: requests with prompts up to one of these sizes share path evaluations.
    counted : bool
        Whether the set-up of decodes is counted per batch, or shared among its decodes.
    knee_tokens, excess_s : int, float
        Each prefill step of c tokens is charged excess_s * max(0, c - knee_tokens) seconds more,
        and its batch so much less.
    beyond_slope_s : float
        Price of every token, in seconds, in schedules with more batches than any horizon.
    horizons : tuple of PricedBatches
        By ``most_batches``, ascending; each is used for schedules with more batches than the one
        before it allows.
    """

    cells: tuple[int, ...]
    counted: bool
    knee_tokens: int
    excess_s: float
    beyond_slope_s: float
    horizons: tuple[PricedBatches, ...]

    def __post_init__(self) -> None:
        most = [h.most_batches for h in self.horizons]
        require(most == sorted(set(most)), "horizons", most, "ascending most_batches")
        require(list(self.cells) == sorted(set(self.cells)), "cells", self.cells, "ascending sizes")
        excess = self.excess_s
        require(0 <= excess < float("inf"), "excess_s", excess, "a finite number >= 0")
        require(self.knee_tokens >= 1, "knee_tokens", self.knee_tokens, "a number >= 1")
        slope = self.beyond_slope_s
        require(0 <= slope < float("inf"), "beyond_slope_s", slope, "a finite number >= 0")
