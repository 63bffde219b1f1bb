"""Line: a function below the batch-time law that is used in its place."""

from __future__ import annotations

import msgspec

from optsched.errors import require


class Line(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """g(n) >= intercept_s + slope_s n + excess_s max(0, n - knee_tokens) for n = 1 .. C."""

    intercept_s: float
    slope_s: float
    knee_tokens: int
    excess_s: float = 0.0

    def __post_init__(self) -> None:
        for name in ("intercept_s", "slope_s", "excess_s"):
            value = getattr(self, name)
            require(0 <= value < float("inf"), f"line.{name}", value, "a finite number >= 0")
        require(self.knee_tokens >= 1, "line.knee_tokens", self.knee_tokens, "a number >= 1")
