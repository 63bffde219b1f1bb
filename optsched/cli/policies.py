"""``optsched policies``: what each restriction of the schedules costs."""

from __future__ import annotations

from pathlib import Path

import click

from optsched import io
from optsched.check import POLICIES
from optsched.cli.output import amount, percent, print_json, print_table
from optsched.cli.parameters import OBJECTIVE, FiniteRange, solving
from optsched.cli.progress import ProgressLine
from optsched.instance import Instance
from optsched.objective import Objective
from optsched.solve import SolveOptions
from optsched.solve.price import PolicyPrice, policies_of, policy_prices


@click.command(
    short_help="The optimum under each policy, and its price.",
    epilog="""\b
Examples:
  optsched policies instances/paper/I4.json
  optsched policies instance.json --objective mean-latency --time-limit 60
  optsched policies instance.json --policy no-evict --policy fcfs --json
""",
)
@click.argument("instance", type=click.Path(path_type=Path))
@click.option(
    "--policy", "policies", multiple=True, metavar="NAME",
    help=f"Only this one: {', '.join(POLICIES)}; repeatable.",
)  # fmt: skip
@click.option(
    "--objective", type=OBJECTIVE, default="makespan", show_default=True,
    help="What is minimised; goodput is maximised.",
)  # fmt: skip
@click.option(
    "--time-limit", type=FiniteRange(min=0, min_open=True), default=30.0, show_default=True,
    help="Seconds for each policy.",
)  # fmt: skip
@click.option(
    "--solver", default="highs", show_default=True, help="highs, cpsat, or pulp:NAME, as in solve."
)
@solving
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
@click.pass_context
def policies(
    ctx: click.Context, instance: Path, policies: tuple[str, ...], objective: str,
    time_limit: float, effort: str, solver: str, seed: int, threads: int, as_json: bool,
    quiet: bool,
) -> None:  # fmt: skip
    """Solve INSTANCE without restriction and under each policy, and say what each costs.

    The price is in percent of the optimum over all schedules; where an optimum is not proven in
    time it is a range. Exit code 0 if everything is proven, else 4.
    """
    workload = io.read_instance(instance)
    options = SolveOptions(
        objective=Objective(objective), effort=effort, solver=solver, time_limit_s=time_limit,
        seed=seed, threads=threads,
    )  # fmt: skip
    asked = tuple(dict.fromkeys(policies)) or policies_of(workload)
    with ProgressLine(quiet) as progress:
        rows = policy_prices(workload, asked, options, progress)
    if as_json:
        print_json(
            {
                "format": "optsched-policies/1", "instance": workload.name,
                "digest": workload.digest, "objective": objective, "policies": [
                    {
                        "policy": row.policy, "value": row.value, "bound": row.bound,
                        "optimal": row.optimal, "least_price": row.least_price,
                        "most_price": row.most_price, "infeasible": row.infeasible,
                    }
                    for row in rows
                ],
            }
        )  # fmt: skip
    else:
        _print(workload, Objective(objective), rows)
    proven = all(row.optimal or row.infeasible for row in rows) and len(rows) == len(asked) + 1
    ctx.exit(0 if proven else 4)


def _print(workload: Instance, objective: Objective, rows: tuple[PolicyPrice, ...]) -> None:
    click.echo(f"{workload.name}: {len(workload)} requests, {objective.value}\n")
    print_table(
        ("policy", objective.value, "bound", "price", "proven"),
        [
            (
                row.policy or "none", amount(row.value, objective), amount(row.bound, objective),
                _price(row), row.infeasible or ("optimal" if row.optimal else "no"),
            )
            for row in rows
        ],
        left=(0, 4),
    )  # fmt: skip


def _price(row: PolicyPrice) -> str:
    if row.policy is None or row.most_price is None:
        return ""
    if row.least_price is None or row.most_price - row.least_price < 1e-6:
        return percent(row.most_price)
    return f"{percent(row.least_price)} to {percent(row.most_price)}"
