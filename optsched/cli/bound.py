"""``optsched bound``: how far is any scheduler from the best possible?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from optsched import io
from optsched.bounds import EFFORTS
from optsched.cli.output import amount, note, percent, print_json, print_table
from optsched.cli.parameters import OBJECTIVE, FiniteRange
from optsched.cli.progress import ProgressLine
from optsched.instance import Instance, require_feasible
from optsched.io.bundled import default_instance
from optsched.objective import Objective
from optsched.solve import Candidate, Comparison, assess, compare
from optsched.warmstart import notes


@click.command(
    short_help="Compare schedulers with a lower bound.",
    epilog="""\b
Examples:
  optsched bound --scheduler sarathi
  optsched bound hour.json --scheduler vllm --scheduler sarathi --scheduler sarathi-ef
  optsched bound hour.json --scheduler all --json
  optsched bound hour.json --scheduler sarathi --objective mean-latency
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
    "--objective", type=OBJECTIVE, default="makespan", show_default=True,
    help="What the best known schedule is best by, and what gets the effort.",
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
    objective: str, effort: str, time_limit: float | None, certificate: Path | None,
    schedule_out: Path | None, as_json: bool, quiet: bool,
) -> None:  # fmt: skip
    """Compare schedulers with bounds that no schedule can beat.

    Prints each scheduler's value by --objective and how far from the bound it is, the best
    schedule known, and the bound with what proves it; then TTFT, latency, TPOT and goodput of each
    with bounds on their means, on the largest latency and on goodput. Without INSTANCE a bundled
    one is used: 1,000 requests that arrive like those of the Azure conversation hour, on
    Llama-3-70B and four A100.
    """
    workload = default_instance() if instance is None else io.read_instance(instance)
    for target in (schedule_out, certificate):
        if target is not None:
            io.require_writable(target)
    require_feasible(workload)
    given = [assess(workload, io.read_schedule(path, workload, note), str(path)) for path in files]
    with ProgressLine(quiet) as progress:
        found = compare(
            workload, names, objective=Objective(objective), given=given, effort=effort,
            time_limit_s=time_limit, report=progress,
        )  # fmt: skip
    if certificate is not None:
        io.write_certificate(found.bound.certificate(workload), certificate)
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
    goal = found.objective
    unit = "in seconds" if goal.unit == "s" else f"of {instance.total_weight:.7g}"
    click.echo(f"{instance.name}: {len(instance)} requests, {goal.value} {unit}\n")
    shown = [(candidate.name, candidate) for candidate in found.candidates]
    if found.best is not None:
        shown.append((f"best known ({found.best.name})", found.best))
    rows = [_row(found, name, candidate) for name, candidate in shown]
    rows.append((f"bound ({found.bound.proof})", amount(found.bound.value, goal), *[""] * 5))
    beyond = "below bound" if goal.maximised else "above bound"
    header = ("schedule", goal.value, beyond, "batches", "evictions", "recompute", "time")
    print_table(header, rows)
    click.echo("\nmean / p50 / p90 / p99 in seconds, latency also max\n")
    print_table(
        ("schedule", "TTFT", "latency", "TPOT", "goodput"),
        [*(_times(name, candidate) for name, candidate in shown), _bounds(found)],
        left=(0, 1, 2, 3),
    )


def _row(found: Comparison, name: str, candidate: Candidate) -> tuple[str, ...]:
    metrics = candidate.metrics
    return (
        name,
        amount(candidate.values[found.objective], found.objective),
        percent(found.gap(candidate)),
        str(metrics.batches),
        str(metrics.evictions),
        percent(metrics.recompute_tax),
        f"{candidate.wall_s:.2f} s",
    )


def _times(name: str, candidate: Candidate) -> tuple[str, ...]:
    metrics = candidate.metrics
    spreads = [
        [times.mean, times.p50, times.p90, times.p99]
        for times in (metrics.ttft_s, metrics.latency_s, metrics.tpot_s)
    ]
    spreads[1].append(metrics.latency_s.max)
    cells = (" / ".join("-" if t is None else f"{t:.4g}" for t in spread) for spread in spreads)
    return (name, *cells, f"{metrics.goodput_weight:.7g}")


def _bounds(found: Comparison) -> tuple[str, ...]:
    def text(objective: Objective, form: str) -> str:
        return form.format(found.proven[objective].value) if objective in found.proven else "-"

    latency = text(Objective.MEAN_LATENCY, ">= {:.4g}") + text(
        Objective.MAX_LATENCY, ", max {:.4g}"
    )
    return (
        "bound", text(Objective.MEAN_TTFT, ">= {:.4g}"), latency, "",
        text(Objective.GOODPUT, "<= {:.7g}"),
    )  # fmt: skip


def _json(instance: Instance, found: Comparison) -> dict[str, Any]:
    best = found.best
    goal = found.objective
    return {
        "format": "optsched-bound/1",
        "instance": instance.name,
        "digest": instance.digest,
        "objective": goal.value,
        "bound": found.bound.value,
        "proof": found.bound.proof,
        "parts": found.bound.parts,
        "bounds": {
            objective.value: {"bound": proven.value, "proof": proven.proof}
            for objective, proven in found.proven.items()
        },
        "best": best and {
            "scheduler": best.name, "value": best.values[goal], "gap": found.gap(best),
        },
        "schedulers": [
            {
                "scheduler": c.name, "value": c.values[goal], "above_bound": found.gap(c),
                "wall_s": c.wall_s, "evictions": c.metrics.evictions,
                "recompute_tax": c.metrics.recompute_tax,
                "objectives": {
                    objective.value: {
                        "value": value, "gap": found.gap(c, objective)
                    }
                    for objective, value in c.values.items()
                },
                "metrics": c.metrics,
            }
            for c in found.candidates
        ],
        "finished": found.finished,
        "wall_s": found.wall_s,
    }  # fmt: skip
