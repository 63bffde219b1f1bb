"""Types of options that several commands have."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import click

from optsched.bounds import EFFORTS
from optsched.objective import OBJECTIVES

OBJECTIVE = click.Choice(OBJECTIVES)
SEED = click.IntRange(min=0, max=2**31 - 1)  # what every solver takes


Command = TypeVar("Command", bound=Callable[..., Any])


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


def split_names(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> tuple[str, ...] | None:
    """Callback of an option whose value is names joined by commas; None if it is not given."""
    del ctx, param
    return None if value is None else tuple(value.split(","))


def solving(command: Command) -> Command:
    """The options of every command that solves: effort, seed and threads."""
    for option in (
        click.option("--threads", type=click.IntRange(min=1), default=1, show_default=True),
        click.option("--seed", type=SEED, default=0, show_default=True),
        click.option(
            "--effort", type=click.Choice(EFFORTS), default="normal", show_default=True,
            help="How hard to look for bounds that need no formulation.",
        ),
    ):  # fmt: skip
        command = option(command)
    return command
