"""``optsched solve``: the best schedule, and what is proven about it."""

from __future__ import annotations

import math
from pathlib import Path

import click

from optsched import io
from optsched.bounds import EFFORTS
from optsched.cli.output import note, percent, print_json, print_table, seconds
from optsched.cli.parameters import SEED, FiniteRange
from optsched.cli.progress import ProgressLine
from optsched.errors import InfeasibleError
from optsched.instance import Instance
from optsched.result import Result
from optsched.solve import SolveOptions, assess
from optsched.solve import solve as find_schedule
from optsched.solve.plan import FORMULATIONS, POLICIES


@click.command(
    short_help="Find the best schedule and prove how good it is.",
    epilog="""\b
Examples:
  optsched solve instances/paper/I4.json
  optsched solve instance.json --policy no-evict --time-limit 300 --out result.json
  optsched solve instance.json --solver cpsat --warm-start sarathi-ef
  optsched solve instance.json --formulation compact --write-model model.mps
""",
)
@click.argument("instance", type=click.Path(path_type=Path))
@click.option(
    "--policy", "policies", multiple=True, metavar="NAME",
    help=f"Restrict the schedules: {', '.join(POLICIES)}; repeatable.",
)  # fmt: skip
@click.option(
    "--formulation", default="auto", show_default=True, metavar="|".join(FORMULATIONS),
    help="auto takes what is exact for the instance and says why.",
)  # fmt: skip
@click.option(
    "--solver", default="highs", show_default=True,
    help="highs, cpsat, or pulp:NAME for any solver that PuLP finds (pulp:CBC, pulp:GUROBI ...).",
)  # fmt: skip
@click.option(
    "--effort", type=click.Choice(EFFORTS), default="normal", show_default=True,
    help="How hard to look for bounds that need no formulation.",
)  # fmt: skip
@click.option(
    "--time-limit", type=FiniteRange(min=0, min_open=True), default=60.0, show_default=True,
    help="Seconds for everything together.",
)  # fmt: skip
@click.option(
    "--gap", type=FiniteRange(min=0), default=0.0, show_default=True,
    help="Stop when (value - bound) / bound is this small.",
)  # fmt: skip
@click.option("--seed", type=SEED, default=0, show_default=True)
@click.option("--threads", type=click.IntRange(min=1), default=1, show_default=True)
@click.option(
    "--warm-start", default="best", show_default=True, metavar="NAME|FILE|none",
    help="best of all schedulers, one of them, a schedule file, or none.",
)  # fmt: skip
@click.option(
    "--write-model", type=click.Path(path_type=Path), help="Write the model (.mps or .lp)."
)
@click.option(
    "--certificate", type=click.Path(path_type=Path),
    help="Write the proof of the best bound that needs no formulation.",
)  # fmt: skip
@click.option("--out", type=click.Path(path_type=Path), help="Write the result here.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
@click.pass_context
def solve(
    ctx: click.Context, instance: Path, policies: tuple[str, ...], formulation: str, solver: str,
    effort: str, time_limit: float, gap: float, seed: int, threads: int, warm_start: str,
    write_model: Path | None, certificate: Path | None, out: Path | None, as_json: bool,
    quiet: bool,
) -> None:  # fmt: skip
    """Find a schedule of the least makespan and prove how good it is.

    Reports separately why it stopped, the schedule (checked and re-timed), the bound, the gap,
    and over which class of schedules an optimum holds. Ctrl-C keeps the best found. Exit code 0
    if the schedule is proven optimal or the gap asked for is reached, 1 if a formulation failed
    before that, else 4.
    """
    workload = io.read_instance(instance)
    for target in (out, certificate, write_model):
        if target is not None:
            io.require_writable(target)
    known = []
    if Path(warm_start).is_file():
        schedule = io.read_schedule(warm_start, workload, note)
        known, warm_start = [assess(workload, schedule, warm_start)], "given"
    options = SolveOptions(
        policies=tuple(dict.fromkeys(policies)), formulation=formulation, solver=solver,
        effort=effort, time_limit_s=time_limit, relative_gap=gap, seed=seed, threads=threads,
        warm_start=warm_start, write_model=write_model, certificate=certificate,
    )  # fmt: skip
    try:
        with ProgressLine(quiet) as progress:
            result = find_schedule(workload, options, known=known, report=progress)
    except InfeasibleError:
        if as_json:
            print_json(io.result_file(_infeasible(workload, options), workload))
        raise
    if certificate is not None:
        certified = io.read_certificate(certificate).bound_s
        click.echo(f"{certificate}: proves {certified!r} s", err=True)
    if out is not None:
        io.write_result(result, workload, out)
    if as_json:
        print_json(io.result_file(result, workload))
    else:
        _print(workload, result)
    if result.termination == "failed":
        ctx.exit(1)
    ctx.exit(0 if result.optimal or result.termination == "gap-reached" else 4)


def _infeasible(workload: Instance, options: SolveOptions) -> Result:
    return Result(
        instance=workload.name, digest=workload.digest, objective="makespan", value=None,
        bound=None, proof=None, scope="no schedule exists", policies=options.policies,
        termination="infeasible", wall_s=0.0,
    )  # fmt: skip


def _print(workload: Instance, result: Result) -> None:
    click.echo(f"{workload.name}: {len(workload)} requests\n")
    rows = [
        ("makespan", f"{seconds(result.value)} s", result.found_by or ""),
        ("bound", f"{seconds(result.bound)} s", result.proof or ""),
        ("gap", percent(result.gap, 4), _verdict(result)),
        ("scope", result.scope, ""),
    ]  # fmt: skip
    schedule = result.schedule
    if schedule is not None:
        shape = f"{schedule.batch_count} batches, {schedule.evictions} evictions"
        rows.append(("schedule", shape, ""))
    if result.reason:
        rows.append(("formulation", result.reason, ""))
    width = max(len(name) for name, _, _ in rows)
    for name, text, detail in rows:
        click.echo(f"{name:<{width}}  {text}{'  (' + detail + ')' if detail else ''}")
    click.echo()
    print_table(
        ("step", "value", "bound", "ended", "seconds", "about"),
        [
            (
                step.method, seconds(step.value), seconds(step.bound), step.termination,
                f"{step.wall_s:.2f}",
                step.note if step.scope == result.scope else f"{step.scope}; {step.note}",
            )
            for step in result.steps
        ],
        left=(0, 3, 5),
    )  # fmt: skip


def _verdict(result: Result) -> str:
    if result.optimal:
        return "proven optimal"
    if result.gap is None or math.isinf(result.gap):
        return result.termination
    return f"not proven optimal: {result.termination}"
