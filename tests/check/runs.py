"""Schedules from rows (request, kind, first batch, batches, tokens), and back."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from optsched.schedule import Schedule

Row = tuple[int, int, int, int, int]
COLUMNS = ("request", "kind", "first_batch", "batches", "tokens")


def schedule_of(rows: Iterable[Row], waits: Iterable[tuple[int, float]] = ()) -> Schedule:
    """The schedule of these runs; ``waits`` are (batch, not_before_s)."""
    table = np.array(list(rows), dtype=np.int64).reshape(-1, len(COLUMNS))
    waiting = list(waits)
    return Schedule(
        **dict(zip(COLUMNS, table.T, strict=True)),
        wait_batch=np.array([batch for batch, _ in waiting], dtype=np.int64),
        wait_until_s=np.array([until for _, until in waiting], dtype=np.float64),
    )


def rows_of(schedule: Schedule) -> list[Row]:
    """Its runs."""
    columns = (getattr(schedule, name).tolist() for name in COLUMNS)
    return list(zip(*columns, strict=True))
