"""Cycles of batches that cost little under given prices, as cuts on prices.

Around a closed cycle prices may earn no more than its batches and refills cost. After a batch of
all walks (``sweeps``) every content knows the content before that batch on its best walk; from any
content these pointers lead into a cycle.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optsched.walks.contents import IntArray
from optsched.walks.problem import FloatArray, WalkProblem
from optsched.walks.rows import Rows
from optsched.walks.sweeps import Relaxation, Values, follow_moves

_BITS = 62  # of a word of counters
_DOUBLINGS = 12


@dataclass(frozen=True, kw_only=True, eq=False)
class Cycle:
    """``made``: events by price, as in :meth:`WalkProblem.split`; ``cost_s``: batches and refills;
    ``mean_s``: cost less prices per batch."""

    made: FloatArray
    cost_s: float
    mean_s: float


class TracedRelaxation(Relaxation):
    """A relaxation that keeps, per value, the state that the batch started from and how many
    events of each kind it made, several counters to a word."""

    def __init__(self, rows: Rows, values: Values) -> None:
        super().__init__(rows, values)
        self._bits = int(rows.contents.items.shape[1]).bit_length()
        self._per_word = _BITS // self._bits
        words = -(-2 * len(rows.widths) // self._per_word)
        self.origin = np.arange(values.size).reshape(values.shape)
        self.words = np.zeros((words, *values.shape), dtype=np.int64)

    def lower(
        self, source: IntArray, taken: slice, target: IntArray, entered: slice, new: Values,
        event: int,
    ) -> None:  # fmt: skip
        """Take what improves, with its history."""
        row, column = np.nonzero(new < self.values[target, entered])
        if not row.size:
            return
        to = target[row], column + entered.start
        of = source[row], column + taken.start
        self.values[to] = new[row, column]
        self.origin[to] = self.origin[of]
        for k, word in enumerate(self.words):
            word[to] = word[of]
            if event >= 0 and event // self._per_word == k:
                word[to] += 1 << (self._bits * (event % self._per_word))

    def made(self, states: IntArray) -> IntArray:
        """Events that the batches into ``states`` made, summed by number."""
        counts = [
            (self.words[event // self._per_word].ravel()[states]
             >> (self._bits * (event % self._per_word)) & ((1 << self._bits) - 1)).sum()
            for event in range(2 * len(self.rows.widths))
        ]  # fmt: skip
        return np.array(counts, dtype=np.int64)


def cycles(problem: WalkProblem, values: FloatArray, vector: FloatArray) -> list[Cycle]:
    """Cycles that the best batches from ``values`` under the prices ``vector`` close, the one of
    the least mean first."""
    prices = problem.split(vector)
    moves = problem.moves(prices)
    relaxation = TracedRelaxation(problem.rows, values)
    follow_moves(relaxation, moves)
    batch_s = (relaxation.values + moves.batch).ravel() - values.ravel()[relaxation.origin.ravel()]
    packing = _Packing(problem, prices.small)
    found = []
    for states in _closed(relaxation.origin.ravel(), problem.rows.fits.ravel()):
        small = packing.taken(problem.rows.free.ravel()[states])
        growth = (states % problem.rows.offsets.size).sum()
        made = np.concatenate((relaxation.made(states), small, [growth]))
        reduced_s = float(batch_s[states].sum())
        found.append(
            Cycle(
                made=made, cost_s=reduced_s + float(made @ vector), mean_s=reduced_s / states.size
            )
        )
    return sorted(found, key=lambda cycle: cycle.mean_s)


def _closed(origin: IntArray, fits: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> list[IntArray]:
    """The states of each cycle of ``origin``."""
    far = np.where(fits, origin, np.arange(origin.size))
    for _ in range(_DOUBLINGS):
        far = far[far]
    inside = np.zeros(origin.size, dtype=np.bool_)
    inside[far[fits]] = True
    found, seen = [], set()
    for start in np.flatnonzero(inside).tolist():
        path, state = [], start
        while state not in seen:
            seen.add(state)
            path.append(state)
            state = int(origin[state])
        if state in path:
            found.append(np.array(path[path.index(state) :], dtype=np.int64))
    return found


class _Packing:
    """Small stages in free pages."""

    def __init__(self, problem: WalkProblem, prices: FloatArray) -> None:
        self._small = problem.small
        self._last = problem.packed(prices)[1]

    def taken(self, frees: IntArray) -> IntArray:
        """How many events of each small stage the best packing of the free pages makes."""
        taken = np.zeros(len(self._small), dtype=np.int64)
        for free in frees.tolist():
            while free > 0:
                k = self._last[free]
                if k < 0:
                    free -= 1
                    continue
                taken[k] += 1
                free -= self._small[k][0]
        return taken
