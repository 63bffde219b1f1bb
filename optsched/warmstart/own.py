"""A user's scheduler: a function of a Python file, with errors that say where it went wrong."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from optsched.errors import InvalidInputError, OptschedError, require
from optsched.instance import Instance
from optsched.schedule import Schedule

_HINT = "see docs/own-scheduler.md"


@dataclass(frozen=True)
class OwnScheduler:
    """A function from a user's file; what it raises becomes one line that says where.

    What it prints goes to stderr: stdout is for the command's own data.
    """

    path: Path
    name: str
    function: Callable[[Instance], Any]

    def __call__(self, instance: Instance, /) -> Schedule:
        """Call the function.

        Raises
        ------
        OptschedError
            The function raised, or returned something that is no Schedule. An OptschedError of
            its own passes unchanged.
        """
        try:
            with contextlib.redirect_stdout(sys.stderr):
                schedule = self.function(instance)
        except (OptschedError, KeyboardInterrupt):
            raise
        except BaseException as error:
            where = _line_in(self.path, error)
            raise OptschedError(
                f"scheduler {self.name!r} raised {_told(error)} at {where}", hint=_HINT
            ) from error
        if not isinstance(schedule, Schedule):
            raise OptschedError(
                f"scheduler {self.name!r} of {self.path} returned {type(schedule).__name__}, "
                "expected a Schedule",
                hint="build one with optsched.schedule.from_steps",
            )
        return schedule


def load(reference: str) -> OwnScheduler:
    """The function that ``FILE.py:NAME`` refers to.

    Raises
    ------
    InvalidInputError
        The reference has no name, the file does not exist, it defines nothing of that name, or
        that cannot be called.
    OptschedError
        The file does not run.
    """
    file, _, name = reference.rpartition(":")
    require(
        file.endswith(".py") and name.isidentifier(), "scheduler", reference,
        "a scheduler's name, or path/to/file.py:function", hint=_HINT,
    )  # fmt: skip
    path = Path(file)
    require(path.is_file(), "scheduler file", file, "a Python file that exists")
    module = _run(path)
    function = getattr(module, name, None)
    if function is None:
        defined = sorted(n for n, v in vars(module).items() if callable(v) and n[0] != "_")
        raise InvalidInputError(
            f"{path} defines no {name!r}", hint=f"it defines: {', '.join(defined) or 'nothing'}"
        )
    if not callable(function):
        raise InvalidInputError(
            f"{name!r} of {path} is a {type(function).__name__}, expected a function", hint=_HINT
        )
    return OwnScheduler(path=path, name=name, function=function)


def _run(path: Path) -> ModuleType:
    """Import the file under a name of its own."""
    digest = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]
    spec = importlib.util.spec_from_file_location(f"optsched_own_{digest}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses and pickle look a class's module up there
    try:
        with contextlib.redirect_stdout(sys.stderr):
            spec.loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        sys.modules.pop(spec.name, None)
        raise OptschedError(
            f"scheduler file {path} raised {_told(error)} at {_line_in(path, error)}"
        ) from error
    return module


def _told(error: BaseException) -> str:
    try:
        text = str(error).splitlines()
    except Exception:  # its own __str__ is the user's code, too
        text = []
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__


def _line_in(path: Path, error: BaseException) -> str:
    """``file:line`` of the innermost frame in the user's file."""
    if isinstance(error, SyntaxError) and error.lineno and error.filename:
        own = Path(error.filename).resolve() == path.resolve()  # or of a file that it imports
        return f"{path if own else error.filename}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    lines = [f.lineno for f in frames if Path(f.filename).resolve() == path.resolve()]
    return f"{path}:{lines[-1]}" if lines else str(path)
