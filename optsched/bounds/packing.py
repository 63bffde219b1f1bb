"""B2, packing: the token events must be packed into N batches of floor(M / b) pages.

A function pi on sizes is *dual feasible* if pi-values of any events that fit together in a batch
sum to at most 1; then N >= sum pi(events). All arithmetic is in whole numbers. Used here, with
cap = floor(M / b) and p the pages of an event:

    rounding k      u_k(p) = x if x (k+1) is whole, else floor(x (k+1)) / k, with x = p / cap
                    (Fekete and Schepers 2001; it is at least floor(p / t) / floor(cap / t) for
                    every t with floor(cap / t) = k, and k = 1 counts events above half)
    thresholds z    1 if p > cap - z, x if z <= p <= cap - z, 0 if p < z, for z <= cap / 2
                    (the bound L2 of Martello and Toth 1990 is the best of these)

and u_k after a threshold, again dual feasible: a threshold maps what fits to what fits. Events that
no schedule has in its first h nor in its last t batches (``events``) must be packed into N - h - t.
Where few events fit into a batch, ``configuration`` finds the best pi of all.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optsched.bounds.events import TokenRuns
from optsched.bounds.sizes import size_counts
from optsched.instance import Limits

IntArray = NDArray[np.int64]
_MOST_ROUNDINGS = 64
_MOST_COMBINED = 12
_MOST_ENDS = 7
_FEW_SIZES = 500
_MOST_THRESHOLDS = 48


def packing(runs: TokenRuns, limits: Limits) -> dict[str, int]:
    """Batches needed by dual feasible functions: the best threshold, the best rounding after a
    threshold or none, and the best of both for events away from the ends."""
    pages, counts = occurring(runs, limits)
    cap = limits.kv_tokens // limits.block_tokens
    roundings = _roundings(pages, cap)
    combined = [
        rounded(sizes, counts, cap, k)
        for sizes in _after_thresholds(pages, cap)
        for k in roundings[:_MOST_COMBINED]
    ]
    return {
        "thresholds": _best_threshold(pages, counts, cap),
        "rounding": max([rounded(pages, counts, cap, k) for k in roundings] + combined),
        "away from the ends": _away_from_the_ends(runs, limits, pages.size),
    }


def _away_from_the_ends(runs: TokenRuns, limits: Limits, sizes: int) -> int:
    """Largest h + t + batches for the events that no schedule has in its first h or last t batches.

    Tried for small h and t, where a few large events decide; 0 if there are many sizes.
    """
    if sizes > _FEW_SIZES:
        return 0
    cap, best = limits.kv_tokens // limits.block_tokens, 0
    span = min(_MOST_ENDS, int((runs.earliest + runs.remaining).max()))
    for head in range(span):
        for tail in range(span):
            inner = runs.trimmed(head, tail)
            if inner.events:
                pages, counts = occurring(inner, limits)
                found = max(rounded(pages, counts, cap, k) for k in _roundings(pages, cap))
                found = max(found, _best_threshold(pages, counts, cap))
                best = max(best, head + tail + found)
    return best


def occurring(runs: TokenRuns, limits: Limits) -> tuple[IntArray, IntArray]:
    """Sizes in pages that occur, ascending, and the number of events of each."""
    counts = size_counts(runs, limits.block_tokens)
    pages = np.flatnonzero(counts).astype(np.int64)
    return pages, counts[pages]


def rounded(pages: IntArray, counts: IntArray, cap: int, k: int) -> int:
    """ceil(sum of u_k over events), exactly: u_k in units of 1 / (k (k + 1))."""
    scaled = pages * (k + 1)
    whole = scaled // cap
    values = np.where(scaled % cap == 0, whole * k, whole * (k + 1))
    return -(-int((values * counts).sum()) // (k * (k + 1)))


def _roundings(pages: IntArray, cap: int) -> range:
    """k = 1 .. the number of the smallest events that fit, at most 64: beyond, the rounding of
    sizes is below 2 % of a batch and little is left to gain on the area."""
    return range(1, min(_MOST_ROUNDINGS, max(1, cap // int(pages[0]))) + 1)


def _best_threshold(pages: IntArray, counts: IntArray, cap: int) -> int:
    """The largest sum of sizes after a threshold, in batches."""
    return max(-(-int((sizes * counts).sum()) // cap) for sizes in _after_thresholds(pages, cap))


def _after_thresholds(pages: IntArray, cap: int) -> list[IntArray]:
    """Sizes after each threshold z, in pages: cap, unchanged, or 0.

    z is 0 or a size up to half of the pages; more than 48 of these are thinned evenly.
    """
    small = pages[pages <= cap // 2]
    if small.size > _MOST_THRESHOLDS:
        small = small[np.linspace(0, small.size - 1, _MOST_THRESHOLDS).astype(np.int64)]
    return [
        np.where(pages > cap - z, cap, np.where(pages >= z, pages, 0)) for z in (0, *small.tolist())
    ]
