"""How time and certified gap grow with the number of requests.

    python -m benchmarks.scaling [--preset llama3-70b-4xa100] [--requests 1000 ..] [--offline]

Azure-like workloads (lengths and rate of the conversation hour; ``io.generate.azure_like``) of 1K,
5K, 20K and 100K requests. Per size: the rules and the best schedule above the bound, what proves
the bound, and the seconds of each part: the rules' schedules with their checks, timing and measures
(all together), the best schedule, the bound, its certificate and the check of the certificate.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import click
import msgspec

from optsched.bounds import best_bound, certificate_of
from optsched.bounds.verify.verdict import verify
from optsched.check import require_valid
from optsched.cli.output import percent, print_table, seconds
from optsched.instance import Instance
from optsched.io.generate import azure_like
from optsched.simulate import measure, simulate
from optsched.warmstart import scheduler
from optsched.warmstart.portfolio import LOOK_AHEAD, PORTFOLIO

SIZES = (1_000, 5_000, 20_000, 100_000)
RULES = ("vllm", "vllm-ef", "sarathi", "sarathi-ef", "infermax", "mc-fcfs")
T = TypeVar("T")


class Stopwatch:
    """Seconds of each named part, one after the other."""

    def __init__(self) -> None:
        self.took_s: dict[str, float] = {}

    def __call__(self, name: str, part: Callable[..., T], *given: object) -> T:
        """``part(*given)``, its seconds added to those of ``name``."""
        begin = time.perf_counter()
        result = part(*given)
        self.took_s[name] = self.took_s.get(name, 0.0) + time.perf_counter() - begin
        return result


def row(instance: Instance, limit_s: float | None) -> dict[str, str]:
    """One line of the table."""
    clock, values = Stopwatch(), {}
    for rule in RULES:
        schedule = clock("rules", scheduler(rule), instance)
        clock("their checks", require_valid, instance, schedule)
        trace = clock("their timing", simulate, instance, schedule)
        clock("their measures", measure, instance, schedule, trace)
        values[rule] = trace.makespan_s
    portfolio = partial(LOOK_AHEAD[PORTFOLIO], time_limit_s=limit_s)
    best = clock("best schedule", portfolio, instance)
    require_valid(instance, best)
    trace = simulate(instance, best)
    batches, least_s = len(trace.start_s), min(trace.makespan_s, *values.values())
    found = clock("bound", partial(best_bound, target_s=least_s), instance)
    certificate = clock("certificate", certificate_of, instance, found)
    verdict = clock("verify", verify, certificate)
    bound_s = found.bound.value_s
    return {
        "requests": str(len(instance)),
        "batches": str(batches),
        "bound s": seconds(bound_s),
        "proof": found.bound.proof,
        "certificate": "accepted" if verdict.accepted else "REFUTED",
        **{rule: percent(value / bound_s - 1) for rule, value in values.items()},
        "best": percent(least_s / bound_s - 1, 3),
        **{f"{name} took": f"{took_s:.2f}" for name, took_s in clock.took_s.items()},
    }


@click.command(help=__doc__)
@click.option("--preset", default="llama3-70b-4xa100", show_default=True)
@click.option("--requests", "sizes", multiple=True, default=SIZES, show_default=True)
@click.option("--offline", is_flag=True, help="All requests at once.")
@click.option("--time-limit", "limit_s", type=float, help="Seconds for the best schedule.")
def main(preset: str, sizes: tuple[int, ...], offline: bool, limit_s: float | None) -> None:
    """Print the table."""
    rows = []
    for size in sizes:
        instance = azure_like(size, preset_name=preset)
        if offline:
            requests = (
                msgspec.structs.replace(request, arrival_s=0.0) for request in instance.requests
            )
            instance = msgspec.structs.replace(instance, requests=tuple(requests))
        rows.append(row(instance, limit_s))
        click.echo(f"{size} requests: best {rows[-1]['best']}", err=True)
    print_table(list(rows[0]), [list(own.values()) for own in rows])


if __name__ == "__main__":
    main()
