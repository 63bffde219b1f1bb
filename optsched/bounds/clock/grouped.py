"""B7, requests done in groups, in floating point; ``verify.clock.grouped`` has the argument."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from optsched.bounds.clock.charges import Charges, Charging
from optsched.bounds.clock.found import Found, Question
from optsched.clock_certificate import GroupedMean, Shares
from optsched.objective import Objective

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
_MOST_CUTS = 6  # arrival times that are cut into windows in every way
_SETUPS = {"quick": (4,), "normal": (4, 3, 2, 1), "thorough": (8, 7, 6, 5, 4, 3, 2, 1)}


def grouped_bounds(question: Question) -> dict[str, Found]:
    """The best of B7 for a mean: the best line and shares for one way to cut time into windows, and
    the best windows for them."""
    charging, first = Charging(question.instance), question.objective is Objective.MEAN_TTFT
    windows = _windows(question.instance.release_s)
    best = _better(charging, first, None, windows[len(windows) // 2], Shares(setups=1))
    for shares in _shares(question.effort, charging.corners):
        if question.left_s > 0:
            best = _better(charging, first, best, windows[len(windows) // 2], shares)
    for starts in windows:
        if question.left_s > 0:
            best = _better(charging, first, best, starts, None)
    return {"B7 serial batches": best}


def _better(
    charging: Charging, first: bool, best: Found | None, starts: IntArray, shares: Shares | None
) -> Found:
    """The best of ``best`` and windows that begin with the arrivals of requests ``starts``, under
    ``shares`` and every line, or else under those of ``best``."""
    lines = charging.lines
    if shares is None:
        assert best is not None
        assert isinstance(best.argument, GroupedMean)
        lines, shares = (best.argument.line,), best.argument.shares
    for line in lines:
        charges = charging(line, shares, prefill_groups=first)
        value = _mean(charging, charges, starts, first)
        if best is None or value > best.value:
            since = tuple(charging.instance.requests[int(i)].arrival_s for i in starts)
            argument = GroupedMean(line=line, shares=shares, starts_s=since)
            best = Found(value=value, argument=argument)
    assert best is not None
    return best


def _shares(effort: str, corners: tuple[Shares, ...]) -> Iterator[Shares]:
    """Part of the intercept for set-ups, the rest shared as by one of ``corners``."""
    parts = max(_SETUPS[effort])
    for setups in _SETUPS[effort]:
        if setups < parts:
            for corner in corners:
                rest = parts - setups
                yield Shares(
                    memory=rest * corner.memory, tokens=rest * corner.tokens,
                    prefill=rest * corner.prefill, requests=rest * corner.requests, setups=setups,
                )  # fmt: skip


def _windows(release_s: FloatArray) -> list[IntArray]:
    """Ways to cut time at arrivals, each as one request that arrives first in each window."""
    times, firsts = np.unique(release_s, return_index=True)
    count = times.size
    if count <= _MOST_CUTS:
        cuts = (c for size in range(count) for c in combinations(range(1, count), size))
        return [firsts[[0, *chosen]] for chosen in cuts]
    sizes = [2**k for k in range(count.bit_length())] + [count]
    return [firsts[np.linspace(0, count, n, endpoint=False).astype(int)] for n in sizes]


def _mean(charging: Charging, charges: Charges, starts: IntArray, first: bool) -> float:
    """The least mean time from arrival with windows that begin with the arrivals of ``starts``."""
    release, runs = charging.instance.release_s, charging.runs
    own = charges.first if first else charges.whole
    chains = runs.earliest[runs.first]
    if not first:
        chains = chains + runs.remaining[runs.first]
    window = np.searchsorted(release[starts], release, side="right") - 1
    order = np.argsort(window, kind="stable")
    total = 0.0
    ends = np.flatnonzero(np.diff(window[order])) + 1
    for start, members in zip(release[starts], np.split(order, ends), strict=True):
        ahead = float(start) + (int(chains[members].min()) - 1) * charges.setup_s
        total += members.size * ahead + least_sum(own[members], charges.setup_s)
    return (total - float(release.sum())) / release.size


def least_sum(charges: FloatArray, setup_s: float) -> float:
    """Least sum of ends of groups, each taking ``setup_s`` and the charges of its requests."""
    sums = np.concatenate(([0.0], np.cumsum(np.sort(charges)))).tolist()
    count = len(sums) - 1
    if setup_s == 0:
        return float(sum(sums))
    # The lower envelope of lines (slope, intercept) by falling slope; see ``verify.clock.grouped``.
    slopes, heights, at, best = [sums[count]], [0.0], 0, 0.0
    for k in range(count - 1, -1, -1):
        left = count - k
        at = min(at, len(slopes) - 1)
        while at + 1 < len(slopes) and (
            slopes[at + 1] * left + heights[at + 1] <= slopes[at] * left + heights[at]
        ):
            at += 1
        best = left * (setup_s - sums[k]) + slopes[at] * left + heights[at]
        slope = sums[k]
        while len(slopes) >= 2 and (best - heights[-2]) * (slopes[-2] - slopes[-1]) <= (
            heights[-1] - heights[-2]
        ) * (slopes[-2] - slope):
            slopes.pop()
            heights.pop()
        slopes.append(slope)
        heights.append(best)
    return float(best)
