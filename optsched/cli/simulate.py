"""``optsched simulate``: times and metrics of one schedule."""

from __future__ import annotations

from pathlib import Path

import click

from optsched import io
from optsched.cli.chosen import chosen_schedule
from optsched.cli.metrics import metrics_rows
from optsched.cli.output import print_json, print_table
from optsched.simulate import simulate as times


@click.command(
    short_help="Times and metrics of one schedule.",
    epilog="""\b
Examples:
  optsched simulate instance.json schedule.json
  optsched simulate instance.json --scheduler vllm --schedule-out vllm.json --trace-out trace.json
""",
)
@click.argument("instance", type=click.Path(path_type=Path))
@click.argument("schedule", type=click.Path(path_type=Path), required=False)
@click.option("--scheduler", help="Simulate this scheduler's schedule instead of a file's.")
@click.option("--trace-out", type=click.Path(path_type=Path), help="Write the batch times here.")
@click.option("--schedule-out", type=click.Path(path_type=Path), help="Write the schedule here.")
@click.option("--json", "as_json", is_flag=True, help="Print the metrics as JSON.")
def simulate(
    instance: Path, schedule: Path | None, scheduler: str | None, trace_out: Path | None,
    schedule_out: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Time SCHEDULE (a schedule or result file) by the instance's batch-time law.

    The schedule is checked first; exit code 3 if it breaks a rule.
    """
    workload = io.read_instance(instance)
    for target in (trace_out, schedule_out):
        if target is not None:
            io.require_writable(target)
    found = chosen_schedule(workload, schedule, scheduler)
    if schedule_out is not None:
        io.write_schedule(found.schedule, workload, schedule_out, found.name)
    if trace_out is not None:
        io.write_trace(times(workload, found.schedule), workload, trace_out)
    if as_json:
        print_json({"instance": workload.name, "schedule": found.name, "metrics": found.metrics})
    else:
        print_table(("metric", found.name), metrics_rows(found.metrics))
