"""The API workload of INFERCEPT and MARS: schedulers beside certified bounds.

    python -m benchmarks.calls_api FILE [--rate 1 --rate 2] [--kv 20000] [--seeds 3]
        [--scheduler infercept --scheduler mars] [--csv OUT.csv]

FILE is the table of segments (``docs/files.md``): 397 requests of six classes, here with Poisson
arrivals at each rate, preset ``llama2-7b-a100`` and 200K tokens of host memory. Per rate, M, seed
and scheduler: mean latency, service (mean latency less the calls, which are the same for all), mean
TTFT, how many have their first token within 1 s, makespan, and the gaps of mean latency and service
to the bound. Schedulers that do not cover requests with calls are left out. ``best:OBJECTIVE`` is
the best schedule known for it; under ``best:goodput`` every request asks for its first token within
1 s.
"""

from __future__ import annotations

import csv
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import msgspec

from optsched.bounds import best_bound
from optsched.bounds.clock import clock_bound
from optsched.check import require_valid
from optsched.cli.output import print_table
from optsched.errors import UnknownNameError, UnsupportedError
from optsched.instance import Instance
from optsched.io.infercept import import_infercept
from optsched.objective import Objective
from optsched.schedule import Schedule
from optsched.simulate import request_times, simulate
from optsched.warmstart import scheduler
from optsched.warmstart.portfolio import best_with_calls

RATES = (1.0, 2.0, 4.0, 6.0)
KV_TOKENS = (20_000, 100_000)
HOST_KV_TOKENS = 200_000
PRESET = "llama2-7b-a100"
TTFT_S = 1.0
SCHEDULERS = (
    "vllm-discard", "fcfs-preserve", "fcfs-swap", "infercept", "infercept-known", "mars",
    "mars-true", "calls-shortest-work",
)  # fmt: skip
BEST = (Objective.MEAN_LATENCY, Objective.MEAN_TTFT, Objective.GOODPUT, Objective.MAKESPAN)
COLUMNS = (
    "rate", "M", "seed", "scheduler", "mean latency s", "service s", "mean TTFT s", "TTFT <= 1 s",
    "makespan s", "latency gap %", "service gap %", "makespan gap %", "wall s",
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One draw of arrivals with its bounds, seconds."""

    rate: float
    kv_tokens: int
    seed: int
    instance: Instance
    pauses_s: float
    latency_s: float
    makespan_s: float

    def row(self, name: str, schedule: Schedule, wall_s: float) -> list[str]:
        """A row of the table, after checking the schedule."""
        require_valid(self.instance, schedule)
        trace = simulate(self.instance, schedule)
        times = request_times(self.instance, trace)
        latency = float(times.latency_s.mean())
        service, bound = latency - self.pauses_s, self.latency_s - self.pauses_s
        within = int((times.ttft_s <= TTFT_S).sum())
        return [
            f"{self.rate:g}", str(self.kv_tokens), str(self.seed), name, f"{latency:.3f}",
            f"{service:.3f}", f"{times.ttft_s.mean():.3f}", str(within),
            f"{trace.makespan_s:.2f}", _percent(latency, self.latency_s), _percent(service, bound),
            _percent(trace.makespan_s, self.makespan_s), f"{wall_s:.1f}",
        ]  # fmt: skip


def _percent(value: float, bound: float) -> str:
    return f"{100 * (value / bound - 1):.2f}"


def case(path: Path, rate: float, kv_tokens: int, seed: int, limit_s: float) -> Case:
    """The workload with one draw of arrivals, and bounds on it."""
    instance, _ = import_infercept(
        path, preset_name=PRESET, rate=rate, seed=seed, kv_tokens=kv_tokens,
        host_kv_tokens=HOST_KV_TOKENS,
    )  # fmt: skip
    pauses_s = sum(call.duration_s for request in instance.requests for call in request.calls)
    return Case(
        rate, kv_tokens, seed, instance, pauses_s / len(instance),
        clock_bound(instance, Objective.MEAN_LATENCY, time_limit_s=limit_s).value,
        best_bound(instance, time_limit_s=limit_s).bound.value_s,
    )  # fmt: skip


def rows(case: Case, names: tuple[str, ...]) -> Iterator[list[str]]:
    """Every scheduler, then the best schedule known for each objective."""
    for name in names:
        try:
            schedule, wall_s = _timed(lambda name=name: scheduler(name)(case.instance))  # type: ignore[misc]
        except (UnknownNameError, UnsupportedError) as refused:
            click.echo(f"{name}: {refused.message}", err=True)
            continue
        yield case.row(name, schedule, wall_s)
    for objective in BEST:
        instance = case.instance
        if objective is Objective.GOODPUT:
            requests = [
                msgspec.structs.replace(request, ttft_slo_s=TTFT_S)
                for request in instance.requests
            ]  # fmt: skip
            instance = msgspec.structs.replace(instance, requests=tuple(requests))
        schedule, wall_s = _timed(
            lambda asked=instance, by=objective: best_with_calls(asked, by)  # type: ignore[misc]
        )
        yield case.row(f"best:{objective.value}", schedule, wall_s)


def _timed(run: Callable[[], Schedule]) -> tuple[Schedule, float]:
    begin = time.perf_counter()
    return run(), time.perf_counter() - begin


@click.command(help=__doc__)
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@click.option("--rate", "rates", multiple=True, default=RATES, show_default=True)
@click.option("--kv", "sizes", type=int, multiple=True, default=KV_TOKENS, show_default=True)
@click.option("--seeds", default=3, show_default=True, help="Draws of arrivals.")
@click.option("--scheduler", "names", multiple=True, default=SCHEDULERS, show_default=True)
@click.option("--time-limit", default=60.0, show_default=True, help="Of each bound, seconds.")
@click.option("--csv", "out", type=click.Path(path_type=Path), help="Also write the table here.")
def main(
    path: Path, rates: tuple[float, ...], sizes: tuple[int, ...], seeds: int,
    names: tuple[str, ...], time_limit: float, out: Path | None,
) -> None:  # fmt: skip
    """Print one table."""
    found = []
    for rate in rates:
        for kv_tokens in sizes:
            for seed in range(seeds):
                for row in rows(case(path, rate, kv_tokens, seed, time_limit), names):
                    found.append(row)
                    click.echo("  ".join(row), err=True)
    if out is not None:
        with out.open("w", newline="") as file:
            csv.writer(file).writerows([COLUMNS, *found])
    print_table(COLUMNS, found, left=(3,))


if __name__ == "__main__":
    main()
