"""Lower bounds on the time left, for the exhaustive search of ``oracle.py``.

Two kinds, both shortest paths of one request through its own states.

**Alone.** A batch takes no less time than it would with only one of its requests in it: all
coefficients are >= 0, the batch time grows with the tokens and sums over steps. So from the moment
at which a request may be processed, it needs at least the batches that process it, as if it were
alone in them, and its calls. Batches that do not process it may run while it waits for a call, and
count nothing.

**Shared.** Let share(x) >= 0 be such that the shares of the requests in any feasible batch sum to
at most 1, and a + b n, a >= 0, a line that is nowhere above the time of n tokens. Then

    batch time >= sum over requests of
        [ share (a + [decode] d0 + [prefill] p0) + b c + time of its step ]

so the time left is at least the sum over the requests of the cheapest path of each under its own
summand. This holds for every share and line; the search takes the largest.

That sum counts from the end of the batch before: every batch counts, and no call does.

Both never fall by more than the time that passes along an arc, and so A* with them is exact.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optsched.cost import CostModel
from optsched.instance import Instance

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
Share = Callable[[FloatArray], FloatArray]  # of the rows of a table of moves

# Rows of the table of a state's moves; a batch sums them over its requests, PAUSED and AFTER apart:
# whether the move is only for a request that waits for a call, and the state that it leads to.
# PREFILL counts tokens, DECODES requests, HOST tokens on the host, STEP_TIME seconds with copying,
# CALL_TIME the seconds of the call that is made.
TOKENS, PREFILL, REQUESTS, DECODES, PAGES, HOST, PAUSED, STEP_TIME, CALL_TIME, AFTER = range(10)


@dataclass(frozen=True)
class Shares:
    """The shares and lines to combine, for one instance."""

    shares: tuple[Share, ...]
    lines: tuple[tuple[float, float], ...]

    @classmethod
    def of(cls, instance: Instance) -> Shares:
        """Those of the limits that can bind, and the lines under the batch-time law."""
        limits = instance.limits
        pages = limits.kv_tokens // limits.block_tokens
        total = sum(r.final_tokens + 1 for r in instance.requests)
        shares = [_rounded(pages, k) for k in range(4)]
        for row, limit in (
            (TOKENS, limits.batch_tokens),
            (PREFILL, limits.prefill_tokens),
            (REQUESTS, limits.batch_requests),
        ):
            if limit is not None and limit < total:
                shares.append(_linear(row, limit))
        return cls(tuple(shares), _lines(instance.cost, min(total, limits.batch_tokens)))


def _linear(row: int, limit: int) -> Share:
    """x / limit for the tokens, prefill tokens or request of a move."""
    return lambda table: np.asarray(table[row] / limit)


def _rounded(pages: int, k: int) -> Share:
    """A dual feasible function of the pages that a request holds: k = 0 is x / pages.

    u(x) = x / pages where (k + 1) x / pages is whole, else floor((k + 1) x / pages) / k. Sizes
    that sum to at most ``pages`` have u that sum to at most 1 (Fekete and Schepers, "New classes
    of fast lower bounds for bin packing problems", Mathematical Programming 91, 2001, theorem 1).
    """

    def share(table: FloatArray) -> FloatArray:
        held = table[PAGES]
        if k == 0:
            return np.asarray(held / pages)
        scaled = (k + 1) * held
        return np.asarray(np.where(scaled % pages == 0, held / pages, scaled // pages / k))

    return share


def _lines(cost: CostModel, most: int) -> tuple[tuple[float, float], ...]:
    """Lines a + b n, a >= 0, under the time of n tokens, n = 1 .. most.

    The pieces themselves, the least time of a batch, and the steepest line through the origin.
    """
    times = [max(alpha + beta * n for alpha, beta in cost.pieces) for n in range(1, most + 1)]
    steepest = min(time / n for n, time in enumerate(times, start=1))
    return (
        (times[0], 0.0),
        (0.0, steepest),
        *((alpha, beta) for alpha, beta in cost.pieces if alpha > 0 and beta > 0),
    )


def shared_bounds(
    tables: Sequence[FloatArray], shares: Shares, cost: CostModel, reached: BoolArray
) -> FloatArray:
    """The shared bounds of one request in each of its states, ``(bounds, states)``."""
    rows = []
    for share, (a, b) in itertools.product(shares.shares, shares.lines):

        def price(
            table: FloatArray, share: Share = share, a: float = a, b: float = b
        ) -> FloatArray:
            prefill = table[REQUESTS] - table[DECODES]
            fixed = a + cost.d0 * table[DECODES] + cost.p0 * prefill
            return np.asarray(share(table) * fixed + b * table[TOKENS] + table[STEP_TIME])

        rows.append(_cheapest(tables, price, reached))
    return np.array(rows)


def alone_bound(tables: Sequence[FloatArray], cost: CostModel, reached: BoolArray) -> FloatArray:
    """The time that one request needs alone from each of its states, shape ``(states,)``."""

    def price(table: FloatArray) -> FloatArray:
        tokens = np.maximum(table[TOKENS], 1)
        length = np.max([alpha + beta * tokens for alpha, beta in cost.pieces], axis=0)
        prefill = table[REQUESTS] - table[DECODES]
        extra = cost.d0 * table[DECODES] + cost.p0 * prefill + table[STEP_TIME]
        call = np.where(reached[table[AFTER].astype(np.int64)], 0.0, table[CALL_TIME])
        return np.where(table[REQUESTS] > 0, length + extra + call, 0.0)

    return _cheapest(tables, price, reached)


def _cheapest(
    tables: Sequence[FloatArray],
    price: Callable[[FloatArray], FloatArray],
    reached: BoolArray,
) -> FloatArray:
    """The cheapest path of one request from each state to one that is ``reached``, under prices
    >= 0 per move; inf where there is none."""
    moves = np.concatenate(tables, axis=1)
    first = np.cumsum([0, *(table.shape[1] for table in tables[:-1])])
    prices, after = price(moves), moves[AFTER].astype(np.int64)
    left = np.where(reached, 0.0, np.inf)
    while True:  # each turn settles the paths of one more move
        shorter = np.where(reached, 0.0, np.minimum.reduceat(prices + left[after], first))
        if np.array_equal(shorter, left):
            return left
        left = shorter
