"""``optsched explain``: where a schedule's distance from the bound comes from."""

from __future__ import annotations

from pathlib import Path

import click

from optsched import io
from optsched.bounds import BestBound
from optsched.cli.chosen import chosen_schedule
from optsched.cli.output import percent, print_json, print_table, seconds
from optsched.cli.progress import ProgressLine
from optsched.report import EvictionCost, GapTerm, eviction_costs, explain_gap
from optsched.simulate import simulate
from optsched.solve import Candidate, compare

_SHOWN = 10


@click.command(
    short_help="Where a schedule's gap comes from, and what each eviction cost.",
    epilog="""\b
Examples:
  optsched explain hour.json --scheduler vllm
  optsched explain instance.json result.json --json
""",
)
@click.argument("instance", type=click.Path(path_type=Path))
@click.argument("schedule", type=click.Path(path_type=Path), required=False)
@click.option("--scheduler", help="Explain this scheduler's schedule instead of a file's.")
@click.option("--json", "as_json", is_flag=True, help="Print all terms and evictions as JSON.")
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
def explain(
    instance: Path, schedule: Path | None, scheduler: str | None, as_json: bool, quiet: bool
) -> None:
    """Split the time of SCHEDULE above the bound into its causes.

    Batches beyond those that are proven necessary (and what left memory without progress), uneven
    batches, refills after evictions, chunks, set-ups, idle time, less what the bound proves to be
    unavoidable. Then every eviction with the tokens and seconds that it cost.
    """
    workload = io.read_instance(instance)
    found = chosen_schedule(workload, schedule, scheduler)
    with ProgressLine(quiet) as progress:
        known = compare(workload, (), given=[found], report=progress)
    trace = simulate(workload, found.schedule)
    best = known.best.makespan_s if known.best else None
    source = known.bound.source
    assert isinstance(source, BestBound)  # of the makespan
    terms = explain_gap(workload, found.schedule, trace, source.bound, best)
    evictions = eviction_costs(workload, found.schedule)
    if as_json:
        print_json(
            {
                "instance": workload.name, "digest": workload.digest, "schedule": found.name,
                "value": found.makespan_s, "bound": known.bound.value, "proof": known.bound.proof,
                "gap": known.gap(found), "terms": terms, "evictions": evictions,
            }
        )  # fmt: skip
        return
    _print(found, known.bound.value, terms, evictions)


def _print(
    found: Candidate, bound_s: float, terms: tuple[GapTerm, ...],
    evictions: tuple[EvictionCost, ...],
) -> None:  # fmt: skip
    gap = found.makespan_s - bound_s
    rows = [(f"{found.name} above the bound", seconds(gap), percent(gap / bound_s), "")]
    for term in (t for t in terms if t.part_of is None):
        rows.append(_row("", term))
        rows += [_row("  ", part) for part in terms if part.part_of == term.name]
    rows += [_row("", term) for term in terms if term.part_of == "gap"]
    print_table(("term", "seconds", "of the bound", "about"), rows, left=(0, 3))
    if not evictions:
        return
    click.echo()
    print_table(
        ("eviction of", "in batch", "refilled by", "tokens again", "seconds"),
        [
            (e.request, str(e.batch), str(e.refilled_batch), str(e.tokens), seconds(e.seconds))
            for e in evictions[:_SHOWN]
        ],
    )
    if len(evictions) > _SHOWN:
        click.echo(f"the dearest {_SHOWN} of {len(evictions)} evictions (--json lists all)")


def _row(indent: str, term: GapTerm) -> tuple[str, str, str, str]:
    sign = "-" if term.seconds < 0 else ""
    return (
        f"  {indent}{term.name}", sign + seconds(abs(term.seconds)), percent(term.of_bound),
        term.about,
    )  # fmt: skip
