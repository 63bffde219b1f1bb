"""B8: mean latency of equal requests that are all there from the start.

Let c_N of the n requests end in batch N, T_N be the end of batch N, and omega(s) convex and at most
the least work of a request's first s events (``charges`` without shares: tokens, attention, its
part of d0 and p0). A request makes at most one token per batch, so one that ends in batch N' has
made at least O - (N' - N) by the end of batch N, and, with the work x_j of refills that the work of
events leaves out,

    T_N >= a N + sum over N' of c_N' omega(O - max(0, N' - N)) + sum over j <= N of x_j
    sum of ends = sum of c_N T_N >= a sum of N c_N + c'Hc / 2 + sum of x_j (requests not done by j)
    H_NN' = omega(O) + omega(O - |N - N'|)

omega is 0 at s <= 0, so omega(O - d) is convex, falling and nonnegative in d >= 0: a mixture of
triangles (Polya), which makes H positive semidefinite, so c'Hc / 2 >= y'Hc - y'Hy / 2 for every y.
Each request that is done by batch j - 1 had its events of all sizes by then, so there are at least
r_j = n - floor((j - 1) floor(M / b) / (their pages)) others, likewise by tokens, and 1 at least.

What a batch holds is limited: floor(M / b) pages, C tokens, F = min(C, P) prefill tokens. With
prices lam_j, mu_j, nu_j >= 0 of these, and any y,

    sum of ends >= n (cheapest path) - y'Hy / 2 - sum over j of (lam_j M / b + mu_j C + nu_j F)

A path (``equal_paths``) puts a request's events in batches; it pays lam, mu and nu for what it
holds and processes, rx(S) r_j for a refill in batch j, and a N + (Hy)_N if it ends in batch N.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from optsched.bounds.verify.clock.charges import charged_steps
from optsched.bounds.verify.clock.equal_paths import SAFE, Paths, cheapest
from optsched.bounds.verify.clock.times import Clock
from optsched.bounds.verify.events import pages_of
from optsched.bounds.verify.refuted import hold
from optsched.bounds.verify.units import Units
from optsched.bounds.verify.workload import Workload
from optsched.clock_certificate import Shares, UniformMean
from optsched.line import Line
from optsched.objective import Objective

Whole = NDArray[np.object_]  # Python's whole numbers
_MOST_CELLS, _MOST_BATCHES, _MOST_ENDS = 100_000_000, 2_000_000, 3_000
_NO_SHARES = Shares(setups=1)


def uniform_mean(clock: Clock, argument: UniformMean) -> Fraction:
    """The least mean, in seconds from arrival."""
    workload, units = clock.workload, clock.units
    hold(clock.objective is Objective.MEAN_LATENCY, "the argument bounds the mean latency")
    first, n = workload.requests[0], len(workload.requests)
    hold(
        not any(clock.releases) and not any(r.calls for r in workload.requests)
        and all(
            (r.prompt_tokens, r.output_tokens) == (first.prompt_tokens, first.output_tokens)
            for r in workload.requests
        ),
        "the requests are not equal and all there from the start",
    )  # fmt: skip
    output, fewest = first.output_tokens, workload.events[0][0].earliest + first.output_tokens - 1
    priced = argument.bucket_batches * len(argument.memory)
    # Where nothing is priced and y is out of reach a later end only costs more.
    last = max((priced, fewest, *argument.ends)) + output
    cells = (last + 1) * (len(argument.ends) + output + 1)
    hold(
        cells <= _MOST_CELLS and last <= _MOST_BATCHES and len(argument.ends) <= _MOST_ENDS,
        "the point and its prices are too large to be checked",
    )
    work, refill = work_of(workload, argument.line, units)
    scale = units.per_second << argument.count_bits
    ended = np.arange(last + 1, dtype=object) * (
        units.of(argument.line.intercept_s) << argument.count_bits
    )
    for end, count in zip(argument.ends, argument.counts, strict=True):
        _add_kernel(ended, work, end, count)
    unit = 1 << argument.unit_bits
    prices = _per_batch(argument, last)
    paths = Paths(
        fewest=fewest, output=output, ends=ended[1:] * unit // scale, prices=prices,
        refills=np.array([again * unit // units.per_second for again in refill], dtype=object),
        waiting=waiting(workload, last),
        pages=np.array([pages_of(first.prompt_tokens + k, workload.limits.block_tokens)
                        for k in range(output)], dtype=object),
        prompt=first.prompt_tokens, refill_tokens=not workload.limits.host_kv_tokens,
    )  # fmt: skip
    hold(paths.largest < SAFE, "prices exceed 64 bits")
    limits = workload.limits
    capacity = (workload.cap, limits.batch_tokens, limits.fill_tokens)
    paid = argument.bucket_batches * sum(
        have * sum(column)
        for have, column in zip(
            capacity, (argument.memory, argument.tokens, argument.prefill), strict=True
        )
    )
    square = sum(
        one * two * (int(work[output]) + int(work[max(0, output - abs(m - n_))]))
        for m, one in zip(argument.ends, argument.counts, strict=True)
        for n_, two in zip(argument.ends, argument.counts, strict=True)
    )
    total = Fraction(n * cheapest(paths) - paid, unit)
    return (total - Fraction(square, 2 * scale << argument.count_bits)) / n


def work_of(workload: Workload, line: Line, units: Units) -> tuple[Whole, list[int]]:
    """omega(0), .., omega(O) of equal requests, a convex sequence, and what a refill costs more
    than the work of event 0, 1, .., at least; in units."""
    fills, decodes = charged_steps(workload, line, _NO_SHARES, units)
    prompt, output = workload.requests[0].prompt_tokens, workload.requests[0].output_tokens
    part = units.of(workload.cost.d0) // workload.cap
    decode = decodes.decodes(per_page=part, block_tokens=workload.limits.block_tokens)
    steps, refill = [fills.fill(prompt)], [0]
    before = fills.fill(prompt)
    for size in range(prompt + 1, prompt + output):
        again = fills.fill(size)
        steps.append(min(again, decode(size)))
        excess = min(again, before + decode(size)) - steps[-1]
        if workload.limits.host_kv_tokens:
            excess = min(excess, 2 * units.of(workload.cost.swap_tok) * (size - 1))
        refill.append(max(0, excess))
        before = again
    return convex_below(list(accumulate(steps, initial=0))), refill


def waiting(workload: Workload, batches: int) -> NDArray[np.int64]:
    """r_1, r_2, ..: requests that are not done before a batch, at least."""
    own, limits, n = workload.events[0][0], workload.limits, len(workload.requests)
    pages = sum(pages_of(size, limits.block_tokens) for size in range(own.low, own.high + 1))
    earlier = np.arange(batches, dtype=np.int64)
    done = np.minimum(earlier * workload.cap // pages, earlier * limits.batch_tokens // own.high)
    left: NDArray[np.int64] = np.maximum(1, n - np.minimum(done, n))
    return left


def convex_below(values: list[int]) -> Whole:
    """A convex sequence of whole numbers at most ``values``, which start with 0 and rise.

    The lower hull, rounded: along an edge of length l and rise r the steps are floor(r / l) and
    ceil(r / l), the smaller ones first; where edges meet, a step above a later one is lowered.
    """
    corners = [0]
    for k in range(1, len(values)):
        while len(corners) >= 2 and _above(values, corners[-2], corners[-1], k):
            corners.pop()
        corners.append(k)
    steps: list[int] = []
    for i, j in pairwise(corners):
        low, more = divmod(values[j] - values[i], j - i)
        steps += [low] * (j - i - more) + [low + 1] * more
    rising = list(accumulate(reversed(steps), min))[::-1]
    return np.array(list(accumulate(rising, initial=0)), dtype=object)


def _above(values: list[int], i: int, j: int, k: int) -> bool:
    """Whether the point at j is on or above the chord from i to k."""
    return (values[j] - values[i]) * (k - i) >= (values[k] - values[i]) * (j - i)


def _add_kernel(ended: Whole, work: Whole, end: int, count: int) -> None:
    """Add count * H(N, end) for all N = 0, 1, .."""
    output = len(work) - 1
    ended += count * work[output]
    after = work[:0:-1] * count  # omega(O), .., omega(1)
    ended[end : end + output] += after[: max(0, len(ended) - end)]
    first = max(0, end - output + 1)
    ended[first:end] += after[1 : end - first + 1][::-1]


def _per_batch(argument: UniformMean, batches: int) -> tuple[Whole, Whole, Whole]:
    """Prices of pages, tokens and prefill tokens in batch 1, 2, ..; 0 after the last bucket."""

    def spread(column: tuple[int, ...]) -> Whole:
        prices = np.zeros(batches, dtype=object)
        each = np.repeat(np.array(column, dtype=object), argument.bucket_batches)
        prices[: each.size] = each
        return prices

    return spread(argument.memory), spread(argument.tokens), spread(argument.prefill)
