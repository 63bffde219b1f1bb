"""B6, the k-th time that is reached, in floating point; ``verify.clock.ordered`` has the argument.

The parts that pay differ from one request in order to the next: the first ones end no sooner than
they would alone, many short ones share the tokens of batches, long ones their memory. So all lines
and shares are tried, mixtures of shares beside the best, and those kept that raise the sum of the
largest of all.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from optsched.bounds.clock.charges import Charging, steps_under
from optsched.bounds.clock.found import Found, Question
from optsched.bounds.path import alone_s
from optsched.bounds.piecewise import Workload, decode_share
from optsched.bounds.sizes import run_pages
from optsched.bounds.work import run_work
from optsched.clock_certificate import (
    AloneOrder,
    Order,
    OrderedMean,
    SharedOrder,
    Shares,
    SmallestOrder,
)
from optsched.instance import Instance
from optsched.line import Line
from optsched.objective import Objective

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
_MOST_ORDERS = 6
_GAIN = 1e-7  # relative; an order that raises the sum by less is left out
_MIXED_PARTS = 16
_NAMES = {SharedOrder: "B6 shares", SmallestOrder: "B6 k smallest", AloneOrder: "alone"}


@dataclass(frozen=True)
class Orders:
    """k-th times of an instance: of first tokens, or of the ends of requests."""

    charging: Charging
    first_tokens: bool

    @property
    def instance(self) -> Instance:
        """Whose requests are ordered."""
        return self.charging.instance

    @cached_property
    def _arrivals(self) -> IntArray:
        return np.argsort(self.instance.release_s, kind="stable")

    def shared(self, line: Line, shares: Shares) -> FloatArray:
        """Shortest remaining charge first."""
        charges = self.charging(line, shares)
        work = charges.first if self.first_tokens else charges.whole
        release = self.instance.release_s
        if self.instance.offline:
            return np.cumsum(np.sort(work))
        order = self._arrivals
        return np.array(shortest_first(release[order].tolist(), work[order].tolist()))

    def smallest(self, line: Line) -> FloatArray:
        """The k smallest of everything."""
        instance, runs = self.instance, self.charging.runs
        limits, cost = instance.limits, instance.cost
        workload = Workload(runs=runs, limits=limits, cost=cost)
        steps = steps_under(cost, limits, line)
        prompts = instance.prompt_tokens
        chunks = -(-prompts // limits.fill_tokens)
        if self.first_tokens:
            work = steps.fill_s(prompts, np.zeros_like(prompts))
            chain = taken = chunks
            pages, tokens = -(-prompts // limits.block_tokens), prompts
        else:
            own = run_work(runs, steps, decode_share(workload))
            work = np.bincount(runs.request, own).astype(np.float64)
            first = runs.first
            chain = (runs.earliest + runs.remaining)[first]
            pages = self._sum(run_pages(runs, limits.block_tokens))
            tokens = self._sum(runs.size - runs.cached + runs.count - 1)
            taken = chunks + self._sum(runs.count) - 1
        cap = limits.kv_tokens // limits.block_tokens
        prefills = _upto(prompts, limits.fill_tokens)
        counts = [np.sort(chain), _upto(pages, cap), _upto(tokens, limits.batch_tokens), prefills]
        if limits.batch_requests is not None:
            counts.append(_upto(taken, limits.batch_requests))
        batches = np.max(counts, axis=0)
        times: FloatArray = (
            line.intercept_s * batches + cost.p0 * prefills + np.cumsum(np.sort(work))
        )
        return times

    def alone(self) -> FloatArray:
        """Each request with the machine to itself."""
        own = alone_s(self.instance, self.charging.runs, first_tokens=self.first_tokens)
        return np.sort(self.instance.release_s + own)

    def _sum(self, amount: IntArray) -> IntArray:
        total = np.zeros(len(self.instance), dtype=np.int64)
        np.add.at(total, self.charging.runs.request, amount)
        return total


def shortest_first(release: list[float], work: list[float]) -> list[float]:
    """Ends under shortest remaining work first, ascending; ``release`` ascends."""
    waiting: list[float] = []
    ends: list[float] = []
    now, arrived, count = 0.0, 0, len(work)
    while waiting or arrived < count:
        if not waiting:
            now = max(now, release[arrived])
        while arrived < count and release[arrived] <= now:
            heapq.heappush(waiting, work[arrived])
            arrived += 1
        until = release[arrived] if arrived < count else np.inf
        while waiting and now + waiting[0] <= until:
            now += heapq.heappop(waiting)
            ends.append(now)
        if waiting:
            heapq.heapreplace(waiting, waiting[0] - (until - now))
            now = until
    return ends


def ordered_bounds(question: Question) -> dict[str, Found]:
    """The best of B6 for a mean, and what its parts give on their own."""
    orders = Orders(Charging(question.instance), question.objective is Objective.MEAN_TTFT)
    tried: dict[Order, FloatArray] = {AloneOrder(): orders.alone()}
    for line in orders.charging.lines:
        tried[SmallestOrder(line=line)] = orders.smallest(line)
        for shares in orders.charging.corners:
            tried[SharedOrder(line=line, shares=shares)] = orders.shared(line, shares)
    if question.effort != "quick":
        tried |= _mixed(question, orders, tried)
    kept = _kept(tried)
    mean_release = float(question.instance.release_s.mean())
    found = {}
    for kind, name in _NAMES.items():
        best = max((o for o in tried if isinstance(o, kind)), key=lambda o: float(tried[o].sum()))
        found[name] = Found(
            value=float(tried[best].mean()) - mean_release, argument=OrderedMean(orders=(best,))
        )
    most = np.max([tried[order] for order in kept], axis=0)
    found["B6 k-th times"] = Found(
        value=float(most.mean()) - mean_release, argument=OrderedMean(orders=tuple(kept))
    )
    return found


def _mixed(
    question: Question, orders: Orders, tried: dict[Order, FloatArray]
) -> dict[Order, FloatArray]:
    """Mixtures of shares under the best line, by steps from the best corner while they pay."""
    corners = [o for o in tried if isinstance(o, SharedOrder)]
    best = max(corners, key=lambda order: float(tried[order].sum()))
    names = ["memory", "tokens", "prefill"]
    if question.instance.limits.batch_requests is not None:
        names.append("requests")
    parts = {name: _MIXED_PARTS * getattr(best.shares, name) for name in names}
    found: dict[Order, FloatArray] = {}
    value, step = float(tried[best].sum()), _MIXED_PARTS // 2
    while step and question.left_s > 0:
        moves = []
        for give in names:
            for take in names:
                if give != take and parts[give] >= step:
                    moved = {**parts, give: parts[give] - step, take: parts[take] + step}
                    order = SharedOrder(line=best.line, shares=Shares(**moved))
                    if order not in found:
                        found[order] = orders.shared(order.line, order.shares)
                    moves.append((float(found[order].sum()), moved))
        gain, moved = max(moves, key=lambda move: move[0])
        if gain > value:
            value, parts = gain, moved
        else:
            step //= 2
    return found


def _kept(tried: dict[Order, FloatArray]) -> list[Order]:
    """The best order, and others that raise the sum of the largest k-th times, best first."""
    kept: list[Order] = []
    most = np.zeros_like(next(iter(tried.values())))
    while len(kept) < _MOST_ORDERS:
        sums = {order: float(np.maximum(most, times).sum()) for order, times in tried.items()}
        best = max(sums, key=sums.__getitem__)
        if sums[best] <= float(most.sum()) * (1 + _GAIN):
            break
        kept.append(best)
        most = np.maximum(most, tried[best])
    return kept


def _upto(amount: IntArray, capacity: int) -> IntArray:
    """ceil(k smallest of ``amount`` / ``capacity``) for k = 1, 2, .."""
    return -(-np.cumsum(np.sort(amount)) // capacity)
