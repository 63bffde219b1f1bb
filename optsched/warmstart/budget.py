"""Time for a portfolio: what its members are expected to take, and whether that much is left.

Without a limit nothing is ever left out, so that the result depends on the instance alone.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from optsched.instance import Instance
from optsched.warmstart.groups import kv_area

_LEAST_PACE, _MOST_PACE = 1.0, 20.0


class Budget:
    """Seconds left of a limit, and how fast this machine is compared with the estimates.

    Parameters
    ----------
    time_limit_s : float or None
        From now on; None for no limit.
    """

    def __init__(self, time_limit_s: float | None) -> None:
        self._end = None if time_limit_s is None else time.monotonic() + time_limit_s
        self._estimated = self._measured = 0.0

    @property
    def remaining_s(self) -> float | None:
        """Seconds left, None without a limit."""
        return None if self._end is None else self._end - time.monotonic()

    def allows(self, estimate_s: float) -> bool:
        """Whether something that is estimated to take so long would end in time."""
        left = self.remaining_s
        return left is None or self.expected_s(estimate_s) <= left

    def expected_s(self, estimate_s: float) -> float:
        """The estimate at the pace of what has been measured."""
        if not self._estimated:
            return estimate_s
        pace = min(max(self._measured / self._estimated, _LEAST_PACE), _MOST_PACE)
        return pace * estimate_s

    @contextmanager
    def timed(self, estimate_s: float) -> Iterator[None]:
        """Around something with this estimate, so that its time is known for the next."""
        begin = time.monotonic()
        yield
        self._estimated += estimate_s
        self._measured += time.monotonic() - begin


def batches_about(instance: Instance) -> int:
    """About how many batches a schedule has: what memory, tokens and the longest chain ask for."""
    limits = instance.limits
    area = int(kv_area(instance.prompt_tokens, instance.output_tokens).sum())
    tokens = int(instance.final_tokens.sum())
    return max(
        area // limits.kv_tokens, tokens // limits.batch_tokens, int(instance.output_tokens.max())
    )


def levelled_s(instance: Instance) -> float:
    """Seconds that a levelled placement takes, about, on a usual machine."""
    return 3e-5 * len(instance) + 1e-5 * batches_about(instance)


def backward_s(instance: Instance) -> float:
    """Seconds that a backward placement takes, about, on a usual machine."""
    return 2e-4 * len(instance) + 1e-5 * batches_about(instance)
