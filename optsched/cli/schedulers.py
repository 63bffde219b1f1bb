"""``optsched schedulers``: the scheduling rules that ship with the tool."""

from __future__ import annotations

import click

from optsched import warmstart
from optsched.cli.output import print_json, print_table


@click.command(
    short_help="List the schedulers and their rules.",
    epilog="\b\nBring your own: --scheduler path/to/file.py:function (see docs/own-scheduler.md).",
)
@click.option("--json", "as_json", is_flag=True, help="Print the list as JSON.")
def schedulers(as_json: bool) -> None:
    """List the schedulers by name, with what each does."""
    table = [(name, warmstart.describe(name)) for name in warmstart.schedulers()]
    if as_json:
        print_json([{"name": name, "rule": rule} for name, rule in table])
        return
    print_table(("scheduler", "rule"), table, left=(0, 1))
