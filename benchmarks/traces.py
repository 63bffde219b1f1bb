"""Real traces under both laws: every scheduler above the bound, its rank, InferMax's three bars.

    python -m benchmarks.traces FOLDER [--trace azure] [--preset P ..] [--case offline ..]

FOLDER holds the published traces in the folders of their projects (``certified.TRACES``). One
table per trace: per law and case (all requests at once, or as they arrive) each scheduler's
makespan, how far it is above the bound, and its rank among the rules. Three of the rows are the
bars that InferMax compares for the Azure hour (section 6): vLLM, InferMax's own scheduler, and a
bound that leaves out the KV memory: here the bound of the same requests, all there from the start,
where M is so large that it never binds. The last rows are the best schedule known and the bound
that all are held against.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import click
import msgspec

from benchmarks.certified import TRACES
from optsched.bounds import best_bound, lower_bound
from optsched.check import require_valid
from optsched.cli.output import percent, print_table, seconds
from optsched.instance import Instance
from optsched.io.importers import import_trace
from optsched.simulate import simulate
from optsched.warmstart import scheduler
from optsched.warmstart.portfolio import LOOK_AHEAD, PORTFOLIO

TABLE_1 = ("vllm", "sarathi", "sarathi-pc", "sarathi-nocp", "vllm-hy", "sarathi-nohy")
RULES = (*TABLE_1, *(f"{name}-ef" for name in TABLE_1), "infermax", "mc-fcfs")
PRESETS = ("llama3-70b-4xa100", "infermax-70b-4xa100")
CASES = ("offline", "arrivals")


@dataclass(frozen=True, kw_only=True)
class Column:
    """What one law and case gives, in seconds, and how long bound and best schedule took."""

    title: str
    values: dict[str, float]
    without_memory_s: float
    bound_s: float
    proof: str
    bound_took_s: float
    best_took_s: float


def without_memory_limit(instance: Instance) -> float:
    """Bound of the requests, all there from the start, with room for all of them at once."""
    limits = instance.limits
    room = sum(limits.pages(request.final_tokens) for request in instance.requests)
    return lower_bound(
        msgspec.structs.replace(
            instance,
            limits=msgspec.structs.replace(limits, kv_tokens=room),
            requests=tuple(
                msgspec.structs.replace(request, arrival_s=0.0) for request in instance.requests
            ),
        )
    ).value_s


def column(title: str, instance: Instance, rules: tuple[str, ...], limit_s: float | None) -> Column:
    """All rules, the portfolio and the bounds for one instance."""
    values = {}
    for rule in rules:
        schedule = scheduler(rule)(instance)
        require_valid(instance, schedule)
        values[rule] = simulate(instance, schedule).makespan_s
        click.echo(f"{title}: {rule} {values[rule]:.1f} s", err=True)
    begin = time.perf_counter()
    schedule = LOOK_AHEAD[PORTFOLIO](instance, time_limit_s=limit_s)
    best_took_s = time.perf_counter() - begin
    require_valid(instance, schedule)
    values[PORTFOLIO] = simulate(instance, schedule).makespan_s
    begin = time.perf_counter()
    found = best_bound(instance, target_s=min(values.values())).bound
    return Column(
        title=title, values=values, without_memory_s=without_memory_limit(instance),
        bound_s=found.value_s, proof=found.proof, best_took_s=best_took_s,
        bound_took_s=time.perf_counter() - begin,
    )  # fmt: skip


def print_columns(columns: list[Column], rules: tuple[str, ...]) -> None:
    """One table; rules in the order of the first column."""
    header, rows = ["schedule"], []
    for own in columns:
        header += [own.title, "above bound", "rank"]
    for rule in sorted(rules, key=lambda name: columns[0].values[name]):
        row = [rule]
        for own in columns:
            rank = sorted(rules, key=lambda name: own.values[name]).index(rule) + 1
            value = own.values[rule]
            row += [seconds(value), percent(value / own.bound_s - 1), str(rank)]
        rows.append(row)
    lines = [(PORTFOLIO, [own.values[PORTFOLIO] for own in columns])]
    lines.append(("bound without memory limit", [own.without_memory_s for own in columns]))
    lines.append(("bound", [own.bound_s for own in columns]))
    for name, values in lines:
        row = [name]
        for own, value in zip(columns, values, strict=True):
            row += [seconds(value), percent(value / own.bound_s - 1, 3), ""]
        rows.append(row)
    print_table(header, rows)
    for own in columns:
        click.echo(
            f"{own.title}: bound by {own.proof} in {own.bound_took_s:.1f} s, "
            f"{PORTFOLIO} in {own.best_took_s:.1f} s"
        )


@click.command(help=__doc__)
@click.argument("folder", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--trace", "traces", multiple=True, default=tuple(TRACES), type=click.Choice(tuple(TRACES))
)
@click.option("--preset", "presets", multiple=True, default=PRESETS, show_default=True)
@click.option("--case", "cases", multiple=True, default=CASES, type=click.Choice(CASES))
@click.option("--scheduler", "rules", multiple=True, default=RULES, help="Instead of all rules.")
@click.option("--limit", type=int, help="Only the first so many requests.")
@click.option("--time-limit", "limit_s", type=float, help="Seconds for the best schedule.")
def main(
    folder: Path, traces: tuple[str, ...], presets: tuple[str, ...], cases: tuple[str, ...],
    rules: tuple[str, ...], limit: int | None, limit_s: float | None,
) -> None:  # fmt: skip
    """Print a table per trace."""
    for trace in traces:
        layout, file, capacity = TRACES[trace]
        columns = []
        for preset_name in presets:
            for case in cases:
                instance, _ = import_trace(
                    layout, folder / file, preset_name=preset_name, kv_tokens=capacity,
                    limit=limit, offline=case == "offline",
                )  # fmt: skip
                if case == "arrivals" and instance.offline:
                    continue  # the trace has no arrivals
                columns.append(column(f"{preset_name} {case}", instance, rules, limit_s))
        click.echo(f"\n{trace}, {len(instance)} requests, M = {capacity}\n")
        print_columns(columns, rules)


if __name__ == "__main__":
    main()
