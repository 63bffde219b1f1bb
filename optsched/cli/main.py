"""The ``optsched`` command: no traceback for anything that a user can cause.

Nothing is imported before :func:`run` that takes a while: it alone is ready for Ctrl-C.
"""

from __future__ import annotations

import io
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def run() -> None:
    """Entry point: one line for every error, and an honest exit code."""
    try:
        code = _run_command()
    except KeyboardInterrupt:
        _leave_at_once()
    except BrokenPipeError:
        _discard_output()  # the reader (head, less) has gone; nothing is wrong
        code = 0
    except OSError as error:
        _discard_output()
        where = f"{error.filename}: " if error.filename else ""
        code = _refuse(f"{where}{error.strerror or error}")
    except MemoryError as error:
        detail = f" ({error})" if str(error) else ""
        code = _refuse(f"out of memory{detail}: this input is too large for this machine")
    except UnicodeEncodeError as error:
        code = _refuse(f"{error.object!a} holds characters that are no valid text")
    sys.exit(code)


def _run_command() -> int:
    import click

    from optsched.cli.commands import main
    from optsched.errors import OptschedError

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal that lacks a letter
    try:
        code = main(standalone_mode=False) or 0
        if sys.stdout is not None:
            sys.stdout.flush()
    except OptschedError as error:
        return _refuse(str(error), error.exit_code)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        raise KeyboardInterrupt from None
    except SystemExit:
        # All that click still ends by itself without standalone mode is a pipe without a reader.
        raise BrokenPipeError from None
    return int(code)


def _refuse(text: str, code: int = 1) -> int:
    print(f"error: {text}", file=sys.stderr)
    return code


def _leave_at_once() -> NoReturn:
    try:
        print("interrupted", file=sys.stderr, flush=True)
        if sys.stdout is not None:
            sys.stdout.flush()
    finally:
        # A solver that was asked to stop twice may still run in its thread, and complains when
        # the interpreter is torn down under it.
        os._exit(130)


def _discard_output() -> None:
    """Give stdout a sink: Python would complain once more when it flushes it at exit."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (AttributeError, OSError, ValueError):
        return  # closed, or no file at all
