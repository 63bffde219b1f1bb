"""Blocks put together from parts, one kind of entry at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optsched.model.milp import Block, block

Part = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]
"""Entries of a block: row, column, value, all of equal shape."""


def stacked(
    name: str,
    parts: Sequence[Part],
    rows: int,
    *,
    lower: ArrayLike = -np.inf,
    upper: ArrayLike = np.inf,
) -> Block:
    """Block of ``rows`` rows with the entries of ``parts``; scalar bounds hold for every row."""
    bounds = [np.broadcast_to(np.asarray(b, dtype=np.float64), (rows,)) for b in (lower, upper)]
    if not parts:
        none = np.zeros(0, dtype=np.int64)
        parts = [(none, none, np.zeros(0))]
    row, column, value = (np.concatenate(part) for part in zip(*parts, strict=True))
    return block(name, row, column, value, *bounds)
