"""The 11 instances of InferMax, section 5.1: B = O = 4, I = 1 .. 1024, M = max(2 I, I + O - 1).

    python -m benchmarks.paper [--preset study] [--compact-seconds 60] [--gurobi]

For each I: what `optsched solve --effort quick` proves, by which formulation, and how long it took
with schedulers and all; evictions in the optimum, the best schedule without evictions and what
evictions gain; the closed-walk bound, which needs no formulation. With --compact-seconds also the
compact formulation for so long each, with and without its strengthening, on HiGHS; with --gurobi
without it on Gurobi through PuLP, as far as the licence in gurobipy's package allows (2,000 columns
or rows).
"""

from __future__ import annotations

import time

import click

from optsched.bounds.closed_walks import closed_walk_bound
from optsched.cli.output import percent, print_table, seconds
from optsched.constraints import compact
from optsched.errors import SolverError
from optsched.instance import Instance
from optsched.io.generate import uniform
from optsched.model.compact import CompactVariables
from optsched.model.horizon import most_batches
from optsched.result import relative_gap
from optsched.simulate import simulate
from optsched.solve import SolveOptions, evaluate, solve
from optsched.solvers import solver
from optsched.solvers.outcome import SolverOptions

COLUMNS = ("value", "bound", "gap", "s")


def cells(value: float | None, bound: float | None, wall_s: float) -> list[str]:
    """Value, bound, gap and time."""
    gap = percent(relative_gap(value, bound), 2)
    return [seconds(value), seconds(bound), gap, f"{wall_s:.2f}"]


def compact_cells(instance: Instance, name: str, limit_s: float, strengthened: bool) -> list[str]:
    """The compact formulation alone, started from the best of two schedulers."""
    start = min((evaluate(instance, n) for n in ("vllm", "vllm-ef")), key=lambda c: c.makespan_s)
    batches = most_batches(instance, start.makespan_s)
    variables = CompactVariables(instance, batches, strengthened=strengthened)
    program = compact.build(variables)
    try:
        outcome = solver(name)(
            program, SolverOptions(time_limit_s=limit_s), variables.encode(start.schedule)
        )
    except SolverError as error:
        click.echo(f"{instance.name}: {error.message}", err=True)
        return [f"{program.columns} columns", f"{program.rows} rows", "licence", "-"]
    value = None
    if outcome.point is not None:
        value = simulate(instance, variables.decode(outcome.point)).makespan_s
    return cells(value, outcome.bound, outcome.wall_s)


@click.command(help=__doc__)
@click.option("--preset", default="study", show_default=True)
@click.option("--compact-seconds", default=0.0, show_default=True, help="0 leaves it out.")
@click.option("--gurobi", is_flag=True, help="Also on Gurobi.")
def main(preset: str, compact_seconds: float, gurobi: bool) -> None:
    """Print a table of what is proven, and one of formulations side by side."""
    proven, beside = [], []
    for power in range(11):
        instance = uniform(4, 2**power, 4, preset_name=preset)
        begin = time.perf_counter()
        best = solve(instance, SolveOptions(effort="quick"))
        wall_s = time.perf_counter() - begin
        without = solve(instance, SolveOptions(effort="quick", policies=("no-evict",)))
        assert best.schedule is not None
        assert best.value is not None
        assert without.value is not None
        begin = time.perf_counter()
        walks = closed_walk_bound(instance, time_limit_s=10.0)
        walks_s = time.perf_counter() - begin
        by = [step.method for step in best.steps if step.bound == best.bound]
        proven.append(
            [
                str(2**power), *cells(best.value, best.bound, wall_s),
                "optimal" if best.optimal else "open", by[-1], str(best.schedule.evictions),
                seconds(without.value), "optimal" if without.optimal else "open",
                percent(without.value / best.value - 1),
                seconds(walks.value_s if walks else None), f"{walks_s:.2f}",
            ]
        )  # fmt: skip
        if compact_seconds:
            row = [str(2**power), *cells(best.value, best.bound, wall_s)]
            row += compact_cells(instance, "highs", compact_seconds, True)
            row += compact_cells(instance, "highs", compact_seconds, False)
            if gurobi:
                row += compact_cells(instance, "pulp:GUROBI", compact_seconds, False)
            beside.append(row)
        click.echo(f"I = {2**power} done", err=True)
    header = ["I", *COLUMNS, "", "proof", "evictions", "no-evict", "", "evictions gain"]
    header += ["closed walks", "s"]
    print_table(header, proven, left=())
    if beside:
        names = ["solve", "compact HiGHS", "plain compact HiGHS"]
        names += ["plain compact Gurobi"] * gurobi
        click.echo()
        print_table(["I", *(f"{n}: {c}" for n in names for c in COLUMNS)], beside, left=())


if __name__ == "__main__":
    main()
