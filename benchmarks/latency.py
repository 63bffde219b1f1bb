"""Mean latency at scale: certified gaps, and every scheduler beside the bound.

    python -m benchmarks.latency SUITE [--traces FOLDER] [--only NAME] [--scheduler NAME ..]

SUITE is one of

    azure      the Azure conversation hour, all requests at once (`study-70b`)
    stretched  the same with its arrivals stretched to 7002 s, a load of about 1
               (`llama3-70b-4xa100`)
    mixes      the six mixes of two groups, B = 1024 (InferMax, section 4.6; `study`)
    grid       B = 1024 uniform requests, I and O in {1, 32, 128, 512, 1024}, M = 100K (`study`)
    goodput    the Azure hour as it is, TTFT <= 1 s and TPOT <= 0.1 s (`llama3-70b-4xa100`): the
               weight of the requests that meet both
    ttft       mean TTFT over the schedules whose mean latency is at most 1.1 x the best known:
               the stretched Azure hour (with --traces) and SISO+LILO, B = 1024

Per workload: the bound, what proves it, the best schedule and the certified gap, the seconds each
took, what `verify` says of the certificate, and then each scheduler's value and its gap. `ttft`
has the bound without the limit beside that with it, and the best of the schedules within it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import click

from benchmarks.certified import LENGTHS, MIXES, TRACES
from optsched.bounds.clock import certify_clock, clock_bound
from optsched.bounds.verify.verdict import verify
from optsched.check import require_valid
from optsched.cli.output import percent, print_table
from optsched.instance import Instance
from optsched.io.adjust import stretched, with_slos
from optsched.io.generate import mix, uniform
from optsched.io.importers import import_trace
from optsched.objective import Objective
from optsched.result import relative_gap
from optsched.simulate import objective_value, simulate
from optsched.warmstart import scheduler
from optsched.warmstart.clock_portfolio import best_for
from optsched.warmstart.clock_schedulers import CLOCK
from optsched.warmstart.table import RULES

STRETCHED_S = 7002.0
TTFT_S, TPOT_S = 1.0, 0.1
SCHEDULERS = (*RULES, "look-ahead", "look-ahead-chunked", *CLOCK)
COLUMNS = (
    "workload", "bound", "proof", "best", "gap", "schedule took", "bound took", "verify took",
    "certificate",
)  # fmt: skip

LIMITED_COLUMNS = (
    "workload", "latency at most", "bound without", "bound", "proof", "best", "found by", "gap",
    "bound took", "verify took", "certificate",
)  # fmt: skip
_LATENCY_SLACK = 1.1
_MEANS = (Objective.MEAN_TTFT, Objective.MEAN_LATENCY)


def azure(traces: Path | None, preset: str, *, offline: bool) -> Instance:
    """All 19,366 requests."""
    if traces is None:
        raise click.UsageError("this suite needs --traces FOLDER")
    layout, file, capacity = TRACES["azure"]
    instance, _ = import_trace(
        layout, traces / file, preset_name=preset, kv_tokens=capacity, offline=offline
    )
    return instance


def workloads(suite: str, traces: Path | None) -> Iterator[tuple[str, Instance]]:
    """Name and instance of every workload of a suite."""
    if suite == "mixes":
        for groups in MIXES:
            yield groups, mix(1024, groups)
    elif suite == "grid":
        for prompt in LENGTHS:
            for output in LENGTHS:
                yield f"I {prompt} O {output}", uniform(1024, prompt, output, kv_tokens=100_000)
    elif suite == "azure":
        yield "azure offline", azure(traces, "study-70b", offline=True)
    elif suite == "ttft":
        if traces is not None:
            yield from workloads("stretched", traces)
        yield "SISO+LILO", mix(1024, "SISO+LILO")
    elif suite in ("stretched", "goodput"):
        instance = azure(traces, "llama3-70b-4xa100", offline=False)
        if suite == "stretched":
            yield "azure over 7002 s", stretched(instance, STRETCHED_S)
        else:
            yield "azure", with_slos(instance, ttft_s=TTFT_S, tpot_s=TPOT_S)
    else:
        raise click.UsageError(f"unknown suite {suite!r}")


def measure(
    name: str, instance: Instance, objective: Objective, names: tuple[str, ...], limit_s: float
) -> tuple[list[str], dict[str, float], float]:
    """A row of the first table, each scheduler's value, and the bound."""
    values = {}
    for other in names:
        schedule = scheduler(other)(instance)
        require_valid(instance, schedule)
        values[other] = objective_value(instance, simulate(instance, schedule), objective)
    begin = time.perf_counter()
    schedule = best_for(instance, objective)
    schedule_s = time.perf_counter() - begin
    require_valid(instance, schedule)
    found = [objective_value(instance, simulate(instance, schedule), objective), *values.values()]
    best = max(found) if objective.maximised else min(found)
    begin = time.perf_counter()
    bound = clock_bound(instance, objective, target=best, time_limit_s=limit_s)
    bound_s = time.perf_counter() - begin
    certificate = certify_clock(instance, bound)
    begin = time.perf_counter()
    verdict = verify(certificate)
    verify_s = time.perf_counter() - begin
    gap = relative_gap(best, certificate.bound_s, objective)
    row = [
        name, f"{certificate.bound_s:.3f}", bound.proof, f"{best:.3f}", percent(gap),
        f"{schedule_s:.1f}", f"{bound_s:.1f}", f"{verify_s:.1f}",
        "accepted" if verdict.accepted else "REFUTED",
    ]  # fmt: skip
    return row, values, certificate.bound_s


def measure_limited(
    name: str, instance: Instance, names: tuple[str, ...], limit_s: float
) -> tuple[list[str], list[list[str]]]:
    """A row of the first table for mean TTFT under a limit on mean latency, and each scheduler's
    mean TTFT and mean latency."""
    schedules = {other: scheduler(other)(instance) for other in names}
    schedules["mean-latency portfolio"] = best_for(instance, Objective.MEAN_LATENCY)
    values = {}
    for other, schedule in schedules.items():
        require_valid(instance, schedule)
        trace = simulate(instance, schedule)
        values[other] = tuple(objective_value(instance, trace, mean) for mean in _MEANS)
    limit = _LATENCY_SLACK * min(latency for _, latency in values.values())
    best, found_by = min((ttft, other) for other, (ttft, at) in values.items() if at <= limit)
    free = clock_bound(instance, Objective.MEAN_TTFT, time_limit_s=limit_s)
    begin = time.perf_counter()
    bound = clock_bound(
        instance, Objective.MEAN_TTFT, time_limit_s=limit_s, target=best,
        subject_to={Objective.MEAN_LATENCY: limit},
    )  # fmt: skip
    bound_s = time.perf_counter() - begin
    certificate = certify_clock(instance, bound)
    begin = time.perf_counter()
    verdict = verify(certificate)
    verify_s = time.perf_counter() - begin
    row = [
        name, f"{limit:.3f}", f"{free.value:.3f}", f"{certificate.bound_s:.3f}", bound.proof,
        f"{best:.3f}", found_by, percent(relative_gap(best, certificate.bound_s)),
        f"{bound_s:.1f}", f"{verify_s:.1f}", "accepted" if verdict.accepted else "REFUTED",
    ]  # fmt: skip
    return row, [[name, other, *(f"{x:.3f}" for x in both)] for other, both in values.items()]


@click.command(help=__doc__)
@click.argument("suite")
@click.option("--traces", type=click.Path(path_type=Path), help="Folder of the real traces.")
@click.option("--only", help="Only workloads whose name contains this.")
@click.option("--scheduler", "names", multiple=True, default=SCHEDULERS, help="Beside the bound.")
@click.option("--time-limit", default=120.0, show_default=True, help="Of each bound, seconds.")
def main(
    suite: str, traces: Path | None, only: str | None, names: tuple[str, ...], time_limit: float
) -> None:
    """Print both tables."""
    begin = time.perf_counter()
    if suite == "ttft":
        _ttft(traces, only, names, time_limit)
        return
    objective = Objective.GOODPUT if suite == "goodput" else Objective.MEAN_LATENCY
    rows, beside = [], []
    for name, instance in workloads(suite, traces):
        if only is not None and only not in name:
            continue
        row, values, bound = measure(name, instance, objective, names, time_limit)
        rows.append(row)
        for other, value in values.items():
            gap = percent(relative_gap(value, bound, objective), 1)
            beside.append([name, other, f"{value:.3f}", gap])
        click.echo(f"{name}: gap {row[4]} by {row[2]}", err=True)
    print_table(COLUMNS, rows, left=(0, 2))
    click.echo()
    print_table(("workload", "scheduler", objective.value, "gap"), beside, left=(0, 1))
    click.echo(f"\neverything {time.perf_counter() - begin:.1f} s")


def _ttft(traces: Path | None, only: str | None, names: tuple[str, ...], time_limit: float) -> None:
    rows, beside = [], []
    for name, instance in workloads("ttft", traces):
        if only is None or only in name:
            row, values = measure_limited(name, instance, names, time_limit)
            rows.append(row)
            beside += values
    print_table(LIMITED_COLUMNS, rows, left=(0, 4, 6))
    click.echo()
    print_table(("workload", "scheduler", "mean TTFT", "mean latency"), beside, left=(0, 1))


if __name__ == "__main__":
    main()
