"""Schedule: decisions only, never a time, stored as runs.

A run is (request, kind, first batch, batches, tokens): the same action of one request in
consecutive batches. A 20,000-request hour has millions of request-batches but only some 100,000
runs, so checking and timing are vectorised arithmetic over runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optsched.errors import require

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


class Kind(IntEnum):
    """What a run does. The values order the actions of one request within a batch: it may swap
    in and process in the same batch; every other combination breaks a rule."""

    SWAP_IN = 0
    PROCESS = 1
    EVICT = 2
    SWAP_OUT = 3

    @property
    def label(self) -> str:
        """Its name in files: process, evict, swap_out, swap_in."""
        return self.name.lower()


MOST = 10**15  # of any number in a schedule: the last batch of a run is within 64 bits
KIND_OF_LABEL = {kind.label: kind for kind in Kind}


def _ints(name: str, values: ArrayLike) -> IntArray:
    array = np.asarray(values)
    require(
        array.ndim == 1 and (array.size == 0 or array.dtype.kind in "iu"),
        name, array.dtype.name, "a one-dimensional list of whole numbers",
    )  # fmt: skip
    if array.size and array.max() > MOST:
        at = int(np.argmax(array))
        require(False, f"{name}[{at}]", int(array[at]), f"a whole number <= {MOST}")
    array = array.astype(np.int64)
    array.setflags(write=False)
    return array


@dataclass(frozen=True, kw_only=True, eq=False)
class Schedule:
    """Runs in columns, all of shape ``(runs,)``, sorted by (request, first_batch, kind).

    Parameters
    ----------
    request : int array
        Position of the request in the instance, from 0.
    kind : int array
        A :class:`Kind`.
    first_batch : int array
        The batch in which the run begins; batches count from 1.
    batches : int array
        Number of consecutive batches, >= 1; an evict, swap out or swap in takes 1.
    tokens : int array
        Tokens processed in each of these batches (decode: 1); 0 unless kind is process.
    wait_batch, wait_until_s : arrays, optional
        Batches that may not start before a given time on the schedule's clock (deliberate
        waiting); empty for nearly every schedule.

    Raises
    ------
    InvalidInputError
        Columns of unequal length, or a value out of its range or above 10^15.
    """

    request: IntArray
    kind: IntArray
    first_batch: IntArray
    batches: IntArray
    tokens: IntArray
    wait_batch: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    wait_until_s: FloatArray = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        names = ("request", "kind", "first_batch", "batches", "tokens")
        columns = {name: _ints(f"runs.{name}", getattr(self, name)) for name in names}
        rows = columns["request"].size
        for name, column in columns.items():
            require(column.size == rows, f"runs.{name}", column.size, f"{rows} entries")
        process = columns["kind"] == Kind.PROCESS
        for name, bad, expected in (
            ("request", columns["request"] < 0, "a position >= 0"),
            ("kind", (columns["kind"] < 0) | (columns["kind"] > 3), "a Kind"),
            ("first_batch", columns["first_batch"] < 1, "a batch number >= 1"),
            ("batches", columns["batches"] < 1, "a whole number >= 1"),
            ("batches", ~process & (columns["batches"] != 1), "1 unless the run processes"),
            ("tokens", ~process & (columns["tokens"] != 0), "0 unless the run processes"),
            # A count below 1 in a process run is the checker's business: rule `progress`.
            ("tokens", columns["tokens"] < 0, "a whole number >= 0"),
        ):
            if bad.any():
                at = int(np.argmax(bad))
                require(False, f"runs.{name}[{at}]", int(columns[name][at]), expected)
        order = np.lexsort((columns["kind"], columns["first_batch"], columns["request"]))
        for name in names:
            column = columns[name][order]
            column.setflags(write=False)
            object.__setattr__(self, name, column)
        wait_batch = _ints("waits.batch", self.wait_batch)
        wait_until = np.asarray(self.wait_until_s, dtype=float)
        require(wait_batch.size == wait_until.size, "waits", wait_until.size, "equal lengths")
        require(bool((wait_batch >= 1).all()), "waits.batch", wait_batch.tolist(), "numbers >= 1")
        require(
            bool(np.isfinite(wait_until).all() and (wait_until >= 0).all()),
            "waits.not_before_s", wait_until.tolist(), "finite times >= 0",
        )  # fmt: skip
        wait_until.setflags(write=False)
        object.__setattr__(self, "wait_batch", wait_batch)
        object.__setattr__(self, "wait_until_s", wait_until)

    def __len__(self) -> int:
        return int(self.request.size)

    @property
    def batch_count(self) -> int:
        """Number of the last batch; 0 if there is no run."""
        if not len(self):
            return 0
        return int((self.first_batch + self.batches - 1).max())

    @property
    def evictions(self) -> int:
        """Number of evictions."""
        return int((self.kind == Kind.EVICT).sum())

    def same_as(self, other: Schedule) -> bool:
        """Whether both hold the same decisions, however they are cut into runs."""
        a, b = self.merged(), other.merged()
        names = ("request", "kind", "first_batch", "batches", "tokens", "wait_batch")
        return all(np.array_equal(getattr(a, n), getattr(b, n)) for n in names) and np.array_equal(
            a.wait_until_s, b.wait_until_s
        )

    def merged(self) -> Schedule:
        """The same decisions with adjacent equal process runs joined."""
        joined = _join(self.request, self.kind, self.first_batch, self.batches, self.tokens)
        return replace(self, **joined)  # type: ignore[arg-type]


def from_steps(
    steps: Sequence[tuple[int, int, int, int]] | NDArray[np.int64],
) -> Schedule:
    """Schedule from single steps (request, kind, batch, tokens), in any order."""
    table = np.asarray(steps, dtype=np.int64).reshape(-1, 4)
    table = table[np.lexsort((table[:, 1], table[:, 2], table[:, 0]))]
    ones = np.ones(len(table), dtype=np.int64)
    joined = _join(table[:, 0], table[:, 1], table[:, 2], ones, table[:, 3])
    return Schedule(**joined)  # type: ignore[arg-type]


def _join(
    request: IntArray, kind: IntArray, first: IntArray, batches: IntArray, tokens: IntArray
) -> dict[str, IntArray]:
    """Join runs, sorted by (request, first_batch), that continue the run before them."""
    if request.size == 0:
        empty = np.zeros(0, dtype=np.int64)
        names = ("request", "kind", "first_batch", "batches", "tokens")
        return dict.fromkeys(names, empty)
    follows = (
        (request[1:] == request[:-1])
        & (kind[1:] == Kind.PROCESS)
        & (kind[:-1] == Kind.PROCESS)
        & (tokens[1:] == tokens[:-1])
        & (first[1:] == first[:-1] + batches[:-1])
    )
    head = np.flatnonzero(np.concatenate(([True], ~follows)))
    return {
        "request": request[head],
        "kind": kind[head],
        "first_batch": first[head],
        "batches": np.add.reduceat(batches, head),
        "tokens": tokens[head],
    }
