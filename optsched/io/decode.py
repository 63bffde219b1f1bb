"""JSON text to typed objects, with errors that name the file, the JSON path and the remedy."""

from __future__ import annotations

import difflib
import re
from typing import TypeVar

import msgspec

from optsched.errors import InvalidInputError

T = TypeVar("T", bound=msgspec.Struct)


def decode(text: bytes, kind: type[T], source: str) -> T:
    """Decode ``text`` as the file format ``kind``; ``source`` names it in errors.

    Raises
    ------
    InvalidInputError
        The text is not JSON, misses a field, has an unknown one, or a value is refused.
    """
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.ValidationError as error:
        _require_format(text, kind, source)
        raise InvalidInputError(f"{source}: {_located(error)}", hint=_hint(error, kind)) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidInputError(
            f"{source}: not valid JSON: {str(error).removeprefix('JSON is malformed: ')}"
        ) from None
    except RecursionError:
        raise _too_deep(source) from None


class _Tagged(msgspec.Struct):
    format: str | None = None


def format_of(text: bytes, source: str) -> str | None:
    """The format string of a file, if it is a JSON object and has one."""
    try:
        return msgspec.json.decode(text, type=_Tagged).format
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    except RecursionError:
        raise _too_deep(source) from None


def _too_deep(source: str) -> InvalidInputError:
    return InvalidInputError(f"{source}: brackets are nested too deeply")


def _require_format(text: bytes, kind: type[msgspec.Struct], source: str) -> None:
    """Say so if a file is of another format, rather than that a key of it is unknown."""
    field = next(f for f in msgspec.inspect.type_info(kind).fields if f.name == "format")  # type: ignore[attr-defined]
    expected, given = field.type.values[0], format_of(text, source)
    if given is not None and given != expected:
        raise InvalidInputError(f"{source}: format: got {given!r}, expected {expected!r}")


def _located(error: msgspec.ValidationError) -> str:
    """``$.requests[0]: what is wrong`` from msgspec's ``what is wrong - at `$.requests[0]```."""
    text, _, path = str(error).partition(" - at `")
    if isinstance(error.__cause__, InvalidInputError):
        text = error.__cause__.message
    return f"{path.rstrip('`') or '$'}: {text}"


def _hint(error: msgspec.ValidationError, kind: type[msgspec.Struct]) -> str | None:
    """The record's own hint, or the field that a misspelt one is nearest to."""
    if isinstance(error.__cause__, InvalidInputError):
        return error.__cause__.hint
    unknown = re.match(r"Object contains unknown field `(.*?)`", str(error))
    if unknown:
        near = difflib.get_close_matches(unknown[1], _field_names(kind), n=1)
        return f"did you mean {near[0]}?" if near else None
    return None


def _field_names(kind: type[msgspec.Struct]) -> list[str]:
    """Names of all fields that may stand anywhere in a file of this format."""
    schema = msgspec.json.schema(kind)
    return sorted({name for part in schema["$defs"].values() for name in part["properties"]})
