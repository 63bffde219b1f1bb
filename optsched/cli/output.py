"""What the commands print: aligned tables, JSON without NaN, numbers to the digits that matter."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

import click
import msgspec
from rich import box
from rich.console import Console
from rich.table import Table

from optsched.objective import Objective


def print_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, left: Sequence[int] = (0,)
) -> None:
    """Print a table to stdout; the columns in ``left`` are left-aligned, the others right.

    In a pipe nothing is coloured, wrapped or cut to a terminal's width.
    """
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for index, name in enumerate(header):
        last_text = index in left and index == len(header) - 1
        table.add_column(
            name, justify="left" if index in left else "right", no_wrap=not last_text,
            overflow="fold",
        )  # fmt: skip
    for row in rows:
        table.add_row(*row)
    console = Console(file=sys.stdout, highlight=False, markup=False)
    if not console.is_terminal:
        console.width = 400
    with console.capture() as capture:
        console.print(table)
    click.echo("\n".join(line.rstrip() for line in capture.get().rstrip().splitlines()))


def print_json(value: Any) -> None:
    """Print JSON to stdout; infinite and undefined numbers become null."""
    text = msgspec.json.encode(_finite(msgspec.to_builtins(value)))
    click.echo(msgspec.json.format(text, indent=2).decode())


def note(text: str) -> None:
    """Print ``note: text`` to stderr."""
    click.echo(f"note: {text}", err=True)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return value


def seconds(value: float | None) -> str:
    """Seconds with seven significant digits at most: 0.2153640, 6536.40, 1.234568e+09."""
    if value is None or not math.isfinite(value):
        return "-"
    size = abs(float(f"{value:.6e}"))  # as rounded: 99999.996 needs one digit less
    if size >= 1e7 or 0 < size < 1e-6:
        return f"{value:.6e}"
    if size < 1:
        return f"{value:.7f}"
    if size < 100:
        return f"{value:.5f}"
    return f"{value:.{max(0, min(2, 6 - math.floor(math.log10(size))))}f}"


def amount(value: float | None, objective: Objective) -> str:
    """A value of an objective without its unit: seconds, or a weight."""
    if value is not None and objective.maximised:
        return f"{value:.7g}"
    return seconds(value)


def percent(fraction: float | None, digits: int = 2) -> str:
    """A fraction as percent; ``-`` if unknown."""
    if fraction is None or not math.isfinite(fraction):
        return "-"
    return f"{100 * fraction:.{digits}f} %"
