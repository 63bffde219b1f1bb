"""What the loop decided, collected in lists and turned into a Schedule once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np

from optsched.schedule import IntArray, Kind, Schedule


class Record:
    """Fills and evictions by batch; decodes by decode step.

    Decode steps count the batches in which decodes ran. They are mapped to batches at the end,
    because a batch without decodes would cut the run of every running request.
    """

    def __init__(self) -> None:
        self._fills: list[tuple[int, int, int]] = []  # request, batch, tokens
        self._evictions: list[tuple[int, int]] = []  # request, batch
        self._decodes: list[tuple[int, int, int]] = []  # request, first step, end step
        self._stretches: list[tuple[int, int]] = []  # first step, its batch
        self._gap: int | None = None  # batch - step of the last stretch

    def filled(self, request: int, batch: int, tokens: int) -> None:
        """``request`` processes ``tokens`` of its fill in ``batch``."""
        self._fills.append((request, batch, tokens))

    def evicted(self, request: int, batch: int) -> None:
        """``request`` loses its KV in ``batch``."""
        self._evictions.append((request, batch))

    def decoding(self, step: int, batch: int) -> None:
        """Decode step ``step`` runs in ``batch``, and later ones in the batches that follow."""
        if batch - step != self._gap:
            self._gap = batch - step
            self._stretches.append((step, batch))

    def decoded(self, request: int, first: int, end: int) -> None:
        """``request`` decodes in steps ``first`` .. ``end - 1``."""
        self._decodes.append((request, first, end))

    def schedule(self, position: IntArray) -> Schedule:
        """The schedule, with request r of the record at ``position[r]`` of the instance.

        Parameters
        ----------
        position : int array, shape ``(requests,)``
        """
        fills = _table(self._fills, 3)
        evictions = _table(self._evictions, 2)
        decodes = self._decode_runs()
        ones, zeros = np.ones_like, np.zeros_like
        request = np.concatenate((fills[0], evictions[0], decodes[0]))
        return Schedule(
            request=position[request],
            kind=np.concatenate(
                (
                    np.full_like(fills[0], Kind.PROCESS),
                    np.full_like(evictions[0], Kind.EVICT),
                    np.full_like(decodes[0], Kind.PROCESS),
                )
            ),
            first_batch=np.concatenate((fills[1], evictions[1], decodes[1])),
            batches=np.concatenate((ones(fills[0]), ones(evictions[0]), decodes[2])),
            tokens=np.concatenate((fills[2], zeros(evictions[0]), ones(decodes[0]))),
        )

    def _decode_runs(self) -> tuple[IntArray, IntArray, IntArray]:
        """Request, first batch and batches of every run of decodes, each ``(runs,)``."""
        request, first, end = _table(self._decodes, 3)
        step, batch = _table(self._stretches, 2)
        from_stretch = np.searchsorted(step, first, side="right") - 1
        to_stretch = np.searchsorted(step, end, side="left") - 1
        parts = to_stretch - from_stretch + 1
        row = np.repeat(np.arange(request.size), parts)
        stretch = from_stretch[row] + np.arange(row.size) - np.repeat(parts.cumsum() - parts, parts)
        start = np.maximum(first[row], step[stretch])
        until = np.append(step[1:], np.iinfo(np.int64).max)[stretch]
        stop = np.minimum(end[row], until)
        return request[row], batch[stretch] + start - step[stretch], stop - start


def _table(rows: Sequence[tuple[int, ...]], width: int) -> IntArray:
    """Rows as columns, shape ``(width, rows)``."""
    flat = np.fromiter(chain.from_iterable(rows), dtype=np.int64, count=width * len(rows))
    return flat.reshape(-1, width).T
