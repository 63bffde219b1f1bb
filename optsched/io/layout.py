"""JSON that people can read and compare: short parts on one line, long ones broken up."""

from __future__ import annotations

from typing import Any

import msgspec

_WIDTH = 96


def to_json(value: Any) -> str:
    """JSON text of a msgspec object or builtin, ending in a newline; the same for the same value.

    An array of plain values stays on one line however long it is, so that a file with columns
    has one line per column.
    """
    return _lay_out(msgspec.to_builtins(value), 0) + "\n"


def _lay_out(value: Any, depth: int) -> str:
    flat = msgspec.json.encode(value).decode()
    plain = isinstance(value, list) and not any(isinstance(v, (list, dict)) for v in value)
    if not isinstance(value, (list, dict)) or plain or len(flat) + 2 * depth <= _WIDTH:
        return _spaced(flat) if len(flat) <= _WIDTH else flat
    pad = "\n" + "  " * (depth + 1)
    if isinstance(value, list):
        inner = [_lay_out(item, depth + 1) for item in value]
        return "[" + pad + ("," + pad).join(inner) + "\n" + "  " * depth + "]"
    inner = [
        msgspec.json.encode(key).decode() + ": " + _lay_out(item, depth + 1)
        for key, item in value.items()
    ]
    return "{" + pad + ("," + pad).join(inner) + "\n" + "  " * depth + "}"


def _spaced(flat: str) -> str:
    """The same JSON with a blank behind every comma and colon."""
    return msgspec.json.format(flat, indent=0)
