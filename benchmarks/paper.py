"""The 11 instances of InferMax, section 5.1: B = O = 4, I = 1 .. 1024, M = max(2 I, I + O - 1).

    python -m benchmarks.paper [--preset study] [--compact-seconds 60] [--gurobi]

For each I: the network formulation proven optimal and how long that took; the compact formulation
on HiGHS (and on Gurobi through PuLP) for the same instance; evictions in the optimum, the best
schedule without evictions, and what evictions gain. Under a preset of several pieces, where
chunking may pay, the scope of what is proven.
"""

from __future__ import annotations

import time

import click

from optsched.cli.output import percent, print_table, seconds
from optsched.instance import Instance
from optsched.io.generate import uniform
from optsched.result import Result
from optsched.solve import SolveOptions, solve


def timed(instance: Instance, options: SolveOptions) -> tuple[Result, float]:
    """Result and seconds, schedulers and bounds included."""
    begin = time.perf_counter()
    result = solve(instance, options)
    return result, time.perf_counter() - begin


def cell(result: Result, wall_s: float) -> tuple[str, str, str, str]:
    """Value, bound, gap and time."""
    return (
        seconds(result.value), seconds(result.bound), percent(result.gap, 3), f"{wall_s:.2f}",
    )  # fmt: skip


@click.command(help=__doc__)
@click.option("--preset", default="study", show_default=True)
@click.option("--compact-seconds", default=60.0, show_default=True, help="0 leaves it out.")
@click.option("--gurobi", is_flag=True, help="Also the compact formulation on Gurobi.")
def main(preset: str, compact_seconds: float, gurobi: bool) -> None:
    """Print the table."""
    rows = []
    for power in range(11):
        instance = uniform(4, 2**power, 4, preset_name=preset)
        best, wall_s = timed(instance, SolveOptions(time_limit_s=60))
        without, _ = timed(instance, SolveOptions(time_limit_s=60, policies=("no-evict",)))
        assert best.schedule is not None
        assert best.value is not None
        assert without.value is not None
        row = [
            str(2**power), *cell(best, wall_s), "yes" if best.optimal else "no",
            str(best.schedule.evictions), seconds(without.value),
            "yes" if without.optimal else "no", percent(without.value / best.value - 1),
        ]  # fmt: skip
        solvers = ["highs"] * (compact_seconds > 0) + ["pulp:GUROBI"] * gurobi
        for name in solvers:
            options = SolveOptions(
                formulation="compact", solver=name, time_limit_s=compact_seconds or 60.0
            )
            row += cell(*timed(instance, options))
        rows.append(row)
        click.echo(f"I = {2**power} done", err=True)
    columns = ("value", "bound", "gap", "s")
    header = ["I", *columns, "optimal", "evictions", "no-evict", "optimal", "evictions gain"]
    for name in ["compact HiGHS"] * (compact_seconds > 0) + ["compact Gurobi"] * gurobi:
        header += [f"{name} {column}" for column in columns]
    print_table(header, rows, left=())


if __name__ == "__main__":
    main()
