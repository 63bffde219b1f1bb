"""Groups of columns of a program: numbers, bounds and names of columns of one meaning."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Columns:
    """Columns of one meaning.

    Parameters
    ----------
    label : str
        What they are; a column's name is the label and its indices.
    numbers : int array
        Column numbers, of any shape; empty where the program has no such columns.
    lower, upper : float arrays
        Bounds, of the same shape.
    integer : bool
        Whether they are whole.
    """

    label: str
    numbers: IntArray
    lower: FloatArray
    upper: FloatArray
    integer: bool

    def __len__(self) -> int:
        return int(self.numbers.size)

    def names(self) -> list[str]:
        """One name per column, in order; indices count from 1."""
        places = np.ndindex(self.numbers.shape)
        return ["_".join([self.label, *(str(i + 1) for i in place)]) for place in places]


class Allocation:
    """Hands out column numbers, and remembers the groups in order."""

    def __init__(self, first: int) -> None:
        self.next = first
        self.groups: list[Columns] = []

    def add(
        self,
        label: str,
        shape: int | tuple[int, ...],
        *,
        lower: ArrayLike = 0.0,
        upper: ArrayLike = np.inf,
        integer: bool = False,
    ) -> Columns:
        """New columns of this shape; bounds are broadcast to it."""
        size = int(np.prod(shape))
        numbers = np.arange(self.next, self.next + size, dtype=np.int64).reshape(shape)
        low, high = (
            np.broadcast_to(np.asarray(b, dtype=np.float64), numbers.shape) for b in (lower, upper)
        )
        group = Columns(label=label, numbers=numbers, lower=low, upper=high, integer=integer)
        self.next += size
        self.groups.append(group)
        return group
