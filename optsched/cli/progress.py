"""Signs of life on stderr: a line that is rewritten on a terminal, else a line now and then."""

from __future__ import annotations

import sys
import time
from types import TracebackType

import click

_PATIENCE_S = 2.0  # nothing is shown before
_LINE_EVERY_S = 10.0  # where lines cannot be rewritten


class ProgressLine:
    """Shows what is being done, once that takes more than two seconds.

    Parameters
    ----------
    quiet : bool
        Show nothing at all.
    """

    def __init__(self, quiet: bool = False) -> None:
        self._quiet = quiet
        self._terminal = sys.stderr.isatty()
        self._begin = self._last = time.monotonic()
        self._shown = ""

    def __call__(self, text: str) -> None:
        """Say ``text``, with the seconds since the start."""
        now = time.monotonic()
        if self._quiet or now - self._begin < _PATIENCE_S:
            return
        every = 0.1 if self._terminal else _LINE_EVERY_S
        if self._shown and now - self._last < every:
            return
        self._last = now
        line = f"{now - self._begin:6.1f} s  {text}"
        if self._terminal:
            click.echo("\r\x1b[2K" + line, err=True, nl=False)
        else:
            click.echo(line, err=True)
        self._shown = line

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._shown and self._terminal:
            click.echo("\r\x1b[2K", err=True, nl=False)
