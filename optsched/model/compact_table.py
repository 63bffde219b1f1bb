"""The columns of the compact formulation as a table that grows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optsched.model.milp import FloatArray, IntArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Columns:
    """Index arrays by name and, per column, bounds, cost, integrality and name.

    ``durations``, by the name of columns whose last axis is the batch: seconds that a unit of them
    adds to the batch. ``offset`` is the constant part of the objective.
    """

    index: dict[str, IntArray]
    lower: FloatArray
    upper: FloatArray
    cost: FloatArray
    integer: NDArray[np.bool_]
    names: tuple[str, ...]
    durations: Mapping[str, float]
    offset: float


class Table:
    """Collects columns; those with a duration cost it, if the objective is their sum."""

    def __init__(self, *, durations_cost: bool) -> None:
        self.index: dict[str, IntArray] = {}
        self.offset = 0.0
        self._durations_cost = durations_cost
        self._durations: dict[str, float] = {}
        self._parts: list[tuple[FloatArray, FloatArray, FloatArray, NDArray[np.bool_]]] = []
        self._names: list[str] = []

    def add(
        self, name: str, shape: tuple[int, ...], *, lower: ArrayLike = 0.0, upper: ArrayLike = 1.0,
        cost: ArrayLike = 0.0, duration: float = 0.0, integer: bool = True,
        where: NDArray[np.bool_] | None = None,
    ) -> None:  # fmt: skip
        """Columns ``name`` of an index array of ``shape``, where ``where`` says so."""
        mask = np.ones(shape, bool) if where is None else np.broadcast_to(where, shape)
        count = int(mask.sum())
        index = np.full(shape, -1, dtype=np.int64)
        index[mask] = len(self._names) + np.arange(count)
        self.index[name] = index
        if duration:
            self._durations[name] = duration
            cost = duration if self._durations_cost else cost
        low, high, price = (
            np.broadcast_to(np.asarray(x, float), shape)[mask] for x in (lower, upper, cost)
        )
        self._parts.append((low, high, price, np.full(count, integer)))
        self._names += [f"{name}_{'_'.join(map(str, at))}" for at in np.argwhere(mask).tolist()]

    def columns(self) -> Columns:
        """What was collected."""
        lower, upper, cost, integer = (np.concatenate(a) for a in zip(*self._parts, strict=True))
        return Columns(
            index=self.index, lower=lower, upper=upper, cost=cost, integer=integer,
            names=tuple(self._names), durations=self._durations, offset=self.offset,
        )  # fmt: skip
