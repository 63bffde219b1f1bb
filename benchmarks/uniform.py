"""Larger uniform instances proven optimal: B8 I8 O8 M16, B8 I32 O8 M64, B8 I16 O8 M64 and others.

    python -m benchmarks.uniform [--time-limit 60] [--solver highs --solver cpsat] [--all]

Study coefficients; the time of everything, schedulers and bounds included.
"""

from __future__ import annotations

import time

import click

from optsched.cli.output import percent, print_table, seconds
from optsched.io.generate import uniform
from optsched.solve import SolveOptions, solve

CASES = ((8, 8, 8, 16), (8, 32, 8, 64), (8, 16, 8, 64))
OPEN = ((12, 32, 12, 64), (12, 8, 12, 19), (12, 16, 12, 96))


@click.command(help=__doc__)
@click.option("--time-limit", default=60.0, show_default=True)
@click.option("--solver", "solvers", multiple=True, default=("highs",), show_default=True)
@click.option("--effort", default="quick", show_default=True, help="Of formulation-free bounds.")
@click.option("--all", "every", is_flag=True, help="Also instances that may stay open.")
def main(time_limit: float, solvers: tuple[str, ...], effort: str, every: bool) -> None:
    """Print the table."""
    rows = []
    for requests, prompt, output, capacity in CASES + OPEN * every:
        instance = uniform(requests, prompt, output, kv_tokens=capacity)
        for solver in solvers:
            begin = time.perf_counter()
            result = solve(
                instance, SolveOptions(solver=solver, time_limit_s=time_limit, effort=effort)
            )
            wall_s = time.perf_counter() - begin
            assert result.schedule is not None
            rows.append(
                (
                    instance.name, solver, seconds(result.value), seconds(result.bound),
                    percent(result.gap, 3), "yes" if result.optimal else "no",
                    str(result.schedule.evictions), f"{wall_s:.1f}",
                )
            )  # fmt: skip
            click.echo(f"{instance.name} {solver} done", err=True)
    header = ("instance", "solver", "value", "bound", "gap", "optimal", "evictions", "seconds")
    print_table(header, rows, left=(0, 1))


if __name__ == "__main__":
    main()
