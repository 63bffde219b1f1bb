"""``optsched bound``: how far is any scheduler from the best possible?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from optsched import io
from optsched.bounds import EFFORTS, certificate_of
from optsched.cli.output import note, percent, print_json, print_table, seconds
from optsched.cli.parameters import FiniteRange
from optsched.cli.progress import ProgressLine
from optsched.instance import Instance, require_feasible
from optsched.io.bundled import default_instance
from optsched.solve import Candidate, Comparison, assess, compare
from optsched.warmstart import notes


@click.command(
    short_help="Compare schedulers with a lower bound.",
    epilog="""\b
Examples:
  optsched bound --scheduler sarathi
  optsched bound hour.json --scheduler vllm --scheduler sarathi --scheduler sarathi-ef
  optsched bound hour.json --scheduler all --json
  optsched bound hour.json --effort thorough --certificate proof.json
  optsched bound hour.json --schedule recorded.json --scheduler my_rule.py:schedule
""",
)
@click.argument("instance", type=click.Path(path_type=Path), required=False)
@click.option(
    "--scheduler", "names", multiple=True, metavar="NAME",
    help="A scheduler, or FILE.py:NAME, or all; repeatable.",
)  # fmt: skip
@click.option(
    "--schedule", "files", multiple=True, type=click.Path(path_type=Path),
    help="A schedule or result file to compare as well; repeatable.",
)  # fmt: skip
@click.option(
    "--effort", type=click.Choice(EFFORTS), default="normal", show_default=True,
    help="How hard to look for the bound and for the best schedule known.",
)  # fmt: skip
@click.option(
    "--time-limit", type=FiniteRange(min=0), metavar="SECONDS",
    help="For the bound beyond its quick part; by effort if not given.",
)  # fmt: skip
@click.option(
    "--certificate", type=click.Path(path_type=Path), help="Write the proof of the bound here."
)
@click.option("--schedule-out", type=click.Path(path_type=Path), help="Write the best schedule.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
@click.pass_context
def bound(
    ctx: click.Context, instance: Path | None, names: tuple[str, ...], files: tuple[Path, ...],
    effort: str, time_limit: float | None, certificate: Path | None, schedule_out: Path | None,
    as_json: bool, quiet: bool,
) -> None:  # fmt: skip
    """Compare schedulers with a lower bound that no schedule can go below.

    Prints each scheduler's makespan and how far above the bound it is, the best schedule known,
    and the bound with what proves it. Without INSTANCE a bundled one is used: 1,000 requests that
    arrive like those of the Azure conversation hour, on Llama-3-70B and four A100.
    """
    workload = default_instance() if instance is None else io.read_instance(instance)
    for target in (schedule_out, certificate):
        if target is not None:
            io.require_writable(target)
    require_feasible(workload)
    given = [assess(workload, io.read_schedule(path, workload, note), str(path)) for path in files]
    with ProgressLine(quiet) as progress:
        found = compare(
            workload, names, given=given, effort=effort, time_limit_s=time_limit, report=progress
        )
    if certificate is not None:
        io.write_certificate(certificate_of(workload, found.proven), certificate)
    if schedule_out is not None and found.best is not None:
        io.write_schedule(found.best.schedule, workload, schedule_out, found.best.name)
    if as_json:
        print_json(_json(workload, found))
    else:
        _print(workload, found)
    for name in names:
        for text in notes(name, workload):
            note(text)
    for failure in found.failures:
        click.echo(f"error: {failure}", err=True)
    if not found.finished:
        click.echo("interrupted: the table holds what was finished", err=True)
        ctx.exit(4)
    ctx.exit(max((failure.exit_code for failure in found.failures), default=0))


def _print(instance: Instance, found: Comparison) -> None:
    click.echo(f"{instance.name}: {len(instance)} requests, makespan in seconds\n")
    rows = [_row(found, candidate.name, candidate) for candidate in found.candidates]
    if found.best is not None:
        rows.append(_row(found, f"best known ({found.best.name})", found.best))
    rows.append((f"bound ({found.bound.proof})", seconds(found.bound.value_s), *[""] * 5))
    header = ("schedule", "makespan", "above bound", "batches", "evictions", "recompute", "time")
    print_table(header, rows)


def _row(found: Comparison, name: str, candidate: Candidate) -> tuple[str, ...]:
    metrics = candidate.metrics
    return (
        name,
        seconds(candidate.value),
        percent(found.above_bound(candidate)),
        str(metrics.batches),
        str(metrics.evictions),
        percent(metrics.recompute_tax),
        f"{candidate.wall_s:.2f} s",
    )


def _json(instance: Instance, found: Comparison) -> dict[str, Any]:
    best = found.best
    return {
        "format": "optsched-bound/1",
        "instance": instance.name,
        "digest": instance.digest,
        "objective": "makespan",
        "bound": found.bound.value_s,
        "proof": found.bound.proof,
        "parts": found.bound.parts,
        "best": best and {
            "scheduler": best.name, "value": best.value, "gap": found.above_bound(best),
        },
        "schedulers": [
            {
                "scheduler": c.name, "value": c.value, "above_bound": found.above_bound(c),
                "wall_s": c.wall_s, "evictions": c.metrics.evictions,
                "recompute_tax": c.metrics.recompute_tax, "metrics": c.metrics,
            }
            for c in found.candidates
        ],
        "finished": found.finished,
        "wall_s": found.wall_s,
    }  # fmt: skip
