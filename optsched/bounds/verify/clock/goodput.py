"""An upper bound on the weight of the requests that meet their objectives, by prices of time.

Let pi(u) >= 0 be a price of machine time in units of weight per second. The charges of a batch
(``charges``) are at most its duration; spread evenly over it and priced, they are at most the
integral of pi over the batch, and batches are disjoint. A request that meets its objectives pays
the charges of its first fill between its arrival and the latest time of its first token, and the
others between the earliest time of its first token and the latest of its end; so at least

    cost = first charge * (least pi there) + other charges * (least pi there)

and the weight of all that meet theirs is at most

    integral of pi + sum over requests that could, were they alone, of max(0, weight - cost)

The latest times follow from TTFT, latency, and TPOT: end <= first token + (O - 1) TPOT, and from
what the request takes alone. An objective missed by no more than a part in 2^30 of the time since
the earliest arrival still counts as met here, since the times of a trace are doubles. Nothing is
assumed about waiting.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise

from optsched.bounds.verify.clock.charges import charges_of
from optsched.bounds.verify.clock.times import Clock, first_alone, whole_alone
from optsched.bounds.verify.refuted import hold
from optsched.clock_certificate import PricedWork
from optsched.instance import Request
from optsched.objective import Objective

_MOST_PRICES = 100_000_000  # looked at, over all requests
_TOLERANCE = 1 + Fraction(1, 2**30)
Span = tuple[Fraction, Fraction | None]  # from, until; None if there is no limit


def priced_weight(clock: Clock, argument: PricedWork) -> Fraction:
    """The largest weight."""
    hold(clock.objective is Objective.GOODPUT, "the argument bounds goodput")
    own = charges_of(clock.workload, argument.line, argument.shares, clock.units)
    looked_at = 2 * len(clock.workload.requests) * len(argument.prices)
    hold(looked_at <= _MOST_PRICES, "the prices are too many to be checked")
    edges = [Fraction(t) for t in (*argument.starts_s, argument.end_s)]
    unit = Fraction(1, 2**argument.unit_bits)
    lengths = (until - since for since, until in pairwise(edges))
    total = unit * sum(
        price * length for price, length in zip(argument.prices, lengths, strict=True)
    )
    for i, spans in possible(clock):
        first, rest = (clock.units.seconds(x) for x in (own.first[i], own.whole[i] - own.first[i]))
        priced = (least_price(argument.prices, edges, span) for span in spans)
        cost = sum((c * price for c, price in zip((first, rest), priced, strict=True)), Fraction(0))
        total += max(Fraction(0), Fraction(clock.workload.requests[i].weight) - unit * cost)
    return total


def possible(clock: Clock) -> Iterator[tuple[int, tuple[Span, Span]]]:
    """The requests that could meet their objectives, and when each would get its first token and
    its further ones, on the instance's clock."""
    first = first_alone(clock.workload, clock.units)
    whole = whole_alone(clock.workload, clock.units)
    zero = min(Fraction(r.arrival_s) for r in clock.workload.requests)
    for i, request in enumerate(clock.workload.requests):
        alone = clock.units.seconds(first[i]), clock.units.seconds(whole[i] - first[i])
        spans = _spans(request, *alone, zero)
        if spans is not None:
            yield i, spans


def _spans(
    request: Request, first: Fraction, rest: Fraction, zero: Fraction
) -> tuple[Span, Span] | None:
    """When a request processes its prompt and the rest; None if it cannot meet its objectives."""
    arrival = Fraction(request.arrival_s)

    def latest(slo_s: float | None) -> Fraction | None:
        if slo_s is None:
            return None
        return zero + (arrival - zero + Fraction(slo_s)) * _TOLERANCE

    token, end = latest(request.ttft_slo_s), latest(request.latency_slo_s)
    if request.tpot_slo_s is not None and request.output_tokens > 1:
        between = (request.output_tokens - 1) * Fraction(request.tpot_slo_s) * _TOLERANCE
        between += (arrival - zero) * (_TOLERANCE - 1)
        if rest > between:
            return None
        if token is not None:
            end = token + between if end is None else min(end, token + between)
    if end is not None:
        token = end - rest if token is None else min(token, end - rest)
    if token is not None and arrival + first > token:
        return None
    return (arrival, token), (arrival + first, end)


def least_price(prices: tuple[int, ...], edges: list[Fraction], span: Span) -> int:
    """The least price anywhere in ``span``, which is 0 before the first edge and from the last."""
    since, until = span
    if since < edges[0] or until is None or until > edges[-1]:
        return 0
    start = bisect_right(edges, since) - 1
    stop = bisect_left(edges, until)
    return min(prices[start : max(stop, start + 1)], default=0)
