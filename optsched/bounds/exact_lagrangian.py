"""B3, the time-indexed Lagrangian bound, evaluated exactly for given prices.

Let b be the smallest slope of the law (or time per token, if that is less), and lam_j, mu_j, nu_j,
kap_j >= 0 prices of batch j: per KV token held, per token processed, per prefill token and per
request processed. A batch of n tokens takes at least gam_j + (b + mu_j) n + e (n - n*)^+ beside
attention and set-ups, with

    gam_j = min over n of g(n) - (b + mu_j) n - e (n - n*)^+

for any n* and e >= 0. The last term is superadditive, so each prefill chunk may be charged its own,
which makes long fills read their first chunks again (L4).

Let W be the unavoidable work at b per token, with its set-ups and that excess (B0), and rx(S) >= 0
what a refill to S tokens costs more than W has for that event. In a schedule with N batches the
batches together hold at most M lam_j, fill P nu_j and serve Q kap_j. Add these and give every
request what it uses:

    T >= W + sum over j <= N of (gam_j - M lam_j - P nu_j - Q kap_j) + sum over requests of its path

A path puts the request's tokens k = 0, 1, .. in batches j_0 < j_1 < ..: a token made at S tokens of
KV costs lam_j S + mu_j + kap_j; a batch between two of them costs lam_j (S - 1) if the KV stays;
otherwise all of these are free and the refill costs rx(S) and, for its first S - 1 tokens (the last
may be a decode), the least mu + nu up to its batch. So does the first fill for all its tokens. What
these leave out is >= 0. So for every N from the least possible one to a horizon n,

    T >= W + (cheapest paths in n batches) + min over N of the sum over j <= N

and beyond the last horizon with a constant mu and nothing else priced, gam >= 0:

    T >= W + gam (n + 1) + mu X           X = tokens that every schedule processes

Where host memory exists, KV may also come back by a copy: rx(S) is the smaller of the two, and the
tokens of refills stay free.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from optsched.bounds.path_dp import SAFE, PathPrices
from optsched.bounds.path_total import Demand, Refills, demand, total_price
from optsched.bounds.verify.counts import decode_batches, prefill_batches
from optsched.bounds.verify.law import Law, law_of
from optsched.bounds.verify.refuted import hold
from optsched.bounds.verify.steps import Decodes, Steps, steps_of
from optsched.bounds.verify.units import Units, cost_doubles, units_for
from optsched.bounds.verify.work import MOST_SIZES, work
from optsched.bounds.verify.workload import Workload
from optsched.certificate import Line
from optsched.instance import Instance
from optsched.pricing import BatchPricing, PricedBatches


@dataclass(frozen=True, kw_only=True)
class Ground:
    """What does not depend on prices: all times in ``units``.

    Parameters
    ----------
    work : int
        W with the set-ups of decodes and prefills.
    refill : tuple of int
        A lower bound on rx at every size from 0 to the largest; nondecreasing.
    slope : int
        b.
    knee_tokens, excess : int
        n* and e.
    """

    instance: Instance
    units: Units
    law: Law
    slope: int
    knee_tokens: int
    excess: int
    work: int
    refill: tuple[int, ...]
    requests: Demand

    @cached_property
    def corners(self) -> tuple[tuple[int, int], ...]:
        """(n, g(n) - b n - e (n - n*)^+) for the n >= 1 between which this is linear."""
        law, knee = self.law, self.knee_tokens
        tokens = {n for n in law.corners if n} | {min(knee, law.most)}
        return tuple(
            (n, law(n) - self.slope * n - self.excess * max(0, n - knee)) for n in sorted(tokens)
        )

    @property
    def memory(self) -> int:
        """KV tokens of a batch, in whole pages."""
        limits = self.instance.limits
        return limits.kv_tokens // limits.block_tokens * limits.block_tokens

    @property
    def new_tokens(self) -> int:
        """X."""
        instance = self.instance
        return int((instance.prompt_tokens + instance.output_tokens - 1).sum())


def ground(
    instance: Instance, *, counted: bool, knee_tokens: int = 1, excess_s: float = 0.0,
    beyond_slope_s: float = 0.0,
) -> Ground | None:  # fmt: skip
    """W and rx of ``instance``; None where set-ups of decodes may not be counted (see
    ``verify.work``: some refill costs less than d0 more than the decode that it replaces).

    ``beyond_slope_s`` only makes the unit fine enough for it.
    """
    cost, limits = instance.cost, instance.limits
    load = Workload(instance.requests, limits, cost)
    doubles = [*cost_doubles(cost), cost.swap_tok, beyond_slope_s, excess_s]
    units = units_for(doubles, load.cap)
    law = law_of(cost, limits.batch_tokens, units)
    # No more than the least time per token, so that gam >= 0 where nothing is priced.
    slope = min([beta for _, beta in law.pieces] + [law(n) // n for n in law.corners if n])
    line = Line(intercept_s=0.0, slope_s=0.0, knee_tokens=knee_tokens, excess_s=excess_s)
    steps = steps_of(cost, limits.fill_tokens, units, slope, line)
    d0 = units.of(cost.d0)
    requests = demand(instance.prompt_tokens, instance.output_tokens)
    own_set_up = 0 if counted else d0 // load.cap
    block = limits.block_tokens

    decode = steps.decodes(per_page=own_set_up, block_tokens=block)
    hold(
        requests.largest <= MOST_SIZES,
        f"refills to {requests.largest} sizes are too many to be priced",
    )
    refill = _refills(steps, decode, requests.largest, d0 if counted else 0)
    smallest = int(requests.prompt.min()) + 1
    if counted and any(excess < 0 for excess in refill[smallest:]):
        return None
    if limits.host_kv_tokens:
        copied = 2 * units.of(cost.swap_tok)
        refill = [min(excess, copied * max(0, s - 1)) for s, excess in enumerate(refill)]
    for size in range(len(refill) - 2, -1, -1):
        refill[size] = min(refill[size], refill[size + 1])
    setups = units.of(cost.p0) * prefill_batches(load)
    if counted and int(requests.output.max()) > 1:
        setups += d0 * decode_batches(load)
    return Ground(
        instance=instance, units=units, law=law, slope=slope, knee_tokens=knee_tokens,
        excess=units.of(excess_s),
        work=setups + work(load, steps, decode), refill=tuple(refill), requests=requests,
    )  # fmt: skip


def _refills(steps: Steps, decode: Decodes, largest: int, set_up: int) -> list[int]:
    """Least excess of a refill to each size; one that ends in prefill may save ``set_up``."""
    excess = [0, 0]
    for size in range(2, largest + 1):
        last = decode(size)
        least = min(steps.fill(size) - set_up, steps.fill(size - 1) + last)
        done = last if set_up else min(last, steps.fill(size))
        excess.append(least - done)
    return excess


def lagrangian_value(instance: Instance, pricing: BatchPricing, least_batches: int) -> Fraction:
    """Seconds that every schedule takes, by ``pricing``, if it has ``least_batches`` batches.

    Raises
    ------
    RefutedError
        The prices do not prove anything for this instance.
    """
    hold(not instance.has_calls, "requests that make calls are not covered")
    base = ground(
        instance, counted=pricing.counted, knee_tokens=pricing.knee_tokens,
        excess_s=pricing.excess_s, beyond_slope_s=pricing.beyond_slope_s,
    )  # fmt: skip
    hold(base is not None, "set-ups of decodes cannot be counted")
    assert base is not None
    hold(
        bool(pricing.cells) and pricing.cells[-1] >= int(base.requests.prompt.max()),
        "a prompt is in no cell",
    )
    first, values = least_batches, []
    for horizon in pricing.horizons:
        if horizon.most_batches >= first:
            values.append(horizon_value(base, horizon, pricing.cells, first))
            first = horizon.most_batches + 1
    values.append(beyond_value(base, pricing.beyond_slope_s, first))
    return min(values)


def beyond_value(base: Ground, slope_s: float, least: int) -> Fraction:
    """W + gam N + mu X for N >= ``least`` and mu = ``slope_s``, in seconds."""
    price = base.units.of(slope_s)
    constant = min(time - price * n for n, time in base.corners)
    hold(constant >= 0, "batches beyond the last horizon have a negative constant")
    return base.units.seconds(base.work + constant * least + price * base.new_tokens)


def horizon_value(
    base: Ground, horizon: PricedBatches, cells: tuple[int, ...], least: int
) -> Fraction:
    """The bound for schedules with ``least`` to ``horizon.most_batches`` batches, in seconds."""
    limits = base.instance.limits
    hold(horizon.stride % limits.block_tokens == 0, "the stride is no multiple of the page size")
    buckets = -(-horizon.most_batches // horizon.stride)
    refill = [(excess << horizon.unit_bits) // base.units.per_second for excess in base.refill]
    hold(largest_value(base, horizon, max(refill)) < SAFE, "prices exceed 64 bits")
    lead = (-(-base.requests.prompt // limits.fill_tokens) - 1) // horizon.stride
    needed = int((lead - (-base.requests.output // horizon.stride)).max())
    hold(needed <= buckets, "a request needs more batches than the horizon has")
    each = min(horizon.bucket_batches // horizon.stride, buckets)
    given = (horizon.memory, horizon.tokens, horizon.prefill, horizon.requests)
    memory, tokens, prefill, served = (
        np.repeat(np.array(column, dtype=np.int64), each)[:buckets] for column in given
    )
    prices = PathPrices(
        memory=memory, event=tokens + served, fill=tokens + prefill, prefill=prefill
    )  # fmt: skip
    again = Refills(
        price=np.array(refill, dtype=np.int64), pays_tokens=not limits.host_kv_tokens
    )  # fmt: skip
    paths = total_price(base.requests, cells, prices, again, limits, horizon.stride)
    earned = paths + _least_constant(base, horizon, least)
    return base.units.seconds(base.work) + earned / Fraction(2**horizon.unit_bits)


def largest_value(base: Ground, horizon: PricedBatches, refill: int) -> int:
    """No intermediate value of a path evaluation exceeds this.

    A path's price is at most that of one that is evicted after each token; in between, holding
    the largest request in all buckets is added and subtracted.
    """
    stride, largest = horizon.stride, base.requests.largest + horizon.stride
    largest = base.instance.limits.pages(largest)
    groups = -(-int(base.requests.output.max()) // stride)
    fill = max(horizon.tokens) + max(horizon.prefill)
    token = largest * max(horizon.memory) + max(horizon.tokens) + max(horizon.requests)
    path = groups * (refill + largest * fill + stride * token) + largest * fill
    buckets = horizon.bucket_batches // stride * sum(horizon.memory)
    return 2 * path + stride * largest * buckets


def _least_constant(base: Ground, horizon: PricedBatches, least: int) -> int:
    """Least sum over the first N batches of gam - M lam - P nu - Q kap, for N from ``least`` to
    the horizon, in units of the horizon; linear in N within a bucket."""
    limits = base.instance.limits
    times = [
        (time << horizon.unit_bits) // base.units.per_second for _, time in base.corners
    ]  # fmt: skip
    served = limits.batch_requests or 0
    best, before = None, 0
    for k, mu in enumerate(horizon.tokens):
        constant = min(time - mu * n for (n, _), time in zip(base.corners, times, strict=True))
        constant -= base.memory * horizon.memory[k] + limits.fill_tokens * horizon.prefill[k]
        constant -= served * horizon.requests[k]
        done = k * horizon.bucket_batches
        width = min(horizon.bucket_batches, horizon.most_batches - done)
        for upto in {width, max(least - done, 0)}:
            if done + upto >= least and upto <= width:
                total = before + constant * upto
                best = total if best is None else min(best, total)
        before += constant * width
    assert best is not None
    return best
