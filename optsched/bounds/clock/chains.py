"""First tokens and ends on one machine, in floating point; ``verify.clock.chains`` has the
argument."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optsched.bounds.clock.first_prices import served

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Jobs:
    """Parts of requests: arrays over jobs, and what the weighted sum is more than theirs."""

    release_s: FloatArray
    work_s: FloatArray
    weight: FloatArray
    constant: float


def jobs_of(
    release_s: FloatArray, fill_s: FloatArray, rest_s: FloatArray, first: float, whole: float
) -> Jobs:
    """The fill and the rest of each request, as one job where the rest is worth more per second."""
    apart = first * rest_s >= whole * fill_s
    together = ~apart
    both = fill_s + rest_s
    twice = np.where(
        apart, first * fill_s + whole * rest_s, first * (fill_s - rest_s) + whole * both
    )
    counts = (apart.sum(), apart.sum(), together.sum())
    release = np.concatenate([release_s[apart], release_s[apart], release_s[together]])
    work = np.concatenate([fill_s[apart], rest_s[apart], both[together]])
    weight = np.repeat([first, whole, first + whole], counts)
    idle = work <= 0
    constant = float(twice.sum() / 2 + (weight * release)[idle].sum())
    return Jobs(
        release_s=release[~idle], work_s=work[~idle], weight=weight[~idle], constant=constant
    )


def chained_sum(
    release_s: FloatArray, fill_s: FloatArray, rest_s: FloatArray, first: float, whole: float
) -> float:
    """Least sum of ``first`` x time of the first token + ``whole`` x end."""
    jobs = jobs_of(release_s, fill_s, rest_s, first, whole)
    rank = jobs.work_s / jobs.weight
    if not release_s.any():
        order = np.argsort(rank, kind="stable")
        ends = np.cumsum(jobs.work_s[order])
        middle = ends - jobs.work_s[order] / 2
        return jobs.constant + float((jobs.weight[order] * middle).sum())
    spans = served(jobs.release_s, rank, jobs.work_s)
    start, end, least = np.array(spans).T
    return jobs.constant + float(((end - start) * (end + start) / least).sum()) / 2
