"""Types of options that several commands have."""

from __future__ import annotations

import math
from typing import Any

import click

from optsched.objective import OBJECTIVES

OBJECTIVE = click.Choice(OBJECTIVES)
SEED = click.IntRange(min=0, max=2**31 - 1)  # what every solver takes


class FiniteRange(click.FloatRange):
    """A range of numbers; click's own lets NaN through, which is below and above no limit."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The number; fails as click's own type does for anything else."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


class _ApiClasses(click.ParamType):
    """Names joined by commas; the command refuses those that are no API class."""

    name = "name,name"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """The names as a tuple."""
        return tuple(value.split(",")) if isinstance(value, str) else value


API_CLASSES = _ApiClasses()
