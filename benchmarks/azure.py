"""The real Azure conversation hour: every scheduler of InferMax's Table 1 against the bound.

    python -m benchmarks.azure TRACE.csv [--preset llama3-70b-4xa100] [--offline] [--scheduler all]

All 19,366 requests, C = 16384, M = 100K. Prints each scheduler's makespan above the bound and
its time, how long checking, timing and measuring one schedule takes, and the total.
"""

from __future__ import annotations

import time
from pathlib import Path

import click

from optsched.bounds import lower_bound
from optsched.check import check
from optsched.cli.output import percent, print_table, seconds
from optsched.io.importers import import_trace
from optsched.simulate import measure, simulate
from optsched.solve.compare import expand
from optsched.warmstart import scheduler

TABLE_1 = ("vllm", "sarathi", "sarathi-pc", "sarathi-nocp", "vllm-hy", "sarathi-nohy")


@click.command(help=__doc__)
@click.argument("trace", type=click.Path(path_type=Path))
@click.option("--preset", default="llama3-70b-4xa100", show_default=True)
@click.option("--offline", is_flag=True, help="All requests at once.")
@click.option("--scheduler", "names", multiple=True, help="Instead of Table 1 and its -ef rules.")
def main(trace: Path, preset: str, offline: bool, names: tuple[str, ...]) -> None:
    """Print the table."""
    begin = time.perf_counter()
    instance, _ = import_trace("azure", trace, preset_name=preset, offline=offline)
    read_s = time.perf_counter() - begin
    start = time.perf_counter()
    bound = lower_bound(instance)
    bound_s = time.perf_counter() - start
    rows = []
    for name in expand(names or [n + e for e in ("", "-ef") for n in TABLE_1]):
        start = time.perf_counter()
        schedule = scheduler(name)(instance)
        schedule_s = time.perf_counter() - start
        start = time.perf_counter()
        violations = check(instance, schedule)
        check_s = time.perf_counter() - start
        start = time.perf_counter()
        times = simulate(instance, schedule)
        metrics = measure(instance, schedule, times)
        time_s = time.perf_counter() - start
        rows.append(
            (
                name, seconds(metrics.makespan_s), percent(metrics.makespan_s / bound.value_s - 1),
                str(metrics.batches), str(metrics.evictions), str(len(schedule)),
                str(len(violations)), f"{schedule_s:.2f}", f"{check_s:.2f}", f"{time_s:.2f}",
            )
        )  # fmt: skip
        click.echo(f"{name} done", err=True)
    header = (
        "scheduler", "makespan", "above bound", "batches", "evictions", "runs", "violations",
        "schedule s", "check s", "time s",
    )  # fmt: skip
    print_table(header, rows)
    click.echo(f"\nbound {bound.value_s:.2f} s by {bound.proof} in {bound_s:.2f} s")
    click.echo(f"reading {read_s:.2f} s, everything {time.perf_counter() - begin:.1f} s")


if __name__ == "__main__":
    main()
