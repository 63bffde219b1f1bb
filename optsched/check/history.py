"""What the requests did, as far as it was possible: the checker's columns between its stages."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Steps:
    """Processing, in stretches of consecutive batches of one step type; ``(stretches,)`` each.

    ``request``, ``first`` (batch), ``batches``, ``tokens`` (in each batch), ``cached`` (m before
    the first batch; it grows by ``tokens`` per batch), ``decode`` (1 or 0, which is prefill).
    """

    request: IntArray
    first: IntArray
    batches: IntArray
    tokens: IntArray
    cached: IntArray
    decode: IntArray


@dataclass(frozen=True)
class Moves:
    """KV that comes or goes otherwise than by processing; ``(moves,)`` each.

    In ``batch`` the KV of one request changes by ``gpu`` tokens (all it had, or all it gets) and
    its host memory by ``host``. With ``later`` = 1 the change comes after the batch: the release
    of a finished request.
    """

    batch: IntArray
    gpu: IntArray
    host: IntArray
    later: IntArray


@dataclass(frozen=True)
class Evictions:
    """Evictions: ``request``, ``batch`` and the KV ``tokens`` lost."""

    request: IntArray
    batch: IntArray
    tokens: IntArray


@dataclass(frozen=True)
class Swaps:
    """Swaps in either direction: ``request``, ``batch`` and the KV ``tokens`` copied."""

    request: IntArray
    batch: IntArray
    tokens: IntArray


@dataclass(frozen=True)
class Splits:
    """Fills that took more than one batch: ``request``, first ``batch``, tokens ``left`` by it."""

    request: IntArray
    batch: IntArray
    left: IntArray


@dataclass(frozen=True)
class Resumptions:
    """First processing after a call: ``request``, batch that made the call (``made``), position
    of the call in :class:`~optsched.check.milestones.Milestones`, the ``batch`` after it, and its
    ``handling`` in between, a position in :data:`~optsched.handling.HANDLINGS`."""

    request: IntArray
    made: IntArray
    call: IntArray
    batch: IntArray
    handling: IntArray


@dataclass(frozen=True)
class Holds:
    """Requests that something does not happen to in the batches from ``first`` to before ``stop``;
    ``call`` is the call they made last and have not resumed from (-1 if none), made in batch
    ``made``."""

    request: IntArray
    first: IntArray
    stop: IntArray
    made: IntArray
    call: IntArray


@dataclass(frozen=True)
class History:
    """All of it: ``holds`` of resident requests that do nothing, ``gaps`` between the batches that
    process a request, or after them if it does not finish, and ``first_token``, ``(requests,)``,
    the batch that generates each request's first token, 0 if none does."""

    steps: Steps
    moves: Moves
    evictions: Evictions
    swaps: Swaps
    splits: Splits
    resumptions: Resumptions
    holds: Holds
    gaps: Holds
    first_token: IntArray


class Rows:
    """Integer columns that grow piece by piece."""

    def __init__(self, columns: int) -> None:
        self._pieces: list[tuple[NDArray[np.generic], ...]] = []
        self._empty = tuple(np.zeros(0, dtype=np.int64) for _ in range(columns))

    def add(self, *piece: NDArray[np.generic]) -> None:
        """Append rows, given as equally long columns; integers or booleans."""
        self._pieces.append(piece)

    def columns(self) -> tuple[IntArray, ...]:
        """The columns, each of shape ``(rows,)``."""
        pieces = zip(self._empty, *self._pieces, strict=True)
        return tuple(np.concatenate(piece, dtype=np.int64, casting="unsafe") for piece in pieces)
