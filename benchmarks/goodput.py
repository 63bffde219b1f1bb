"""Goodput of every scheduler on a real trace, against an upper bound on goodput.

    python -m benchmarks.goodput FOLDER [--ttft 1] [--tpot 0.1] [--span 7002] [--preset P]

FOLDER holds the published traces in the folders of their projects (``certified.TRACES``). One row
per scheduler: the requests that meet TTFT and TPOT limits, in number and in percent of the bound;
then the best schedule known and the bound with what proves it, checked exactly.
"""

from __future__ import annotations

import time
from pathlib import Path

import click

from benchmarks.certified import TRACES
from optsched.bounds.verify.verdict import verify
from optsched.cli.output import percent, print_table
from optsched.errors import OptschedError
from optsched.io.adjust import stretched, with_slos
from optsched.io.importers import import_trace
from optsched.objective import Objective
from optsched.solve import evaluate
from optsched.solve.known import known_schedules
from optsched.solve.proven import prove
from optsched.warmstart.table import RULES


@click.command(help=__doc__)
@click.argument("folder", type=click.Path(exists=True, path_type=Path))
@click.option("--trace", default="azure", type=click.Choice(tuple(TRACES)), show_default=True)
@click.option("--preset", default="llama3-70b-4xa100", show_default=True)
@click.option("--ttft", default=1.0, show_default=True, help="Seconds.")
@click.option("--tpot", default=0.1, show_default=True, help="Seconds.")
@click.option("--span", type=float, help="Stretch the arrivals over so many seconds.")
@click.option("--limit", type=int, help="Only the first so many requests.")
@click.option("--effort", default="normal", show_default=True, help="Of the bound.")
def main(
    folder: Path, trace: str, preset: str, ttft: float, tpot: float, span: float | None,
    limit: int | None, effort: str,
) -> None:  # fmt: skip
    """Print the table."""
    layout, file, capacity = TRACES[trace]
    instance, _ = import_trace(
        layout, folder / file, preset_name=preset, kv_tokens=capacity, limit=limit
    )
    if span is not None:
        instance = stretched(instance, span)
    instance = with_slos(instance, ttft_s=ttft, tpot_s=tpot)
    found = {}
    names = [*RULES, *known_schedules(instance, Objective.GOODPUT, "normal")]
    for name in dict.fromkeys(names):
        try:
            found[name] = evaluate(instance, name)
        except OptschedError as error:
            click.echo(f"{name}: {error.message}", err=True)
            continue
        click.echo(f"{name}: {found[name].values[Objective.GOODPUT]:.0f}", err=True)
    most = max(candidate.values[Objective.GOODPUT] for candidate in found.values())
    begin = time.perf_counter()
    bound = prove(instance, Objective.GOODPUT, effort=effort, target=most)
    bound_took_s = time.perf_counter() - begin
    begin = time.perf_counter()
    verdict = verify(bound.certificate(instance))
    verify_took_s = time.perf_counter() - begin
    rows = [
        (
            name, f"{c.values[Objective.GOODPUT]:.0f}",
            percent(c.values[Objective.GOODPUT] / bound.value),
            f"{c.metrics.ttft_s.mean:.3f}", f"{c.metrics.ttft_s.p99:.3f}",
            f"{c.metrics.tpot_s.p99:.3f}", f"{c.metrics.makespan_s:.1f}", f"{c.wall_s:.1f}",
        )
        for name, c in sorted(found.items(), key=lambda p: -p[1].values[Objective.GOODPUT])
    ]  # fmt: skip
    header = ("scheduler", "goodput", "of the bound", "TTFT mean", "p99", "TPOT p99", "makespan")
    rows.append((f"bound ({bound.proof})", f"{bound.value:.1f}", *[""] * 5, f"{bound_took_s:.1f}"))
    print_table((*header, "took s"), rows)
    accepted = "accepted" if verdict.accepted else "REFUTED"
    click.echo(f"{len(instance)} requests; certificate {accepted} in {verify_took_s:.1f} s")


if __name__ == "__main__":
    main()
