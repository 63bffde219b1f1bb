"""``optsched schema``: JSON Schemas of the file formats."""

from __future__ import annotations

import click

from optsched import io
from optsched.cli.output import print_json
from optsched.io.wire import FORMATS


@click.command(
    short_help="Print a file format's JSON Schema.",
    epilog="\b\nExample:\n  optsched schema instance > instance.schema.json",
)
@click.argument("name", metavar="|".join(FORMATS))
def schema(name: str) -> None:
    """Print the JSON Schema (draft 2020-12) of a file format."""
    print_json(io.schema(name))
