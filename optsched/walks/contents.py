"""Multisets of resident kinds as arrays.

A kind is a token event of a type of request or a group of consecutive ones. All contents are built
level by level (a level has equally many items), found by sums of random 64-bit numbers, one per
kind, so that adding or removing an item is one addition.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
_SEED = 20240611


@dataclass(frozen=True, kw_only=True, eq=False)
class Moves:
    """Moves of one item each: from content ``source`` to ``target`` through ``kind``."""

    source: IntArray
    target: IntArray
    kind: IntArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Contents:
    """All multisets of kinds that fit in memory, by number of items.

    Parameters
    ----------
    items : int array, shape ``(contents, most items)``
        Ascending kind numbers, then -1.
    level_starts : int array, shape ``(levels + 1,)``
        Contents with k items are numbers ``level_starts[k]:level_starts[k + 1]``.
    free : int array, shape ``(contents,)``
        Pages left free.
    moves_on : bool array, shape ``(kinds,)``
        Whether an item of the kind can move on to the next kind.
    without : int array, shape ``(contents, most items)``
        The content without the item in that place; 0 where there is none.
    """

    items: IntArray
    level_starts: IntArray
    free: IntArray
    moves_on: NDArray[np.bool_]
    without: IntArray
    _hash: NDArray[np.uint64]
    _weights: NDArray[np.uint64]

    @property
    def contents(self) -> int:
        """Number of contents."""
        return int(self.free.size)

    @cached_property
    def distinct(self) -> NDArray[np.bool_]:
        """Whether a place has an item that is not the same kind as the place before it."""
        first = np.ones(self.items.shape, dtype=np.bool_)
        first[:, 1:] = self.items[:, 1:] != self.items[:, :-1]
        return np.asarray(first & (self.items >= 0))

    @cached_property
    def lexicographic(self) -> IntArray:
        """The numbers of all contents in the order of ``bounds.exact_walks.contents``."""
        if not self.items.shape[1]:
            return np.zeros(1, dtype=np.int64)
        return np.lexsort(self.items.T[::-1]).astype(np.int64)

    @cached_property
    def removals(self) -> Moves:
        """Every content and kind in it, to the content with one item less."""
        source, place = np.nonzero(self.distinct)
        return Moves(
            source=source, target=self.without[source, place], kind=self.items[source, place]
        )

    @cached_property
    def advances(self) -> Moves:
        """Every content and kind in it that can move on, if the content after it fits; from the
        last kind to the first, and contents with more items of the kind first."""
        move = self.removals
        some = np.flatnonzero(self.moves_on[move.kind])
        some = some[np.lexsort((-self._copies(move)[some], -move.kind[some]))]
        source, kind = move.source[some], move.kind[some]
        wanted = self._hash[source] + (self._weights[kind + 1] - self._weights[kind])
        target = self.find(wanted)
        fits = target >= 0
        return Moves(source=source[fits], target=target[fits], kind=kind[fits])

    @cached_property
    def advance_cuts(self) -> IntArray:
        """Where the kind or its number of items changes along :attr:`advances`: moves between two
        cuts never follow each other, nor have they equal targets."""
        move = self.advances
        copies = self._copies(move)
        changes = (np.diff(move.kind) != 0) | (np.diff(copies) != 0)
        inner = np.flatnonzero(changes) + 1
        return np.unique(np.concatenate(([0], inner, [move.kind.size]))).astype(np.int64)

    def _copies(self, move: Moves) -> IntArray:
        """How many items of its kind the source of each move has."""
        same = self.items[move.source] == move.kind[:, None]
        return np.asarray(same.sum(axis=1), dtype=np.int64)

    @cached_property
    def _order(self) -> IntArray:
        return np.argsort(self._hash).astype(np.int64)

    def find(self, hashes: NDArray[np.uint64]) -> IntArray:
        """Numbers of the contents with these hashes, -1 where there is none."""
        sorted_hash = self._hash[self._order]
        place = np.minimum(np.searchsorted(sorted_hash, hashes), self.contents - 1)
        return np.where(sorted_hash[place] == hashes, self._order[place], -1)


def contents_of(pages: IntArray, moves_on: NDArray[np.bool_], cap: int) -> Contents:
    """All contents of ``cap`` pages, given the pages of each kind and whether it moves on."""
    weights = np.random.default_rng(_SEED).integers(
        0, 2**64, size=pages.size, dtype=np.uint64, endpoint=False
    )
    width = cap // int(pages.min())
    levels = [np.zeros((1, 0), dtype=np.int64)]
    frees = [np.array([cap], dtype=np.int64)]
    for _ in range(width):
        before, free = levels[-1], frees[-1]
        last = before[:, -1] if before.shape[1] else np.zeros(1, dtype=np.int64)
        grown, left = [], []
        for kind, size in enumerate(pages.tolist()):
            fits = (last <= kind) & (free >= size)
            grown.append(np.column_stack((before[fits], np.full(int(fits.sum()), kind))))
            left.append(free[fits] - size)
        levels.append(np.concatenate(grown))
        frees.append(np.concatenate(left))
    items = np.full((sum(len(level) for level in levels), width), -1, dtype=np.int64)
    starts = np.cumsum([0] + [len(level) for level in levels])
    for k, level in enumerate(levels):
        items[starts[k] : starts[k + 1], :k] = level
    own = np.where(items >= 0, weights[items], np.uint64(0))
    hashes = own.sum(axis=1, dtype=np.uint64)
    if np.unique(hashes).size != hashes.size:
        raise AssertionError("two contents have the same 64-bit hash")
    states = Contents(
        items=items, level_starts=starts.astype(np.int64), free=np.concatenate(frees),
        moves_on=moves_on,
        without=np.zeros_like(items), _hash=hashes, _weights=weights,
    )  # fmt: skip
    place = items >= 0
    states.without[place] = states.find((hashes[:, None] - own)[place])
    return states
