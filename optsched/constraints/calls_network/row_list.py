"""Rows put together one at a time, where each has its own few entries."""

from __future__ import annotations

import numpy as np

from optsched.constraints.network.blocks import Part, stacked
from optsched.model.milp import Block


class RowList:
    """Rows ``sum of entries >= lower``, one at a time."""

    def __init__(self) -> None:
        self.row: list[int] = []
        self.column: list[int] = []
        self.value: list[float] = []
        self.lower: list[float] = []

    def add(self, entries: list[tuple[int, float]], lower: float) -> None:
        """One row."""
        self.row += [len(self.lower)] * len(entries)
        self.column += [column for column, _ in entries]
        self.value += [value for _, value in entries]
        self.lower.append(lower)

    def block(self, name: str) -> Block:
        """All rows."""
        part: Part = (
            np.array(self.row, dtype=np.int64), np.array(self.column, dtype=np.int64),
            np.array(self.value),
        )  # fmt: skip
        return stacked(name, [part], len(self.lower), lower=np.array(self.lower))
