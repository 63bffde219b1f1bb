"""JSON Schemas of the file formats."""

from __future__ import annotations

from typing import Any

import msgspec

from optsched.errors import UnknownNameError
from optsched.io.wire import FORMATS


def schema(name: str) -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of the format called ``name``.

    It states types, names and required fields; ranges and rules between fields are checked when
    the records are made.
    """
    if name not in FORMATS:
        raise UnknownNameError("file format", name, FORMATS)
    kind = FORMATS[name]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"optsched-{name}/1",
        **msgspec.json.schema(kind),
    }
