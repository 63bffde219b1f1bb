"""Trace: when each batch ran and when each request got its tokens; simulated or measured."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optsched.errors import require

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Trace:
    """Times of one execution of a schedule, in seconds on a clock whose 0 is the earliest arrival.

    Parameters
    ----------
    source : str
        Where the times come from: ``simulated`` or ``measured``.
    start_s, end_s : float arrays, shape ``(batches,)``
        Start and end of each batch.
    first_token_s, finish_s : float arrays, shape ``(requests,)``
        End of the batch that generates the request's first and last token; NaN if it never does.
    pause_s : float array, shape ``(requests,)``
        Time that the request spent waiting for its calls to return.
    """

    source: str
    start_s: FloatArray
    end_s: FloatArray
    first_token_s: FloatArray
    finish_s: FloatArray
    pause_s: FloatArray

    def __post_init__(self) -> None:
        for name in ("start_s", "end_s", "first_token_s", "finish_s", "pause_s"):
            array = np.array(getattr(self, name), dtype=np.float64)
            require(array.ndim == 1, f"trace.{name}", array.shape, "one dimension")
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        require(
            self.start_s.size == self.end_s.size,
            "trace.end_s", self.end_s.size, f"{self.start_s.size} entries, as start_s",
        )  # fmt: skip
        requests = self.finish_s.size
        for name in ("first_token_s", "pause_s"):
            size = getattr(self, name).size
            require(size == requests, f"trace.{name}", size, f"{requests} entries, as finish_s")
        require(
            bool(np.isfinite(self.start_s).all() and np.isfinite(self.end_s).all()),
            "trace batch times", "a NaN or an infinity", "finite seconds",
        )  # fmt: skip

    @property
    def makespan_s(self) -> float:
        """End of the last batch, counted from the earliest arrival."""
        return float(self.end_s[-1]) if self.end_s.size else 0.0
