"""Reading and writing whole files: nothing is half written, and nothing but the file is touched."""

from __future__ import annotations

import os
import secrets
import stat
import sys
from pathlib import Path

from optsched.errors import InvalidInputError


def read_bytes(path: Path) -> bytes:
    """Contents of a file; raises :class:`InvalidInputError` when it cannot be read."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise InvalidInputError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise InvalidInputError(f"{path}: is a directory, expected a file") from None
    except OSError as error:
        raise InvalidInputError(f"{path}: cannot be read: {error.strerror}") from None


def require_writable(path: str | Path) -> None:
    """Raise :class:`InvalidInputError` if nothing could be written to ``path``.

    To be called before a long computation whose result goes there. Nothing is opened or created.
    """
    _target(Path(path))


def write_text(path: str | Path, text: str) -> None:
    """Write a file whole or not at all; raises :class:`InvalidInputError` when it cannot be.

    A link stays a link, and a file keeps its permissions. A device, a pipe, and a file that is
    also the standard output are written in place, as is a file in a folder that takes no new ones.
    """
    path = Path(path)
    target, found = _target(path)
    try:
        stream = None if found is None else _standard_stream(found)
        if stream is not None:
            # Opened anew it would begin at its first byte, over what was printed before.
            _write(os.dup(stream), text)
        elif found is not None and not (stat.S_ISREG(found.st_mode) and _takes_files(target)):
            _write(os.open(path, os.O_WRONLY | os.O_TRUNC), text)
        else:
            _replace(target, text, found)
    except OSError as error:
        raise _refusal(path, error.strerror) from None


def _target(path: Path) -> tuple[Path, os.stat_result | None]:
    """Where ``path`` leads once links are followed, and what is there; refuses what cannot do."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        found = None
    except OSError as error:
        raise _refusal(path, error.strerror) from None
    target = Path(os.path.realpath(path))
    if found is None:
        if not target.parent.is_dir():
            raise _refusal(path, f"there is no folder {target.parent}")
        if not _takes_files(target):
            raise _refusal(path, f"folder {target.parent} is not writable")
    elif stat.S_ISDIR(found.st_mode):
        raise _refusal(path, "is a directory, expected a file")
    elif not os.access(path, os.W_OK):
        raise _refusal(path, "is not writable")
    return target, found


def _takes_files(target: Path) -> bool:
    """Whether a file can be made beside ``target``."""
    return os.access(target.parent, os.W_OK | os.X_OK)


def _standard_stream(found: os.stat_result) -> int | None:
    """Descriptor of the standard output or error if that is the file ``found``."""
    for stream in (sys.stdout, sys.stderr):
        try:
            descriptor = stream.fileno()
            same = os.path.samestat(found, os.fstat(descriptor))
        except (AttributeError, OSError, ValueError):  # closed, or no file at all
            continue
        if same:
            stream.flush()
            return descriptor
    return None


def _replace(target: Path, text: str, found: os.stat_result | None) -> None:
    """Write beside ``target`` under a name that nobody has, then put it in its place."""
    scratch = target.with_name(f".optsched-{secrets.token_hex(8)}.part")
    new = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        if found is not None:
            os.chmod(scratch, stat.S_IMODE(found.st_mode))
        _write(new, text)
        scratch.replace(target)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise


def _write(descriptor: int, text: str) -> None:
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(text)


def _refusal(path: Path, reason: str | None) -> InvalidInputError:
    return InvalidInputError(f"{path}: cannot be written: {reason}")
