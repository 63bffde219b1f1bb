"""Augmented instances of few requests, proven optimal over unchunked schedules.

    python -m benchmarks.calls_exact [--requests 5] [--count 20] [--time-limit 10]

Random instances, fixed seeds: I <= 16, O <= 6, 1 or 2 calls, M = 1.5 times the largest need, host
memory of the same size in every second one, ``study`` coefficients. ``solve`` with ``no-chunk``, by
makespan and by mean latency, each within the limit.
"""

from __future__ import annotations

import random
import time

import click

from optsched.cli.output import percent, print_table
from optsched.instance import Call, Instance, Limits, Request
from optsched.io import preset
from optsched.objective import Objective
from optsched.solve import SolveOptions, solve

DURATIONS_S = (0.01, 0.03, 0.1, 0.3)
OBJECTIVES = (Objective.MAKESPAN, Objective.MEAN_LATENCY)


def drawn(seed: int, count: int) -> Instance:
    """``count`` requests, each with one or two calls."""
    rng = random.Random(seed)
    requests = []
    for i in range(count):
        output = rng.randint(2, 6)
        after = sorted(rng.sample(range(1, output), min(rng.randint(1, 2), output - 1)))
        prompt = rng.randint(1, 16)
        calls = tuple(
            Call(
                after_tokens=k, duration_s=rng.choice(DURATIONS_S),
                response_tokens=rng.randint(0, 4),
            )
            for k in after
        )  # fmt: skip
        requests.append(
            Request(id=f"r{i}", prompt_tokens=prompt, output_tokens=output, calls=calls)
        )
    largest = max(
        r.prompt_tokens + r.output_tokens - 1 + sum(c.response_tokens for c in r.calls)
        for r in requests
    )
    room = 3 * largest // 2
    return Instance(
        name=f"calls-{count}-{seed}", cost=preset("study").cost, requests=tuple(requests),
        limits=Limits(
            kv_tokens=room, batch_tokens=4096, host_kv_tokens=room if seed % 2 else 0
        ),
    )  # fmt: skip


@click.command()
@click.option("--requests", default=5, show_default=True)
@click.option("--count", default=20, show_default=True, help="Instances, seeds from 0.")
@click.option("--time-limit", default=10.0, show_default=True, help="Seconds for each solve.")
def main(requests: int, count: int, time_limit: float) -> None:
    """Print one line per instance and objective, then how many are proven."""
    rows, proven = [], dict.fromkeys(OBJECTIVES, 0)
    for seed in range(count):
        for objective in OBJECTIVES:
            begin = time.perf_counter()
            result = solve(
                drawn(seed, requests),
                SolveOptions(objective=objective, policies=("no-chunk",), time_limit_s=time_limit),
            )
            proven[objective] += result.optimal
            row = (
                str(seed), objective.value, "-" if result.value is None else f"{result.value:.6f}",
                percent(result.gap, 4), "yes" if result.optimal else "no", result.proof or "",
                f"{time.perf_counter() - begin:.1f}",
            )  # fmt: skip
            rows.append(row)
            click.echo("  ".join(row), err=True)
    print_table(("seed", "objective", "value", "gap", "proven", "proof", "s"), rows, left=(1, 4, 5))
    click.echo(", ".join(f"{o.value}: {proven[o]} of {count} proven" for o in OBJECTIVES))


if __name__ == "__main__":
    main()
