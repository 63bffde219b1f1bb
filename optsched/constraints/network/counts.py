"""How many requests have not passed a milestone, in unary, and the time that passes meanwhile.

    sum_q u_q(j+1) = sum_q u_qj - (requests that pass the milestone in batch j)
    u_qj >= u_(q+1)j,   u_qj >= u_q(j+1)
    tau_qj <= y_j                                        tau_qj = u_qj - u_q(start of next interval)
    u_1j >= y_j                                          for ends
    share_qj   >= rest_j - R_q (1 - u_qj) - R_n u_q(start of next interval)
    carried_qm >= over_m - (longest batch) (1 - tau_q(first slot of m))

R_q is the most that rest_j can be if u_qj = 0: for ends that of q - 1 requests, since finished ones
are in no batch; R_n of any batch. :func:`earliest_ends` adds

    sum_m (T_m - T_(m-1)) u_q(first slot of m) + carried_qm + sum_j (a tau_qj + share_qj)
        >= the earliest that n - q + 1 requests can be that far

The left side is when q - 1 requests have not passed the milestone; the row holds for every schedule
(:mod:`optsched.model.milestones`) and strengthens the relaxation.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optsched.constraints.network.blocks import Part, stacked
from optsched.instance import Instance
from optsched.model.milestones import earliest_ends as earliest_ends_s
from optsched.model.milp import Block
from optsched.model.network import NetworkVariables
from optsched.model.network_clock import MICROSECONDS, Count

IntArray = NDArray[np.int64]


def counts(instance: Instance, variables: NetworkVariables) -> Block:
    """Rows: per mean, the balance of every batch, the order of u, then its tie to y."""
    rows = _Rows()
    slots = variables.slots
    every, early = np.arange(slots.count), np.flatnonzero(~slots.last)
    for count in variables.clock.counts.values():
        unary = count.unary.numbers
        arc = milestone_arcs(variables, count.first_tokens)
        arc = arc[variables.arcs.batch[arc] < slots.count]
        place = np.tile(every[:-1], unary.shape[0])
        rows.add(
            slots.count - 1,
            (place, unary[:, 1:].ravel(), np.ones(place.size)),
            (place, unary[:, :-1].ravel(), -np.ones(place.size)),
            (variables.arcs.batch[arc] - 1, arc, np.ones(arc.size)),
            upper=0.0,
        )
        rows.order(unary[:, :-1], unary[:, 1:])
        rows.order(unary[:-1], unary[1:])
        late = np.flatnonzero(slots.last)
        rows.order(variables.used[late], unary[0, late])
        if not count.first_tokens:
            rows.order(unary[0], variables.used)
        drops = np.arange(unary[:, early].size)
        rows.add(
            drops.size,
            (drops, np.tile(variables.used[early], unary.shape[0]), np.ones(drops.size)),
            (drops, unary[:, early].ravel(), -np.ones(drops.size)),
            (drops, _following(variables, unary)[:, early].ravel(), np.ones(drops.size)),
        )
    return rows.block("counts")


def milestone_arcs(variables: NetworkVariables, first_tokens: bool) -> IntArray:
    """Arcs whose requests pass the milestone: the first token, or the last one."""
    arcs = variables.arcs
    last = np.array([kind.output_tokens - 1 for kind in variables.types])[arcs.type]
    wanted = arcs.stage == 0 if first_tokens else arcs.stage == last
    return np.flatnonzero(arcs.generates & wanted)


def shares(instance: Instance, variables: NetworkVariables) -> Block:
    """Rows: per mean, q and batch, of the rest and, with arrivals, of what is carried over."""
    clock, slots = variables.clock, variables.slots
    rows = _Rows()
    for count in clock.counts.values():
        unary = count.unary.numbers
        longest = MICROSECONDS * float(clock.beyond_s[-1])
        most = np.full(unary.shape[0], longest)
        if not count.first_tokens:
            most = MICROSECONDS * clock.beyond_s[:-1]
        largest = np.repeat(most, slots.count)
        number, ones = np.arange(unary.size), np.ones(unary.size)
        later = np.flatnonzero(np.tile(~slots.last, unary.shape[0]))
        following = _following(variables, unary).ravel()
        rows.add(
            unary.size,
            (number, count.share.numbers.ravel(), ones),
            (number, np.tile(clock.rest.numbers, unary.shape[0]), -ones),
            (number, unary.ravel(), -largest),
            (later, following[later], np.full(later.size, longest)),
            lower=-largest,
        )
        starts = slots.first[1:-1]
        number = np.arange(count.carried.numbers.size)
        ones, whole = np.ones(number.size), longest + MICROSECONDS * clock.base_s
        early = np.flatnonzero(np.tile(~slots.last[starts], unary.shape[0]))
        rows.add(
            number.size,
            (number, count.carried.numbers.ravel(), ones),
            (number, np.tile(clock.over.numbers, unary.shape[0]), -ones),
            (number, unary[:, starts].ravel(), -whole * ones),
            (early, _following(variables, unary)[:, starts].ravel()[early], whole * ones[early]),
            lower=-whole,
        )
    return rows.block("shares")


def earliest_ends(instance: Instance, variables: NetworkVariables) -> Block:
    """Rows: per mean and q."""
    rows = _Rows()
    for count in variables.clock.counts.values():
        requests = count.unary.numbers.shape[0]
        floors = earliest_ends_s(instance, first_tokens=count.first_tokens)
        q, columns, values = passing_times(variables, count)
        rows.add(requests, (q, columns, values), lower=MICROSECONDS * floors[::-1])
    return rows.block("earliest_ends")


def passing_times(variables: NetworkVariables, count: Count) -> Part:
    """Entries (row = q - 1, column, value) of when fewer than q requests have the milestone before
    them, microseconds."""
    clock, slots = variables.clock, variables.slots
    unary, early = count.unary.numbers, np.flatnonzero(~slots.last)
    gaps = MICROSECONDS * np.diff(slots.arrivals_s)
    parts = [
        (unary, np.full(slots.count, MICROSECONDS * clock.base_s)),
        (_following(variables, unary)[:, early],
         np.full(early.size, -MICROSECONDS * clock.base_s)),
        (count.share.numbers, np.ones(slots.count)),
        (unary[:, slots.first[1:-1]], gaps),
        (count.carried.numbers, np.ones(gaps.size)),
    ]  # fmt: skip
    q = np.arange(unary.shape[0])
    return (
        np.concatenate([np.repeat(q, columns.shape[1]) for columns, _ in parts]),
        np.concatenate([columns.ravel() for columns, _ in parts]),
        np.concatenate([np.tile(values, q.size) for _, values in parts]),
    )


def _following(variables: NetworkVariables, unary: IntArray) -> IntArray:
    """For every column of u the one at the start of the next interval; the last interval has none
    and repeats its own. Shape as ``unary``."""
    slots = variables.slots
    place = np.where(slots.last, np.arange(slots.count), slots.first[1:][slots.interval])
    return unary[:, np.minimum(place, slots.count - 1)]


class _Rows:
    """Rows put together group by group."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.lower, self.upper = [np.zeros(0)], [np.zeros(0)]
        self.count = 0

    def add(
        self, rows: int, *parts: Part, lower: ArrayLike = 0.0, upper: ArrayLike = np.inf
    ) -> None:
        """Rows numbered from 0 in ``parts``."""
        self.parts += [(self.count + row, column, value) for row, column, value in parts]
        for bounds, new in ((self.lower, lower), (self.upper, upper)):
            bounds.append(np.broadcast_to(np.asarray(new, dtype=np.float64), (rows,)))
        self.count += rows

    def order(self, more: IntArray, less: IntArray) -> None:
        """more >= less, entry by entry."""
        row, ones = np.arange(more.size), np.ones(more.size)
        self.add(more.size, (row, more.ravel(), ones), (row, less.ravel(), -ones))

    def block(self, name: str) -> Block:
        """All rows."""
        lower, upper = np.concatenate(self.lower), np.concatenate(self.upper)
        return stacked(name, self.parts, self.count, lower=lower, upper=upper)
