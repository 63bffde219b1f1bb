"""``optsched presets``: the cost models that ship with the tool."""

from __future__ import annotations

import click

from optsched import io
from optsched.cli.output import print_json, print_table


@click.command(
    short_help="List the cost presets.", epilog="\b\nExample:\n  optsched presets --json"
)
@click.option("--json", "as_json", is_flag=True, help="Print all coefficients as JSON.")
def presets(as_json: bool) -> None:
    """List the cost presets: batch-time coefficients, how well they fit, where they come from."""
    table = io.presets()
    if as_json:
        print_json(list(table.values()))
        return
    rows = [
        (
            p.name, str(len(p.cost.pieces)), f"{1e3 * p.cost.token_time(1):.3g}",
            f"{p.batch_tokens}", f"{p.kv_tokens}", p.error, p.source,
        )
        for p in table.values()
    ]  # fmt: skip
    header = ("preset", "pieces", "1 token, ms", "C", "M", "fit error mean / max", "source")
    print_table(header, rows, left=(0, 5, 6))
