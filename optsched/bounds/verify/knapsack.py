"""The most that the events of one batch can earn, in whole numbers."""

from __future__ import annotations

from optsched.bounds.verify.refuted import hold

_MOST_CELLS = 100_000_000


def richest_batch(priced: list[tuple[int, int, int]], cap: int, most: int) -> int:
    """Largest total weight of events that fit together.

    Parameters
    ----------
    priced : list of (pages, weight, events)
        How many events of ``pages`` pages there are and what each earns, > 0.
    cap : int
        Pages of a batch.
    most : int
        Events of a batch.
    """
    smallest = min(pages for pages, _, _ in priced)
    limited = most < cap // smallest
    rows = most + 1 if limited else 1
    bundles = [
        (amount, pages, weight)
        for pages, weight, events in priced
        for amount in _bundles(min(events, most, cap // pages))
    ]
    hold(len(bundles) * (cap + 1) * rows <= _MOST_CELLS, "the knapsack is too large to be checked")
    # best[e][p]: the most that at most e events of at most p pages in total earn.
    best = [[0] * (cap + 1) for _ in range(rows)]
    for amount, pages, weight in bundles:
        _take(best, amount * pages, amount * weight, amount if limited else 0)
    return best[-1][-1]


def _bundles(copies: int) -> list[int]:
    """Numbers of which every whole number up to ``copies`` is a sum, and no larger one."""
    amounts, power = [], 1
    while power <= copies:
        amounts.append(power)
        copies -= power
        power *= 2
    return [*amounts, copies] if copies else amounts


def _take(best: list[list[int]], pages: int, weight: int, events: int) -> None:
    """Allow one bundle more; rows from the last, so that it is taken at most once."""
    for e in range(len(best) - 1, events - 1, -1):
        without, source = best[e], best[e - events]
        with_it = [earned + weight for earned in source[: len(source) - pages]]
        best[e] = without[:pages] + list(map(max, without[pages:], with_it))
