"""B2 at its best: the duals of the configuration linear program, verified in whole numbers.

The best dual feasible function solves max sum_s n_s pi_s subject to pi . x <= 1 for every pattern x
of sizes that fit in one batch, 0 <= pi <= 1, where n_s events have size s. Patterns are found
one by one: solve over those known, price by a knapsack over memory, repeat.

Nothing here trusts the solver. Its pi is rounded to whole numbers w, and a bounded knapsack in
whole numbers finds K, the most that any admissible batch can earn under w:

    K = max sum_s w_s x_s    sum_s s x_s <= cap,  x_s <= u_s,  sum_s x_s <= E

with u_s the number of requests that have an event of size s (a batch holds at most one event of a
request, and a request has each size once) and E = min(requests, C, batch_requests), as
each event takes a step of at least one token. Then N >= ceil(sum_s n_s w_s / K), whatever w is.

Gilmore and Gomory (1961) for the program; Farley (1990) for the bound from any prices.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optsched.bounds.events import TokenRuns
from optsched.bounds.packing import occurring
from optsched.instance import Limits
from optsched.model.milp import Block, Milp, block
from optsched.solvers.interrupted import unless_interrupted
from optsched.solvers.lp import LinearProgram

IntArray = NDArray[np.int64]
_SCALE = 10**6
_MOST_SIZES = 400
_MOST_CELLS = 2_000_000
_MOST_PER_BATCH = 48
_MOST_PATTERNS = 300


@dataclass(frozen=True, kw_only=True, eq=False)
class Items:
    """What is to be packed: ``sizes`` in pages ascending, ``counts`` events of each, of which at
    most ``copies`` fit into one batch of ``cap`` pages and ``most`` events."""

    sizes: IntArray
    counts: IntArray
    copies: IntArray
    cap: int
    most: int

    @property
    def limited(self) -> bool:
        """Whether a batch may be full before its memory is."""
        return self.most < self.cap // int(self.sizes[0])


def items(runs: TokenRuns, limits: Limits) -> Items:
    """The packing problem of the events of ``runs``.

    With pages of several tokens a request has up to b events of the same number of pages, but
    still one of them per batch; copies are then bounded by the number of requests.
    """
    sizes, counts = occurring(runs, limits)
    cap = limits.kv_tokens // limits.block_tokens
    requests = int(np.unique(runs.request).size)
    most = min(requests, limits.batch_tokens, limits.batch_requests or requests)
    copies = np.minimum(np.minimum(counts, most), cap // sizes)
    return Items(sizes=sizes, counts=counts, copies=copies, cap=cap, most=most)


def worth_solving(problem: Items) -> bool:
    """Whether few enough events fit into a batch for the program to gain on the area, and its
    knapsacks are small."""
    area = int((problem.sizes * problem.counts).sum())
    per_batch = problem.cap * int(problem.counts.sum()) / area
    layers = problem.most + 1 if problem.limited else 1
    return (
        problem.sizes.size <= _MOST_SIZES
        and problem.sizes.size * problem.cap * layers <= _MOST_CELLS
        and per_batch <= _MOST_PER_BATCH
    )


def configuration(problem: Items, at_least: int = 1) -> int:
    """Batches needed by the best prices found; ``at_least`` is a bound already known,
    which need not be reached again."""
    return best_weights(problem, at_least)[0]


def best_weights(problem: Items, at_least: int = 1) -> tuple[int, IntArray]:
    """The most batches that whole weights were found to prove, and these weights, ``(sizes,)``.

    Stops when no better whole number can come out, when no pattern improves, or after 300
    patterns; every answer on the way is verified.
    """
    # A program with one pattern per size: as many events of it as fit.
    program = LinearProgram(_restricted(problem, np.diag(problem.copies)))
    best, chosen = 0, np.ones(problem.sizes.size, dtype=np.int64)
    for _ in range(_MOST_PATTERNS):
        prices = unless_interrupted(program.solve()).point
        if prices is None:
            break
        weights = np.floor(np.clip(prices, 0.0, 1.0) * _SCALE).astype(np.int64)
        earned, pattern = richest_batch(problem, weights)
        found = verified_batches(problem, weights, earned)
        if found > best:
            best, chosen = found, weights
        # The value over the known patterns is no bound, but more than it will not come out.
        hopeless = max(best, at_least) >= np.ceil(float(problem.counts @ prices) - 1e-6)
        if hopeless or float(pattern @ prices) <= 1 + 1e-9:
            break
        program.add(_pattern_rows(pattern[None, :]))
    return best, chosen


def verified_batches(problem: Items, weights: IntArray, earned: int) -> int:
    """ceil(sum n_s w_s / K) for whole weights w whose richest batch earns K = ``earned``."""
    total = sum(int(n) * int(w) for n, w in zip(problem.counts, weights, strict=True))
    return -(-total // earned) if earned else 0


def richest_batch(problem: Items, weights: IntArray) -> tuple[int, IntArray]:
    """K and a batch that earns it: a bounded knapsack by dynamic programming, exact.

    Copies are split into bundles of 1, 2, 4, .. (any number up to ``copies`` is a sum of some).
    If ``most`` can bind, the state is (events, pages), otherwise pages alone.
    """
    limited = problem.limited
    best = np.zeros((problem.most + 1 if limited else 1, problem.cap + 1), dtype=np.int64)
    bundles = [
        (s, amount)
        for s in np.flatnonzero(weights > 0)
        for amount in _bundle_sizes(int(problem.copies[s]))
    ]
    taken = np.zeros((len(bundles), *best.shape), dtype=bool)
    for row, (s, amount) in enumerate(bundles):
        pages, worth = int(problem.sizes[s]) * amount, int(weights[s]) * amount
        events = amount if limited else 0
        source = best[: best.shape[0] - events, : best.shape[1] - pages] + worth
        target = best[events:, pages:]
        taken[row, events:, pages:] = source > target
        best[events:, pages:] = np.maximum(source, target)
    pattern = np.zeros(problem.sizes.size, dtype=np.int64)
    events, room = best.shape[0] - 1, problem.cap
    for row in range(len(bundles) - 1, -1, -1):
        if taken[row, events, room]:
            s, amount = bundles[row]
            pattern[s] += amount
            events -= amount if limited else 0
            room -= int(problem.sizes[s]) * amount
    return int(best[-1, -1]), pattern


def _bundle_sizes(copies: int) -> list[int]:
    """1, 2, 4, .. and a rest that sum to ``copies``."""
    amounts, left, amount = [], copies, 1
    while left:
        amounts.append(min(amount, left))
        left -= amounts[-1]
        amount *= 2
    return amounts


def _restricted(problem: Items, patterns: IntArray) -> Milp:
    """Maximise sum n_s pi_s per event with every row of ``patterns`` worth at most 1."""
    count = problem.sizes.size
    return Milp(
        name="configuration", cost=-problem.counts / float(problem.counts.sum()), offset=0.0,
        lower=np.zeros(count), upper=np.ones(count), integer=np.zeros(count, dtype=np.bool_),
        column_names=tuple(f"pi{s}" for s in problem.sizes), blocks=(_pattern_rows(patterns),),
    )  # fmt: skip


def _pattern_rows(patterns: IntArray) -> Block:
    """One row per pattern: its events are worth at most 1."""
    row, column = np.nonzero(patterns)
    return block("patterns", row, column, patterns[row, column], -np.inf, np.ones(len(patterns)))
