"""Certified gaps at the scale of real traces: bounds, the schedules that meet them, certificates.

    python -m benchmarks.certified SUITE [--preset study] [--traces FOLDER] [--out table.csv]

SUITE is one of

    grid32, grid1024   B uniform requests, I and O in {1, 32, 128, 512, 1024}, M = 100K
                       (InferMax, section 4)
    memory             B = 1024, O = 32, M = 100, 1K, 10K, 100K, 1M, I = 1 .. 1024
    mixes              the six mixes of two groups, B = 64, 1024, 10,240 (InferMax, section 4.6)
    azure, arxiv, mooncake
                       real traces below FOLDER, offline and with their arrivals
    scaling            Azure-like workloads of 1K, 5K, 20K and 100K requests

Per workload: the baselines' makespans above the bound, the best schedule, the bound, what proves
it and the certified gap, the seconds each took, and what `verify` says of the certificate.
"""

from __future__ import annotations

import csv
import time
from collections.abc import Iterator
from pathlib import Path

import click

from optsched.bounds import best_bound, certificate_of
from optsched.bounds.verify.verdict import verify
from optsched.check import require_valid
from optsched.cli.output import percent, print_table, seconds
from optsched.instance import Instance
from optsched.io.generate import azure_like, mix, uniform
from optsched.io.importers import import_trace
from optsched.result import relative_gap
from optsched.simulate import simulate
from optsched.warmstart import scheduler
from optsched.warmstart.portfolio import PORTFOLIO

LENGTHS = (1, 32, 128, 512, 1024)
MIXES = ("SISO+SILO", "SISO+LISO", "SISO+LILO", "SILO+LISO", "SILO+LILO", "LISO+LILO")
BASELINES = ("vllm", "vllm-ef", "sarathi", "sarathi-ef", "infermax", "mc-fcfs")
TRACES = {
    "azure": ("azure", "azure_llm_2023/AzureLLMInferenceTrace_conv.csv", 100_000),
    "arxiv": (
        "vidur", "vidur_traces/arxiv_summarization_stats_llama2_tokenizer_filtered_v2.csv", 100_000,
    ),
    "mooncake": ("mooncake", "mooncake_fast25/conversation_trace.jsonl", 200_000),
}  # fmt: skip


def workloads(suite: str, preset: str, traces: Path | None) -> Iterator[tuple[str, Instance]]:
    """Name and instance of every workload of a suite."""
    if suite in ("grid32", "grid1024"):
        for prompt in LENGTHS:
            for output in LENGTHS:
                instance = uniform(
                    int(suite[4:]), prompt, output, kv_tokens=100_000, preset_name=preset
                )
                yield f"I {prompt} O {output}", instance
    elif suite == "memory":
        for capacity in (100, 1_000, 10_000, 100_000, 1_000_000):
            for prompt in (1, 32, 48, 128, 512, 1024):
                if prompt + 31 <= capacity:
                    instance = uniform(1024, prompt, 32, kv_tokens=capacity, preset_name=preset)
                    yield f"M {capacity} I {prompt}", instance
    elif suite == "mixes":
        for requests in (64, 1024, 10_240):
            for groups in MIXES:
                yield f"{groups} {requests}", mix(requests, groups, preset_name=preset)
    elif suite == "scaling":
        for requests in (1_000, 5_000, 20_000, 100_000):
            yield str(requests), azure_like(requests, preset_name=preset)
    elif suite in TRACES:
        if traces is None:
            raise click.UsageError(f"suite {suite} needs --traces FOLDER")
        layout, file, capacity = TRACES[suite]
        for offline in (True, False):
            instance, _ = import_trace(
                layout, traces / file, preset_name=preset, kv_tokens=capacity, offline=offline
            )
            if offline or not instance.offline:
                yield f"{suite} {'offline' if offline else 'arrivals'}", instance
    else:
        raise click.UsageError(f"unknown suite {suite!r}")


def measure(name: str, instance: Instance, effort: str) -> dict[str, str]:
    """One row."""
    values = {}
    for rule in BASELINES:
        values[rule] = simulate(instance, scheduler(rule)(instance)).makespan_s
    begin = time.perf_counter()
    schedule = scheduler(PORTFOLIO)(instance)
    schedule_s = time.perf_counter() - begin
    require_valid(instance, schedule)
    best = simulate(instance, schedule).makespan_s
    begin = time.perf_counter()
    found = best_bound(instance, effort=effort, target_s=min(best, *values.values()))
    bound_s = time.perf_counter() - begin
    certificate = certificate_of(instance, found)
    begin = time.perf_counter()
    verdict = verify(certificate)
    verify_s = time.perf_counter() - begin
    bound = found.bound.value_s
    least = min(best, *values.values())
    return {
        "workload": name,
        **{rule: percent(relative_gap(value, bound)) for rule, value in values.items()},
        "best": percent(relative_gap(least, bound), 3),
        "by": PORTFOLIO if best == least else min(values, key=lambda rule: values[rule]),
        "value s": seconds(least),
        "bound s": seconds(bound),
        "proof": found.bound.proof,
        "schedule took": f"{schedule_s:.1f}",
        "bound took": f"{bound_s:.1f}",
        "verify took": f"{verify_s:.1f}",
        "certificate": "accepted" if verdict.accepted else "REFUTED",
    }


@click.command(help=__doc__)
@click.argument("suite")
@click.option("--preset", default="study", show_default=True)
@click.option("--effort", default="normal", show_default=True)
@click.option("--traces", type=click.Path(path_type=Path), help="Folder of the real traces.")
@click.option("--only", help="Only workloads whose name contains this.")
@click.option("--out", type=click.Path(path_type=Path), help="Also write the table as CSV.")
def main(
    suite: str, preset: str, effort: str, traces: Path | None, only: str | None, out: Path | None
) -> None:
    """Print the table."""
    begin = time.perf_counter()
    rows = []
    for name, instance in workloads(suite, preset, traces):
        if only is None or only in name:
            rows.append(measure(name, instance, effort))
            click.echo(f"{name}: best {rows[-1]['best']}, bound by {rows[-1]['proof']}", err=True)
    header = list(rows[0])
    print_table(header, [list(row.values()) for row in rows], left=(0,))
    gaps = [float(row["best"].rstrip(" %")) for row in rows]
    click.echo(
        f"\n{suite}, {preset}: mean gap {sum(gaps) / len(gaps):.3f} %, worst {max(gaps):.3f} %, "
        f"{sum(gap == 0 for gap in gaps)} of {len(gaps)} closed, "
        f"{time.perf_counter() - begin:.0f} s in all"
    )
    if out is not None:
        with out.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, header)
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
