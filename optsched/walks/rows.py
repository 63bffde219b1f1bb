"""Contents with the offset of their groups, as rows of an array, and the unit moves between rows.

A kind may be a group of consecutive stages that grow by a page each; the offset of a content is
the sum over its requests of the pages beyond the first stage of their groups (``bounds``,
``exact_walks``: "Groups"). A value per content and offset is an array of shape
``(contents, most offset + 1)``; what does not fit in memory is infinite.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from optsched.walks.contents import Contents, IntArray

Pair = tuple[IntArray, IntArray]


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """Rows of ``contents`` whose kinds are groups of ``widths`` stages.

    Parameters
    ----------
    contents : Contents
        By the pages of the first stage of each group.
    widths : tuple of int
    """

    contents: Contents
    widths: tuple[int, ...]

    @cached_property
    def room(self) -> IntArray:
        """The most offset of each content, shape ``(contents,)``."""
        beyond = np.append(np.array(self.widths, dtype=np.int64) - 1, 0)
        return np.asarray(np.minimum(beyond[self.contents.items].sum(axis=1), self.contents.free))

    @cached_property
    def offsets(self) -> IntArray:
        """0 .. the most offset of any content."""
        return np.arange(int(self.room.max()) + 1)

    @cached_property
    def fits(self) -> NDArray[np.bool_]:
        """Whether a content can have an offset."""
        return np.asarray(self.offsets <= self.room[:, None])

    @cached_property
    def free(self) -> IntArray:
        """Pages left free; 0 where nothing fits."""
        return np.asarray(np.maximum(self.contents.free[:, None] - self.offsets, 0))

    @property
    def states(self) -> int:
        """Number of contents with an offset that fit."""
        return int(self.fits.sum())

    @cached_property
    def levels(self) -> list[list[tuple[int, Pair]]]:
        """By the number of items of the larger content, from 1 on: kind, and the contents with one
        more and without it."""
        move = self.contents.removals
        level = np.searchsorted(self.contents.level_starts, move.source, side="right") - 1
        order = np.lexsort((move.source, move.kind, level))
        key = level[order] * len(self.widths) + move.kind[order]
        cuts = [0, *(np.flatnonzero(np.diff(key)) + 1).tolist(), key.size]
        found: list[list[tuple[int, Pair]]] = [[] for _ in self.contents.level_starts[2:]]
        for begin, end in pairwise(cuts):
            some = order[begin:end]
            found[int(level[some[0]]) - 1].append(
                (int(move.kind[some[0]]), (move.source[some], move.target[some]))
            )
        return found

    @cached_property
    def onward(self) -> list[list[Pair]]:
        """Per kind: contents before and after one of the kind moves on to the next, those with
        more of the kind first; none of a part leads to another of the same part."""
        move, cuts = self.contents.advances, self.contents.advance_cuts.tolist()
        found: list[list[Pair]] = [[] for _ in self.widths]
        for begin, end in pairwise(cuts):
            if begin < end:
                part = slice(begin, end)
                found[int(move.kind[begin])].append((move.source[part], move.target[part]))
        return found

    @cached_property
    def within(self) -> list[list[IntArray]]:
        """Per kind of several stages: contents with at least 1, 2, .. of it."""
        found: list[list[IntArray]] = []
        for kind, width in enumerate(self.widths):
            copies = (self.contents.items == kind).sum(axis=1)
            most = int(copies.max()) if width > 1 else 0
            found.append([np.flatnonzero(copies >= number) for number in range(1, most + 1)])
        return found
