"""The schedule that a command is about: a file's, or a scheduler's."""

from __future__ import annotations

from pathlib import Path

from optsched import io
from optsched.cli.output import note
from optsched.errors import OptschedError
from optsched.instance import Instance
from optsched.solve import Candidate, assess, evaluate


class UsageError(OptschedError):
    """Arguments that do not go together."""

    exit_code = 2


def chosen_schedule(instance: Instance, file: Path | None, scheduler: str | None) -> Candidate:
    """The checked and timed schedule of ``file`` or of ``scheduler``; exactly one is given."""
    if (file is None) == (scheduler is None):
        raise UsageError(
            "give either a SCHEDULE file or --scheduler NAME",
            hint="`optsched schedulers` lists the names",
        )
    if file is not None:
        return assess(instance, io.read_schedule(file, instance, note), str(file))
    assert scheduler is not None
    return evaluate(instance, scheduler)
