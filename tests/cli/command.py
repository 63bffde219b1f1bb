"""Runs the command line as a user does, in this process: exit code, stdout and stderr."""

from __future__ import annotations

import contextlib
import io
import sys
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from optsched.cli.main import run

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Ended:
    """Exit code and what was printed."""

    code: int
    out: str
    err: str


def optsched(*arguments: object) -> Ended:
    """``optsched`` with ``arguments``; a traceback would be an exception here."""
    out, err = io.StringIO(), io.StringIO()
    code = 0
    with (
        mock.patch.object(sys, "argv", ["optsched", *map(str, arguments)]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        contextlib.chdir(ROOT),
    ):
        try:
            run()
        except SystemExit as end:
            code = int(end.code or 0)
    assert "NaN" not in out.getvalue()
    return Ended(code, out.getvalue(), err.getvalue())
