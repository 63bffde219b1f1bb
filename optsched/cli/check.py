"""``optsched check``: does a schedule obey every rule?"""

from __future__ import annotations

from pathlib import Path

import click

from optsched import io
from optsched.check import check as find_violations
from optsched.cli.output import note, print_json, print_table

_SHOWN = 20


@click.command(
    short_help="Check a schedule against every rule.",
    epilog="\b\nExample:\n  optsched check instance.json schedule.json --policy no-evict",
)
@click.argument("instance", type=click.Path(path_type=Path))
@click.argument("schedule", type=click.Path(path_type=Path))
@click.option("--trace", type=click.Path(path_type=Path), help="Also check these batch times.")
@click.option("--policy", "policies", multiple=True, help="A restriction to check; repeatable.")
@click.option("--json", "as_json", is_flag=True, help="Print every violation as JSON.")
@click.pass_context
def check(
    ctx: click.Context, instance: Path, schedule: Path, trace: Path | None,
    policies: tuple[str, ...], as_json: bool,
) -> None:  # fmt: skip
    """Check SCHEDULE (a schedule or result file) against every rule of INSTANCE.

    Prints each violation with its rule, batch, request and excess; exit code 3 if there is one.
    """
    workload = io.read_instance(instance)
    decisions = io.read_schedule(schedule, workload, note)
    times = None if trace is None else io.read_trace(trace, workload, note)
    found = find_violations(workload, decisions, trace=times, policies=policies)
    if as_json:
        print_json({"valid": not found, "violations": found})
    elif not found:
        click.echo(f"valid: {decisions.batch_count} batches, {decisions.evictions} evictions")
    else:
        rows = [
            (v.rule, "-" if v.batch is None else str(v.batch), v.request or "-", v.message)
            for v in found[:_SHOWN]
        ]
        print_table(("rule", "batch", "request", "what is wrong"), rows, left=(0, 2, 3))
        if len(found) > _SHOWN:
            click.echo(f"and {len(found) - _SHOWN} more (--json lists all)")
    ctx.exit(3 if found else 0)
