"""Every bound against the exhaustive optimum on random tiny instances.

    python -m benchmarks.tiny_bounds [--count 3000] [--seed 0]

Instances of every kind: arrivals, pages, several affine pieces, d0 and p0, batch_requests, chunking
forced. For each: the bounds in floating point, the value that the certificate proves in exact
rational arithmetic, the priced bound, and two independent state machines (the checker's and the
simulator's levels) on every scheduler's schedule.
"""

from __future__ import annotations

import random
import time

import click

from optsched.bounds import best_bound, certificate_of, lower_bound
from optsched.bounds.certificate import certify
from optsched.bounds.verify.verdict import verify
from optsched.check import check
from optsched.simulate import loads, simulate
from optsched.warmstart import scheduler, schedulers
from tests.oracle import optimum
from tests.tiny import random_instance

_ROUNDING = 1e-9


@click.command(help=__doc__)
@click.option("--count", default=3000, show_default=True)
@click.option("--seed", default=0, show_default=True)
def main(count: int, seed: int) -> None:
    """Count instances, comparisons and violations."""
    begin = time.perf_counter()
    above = exact_above = priced_above = refuted = tight = schedules = invalid = 0
    for number in range(seed, seed + count):
        rng = random.Random(number)
        instance = random_instance(
            number, arrivals=rng.random() < 0.3, pages=rng.random() < 0.4,
            tight=rng.random() < 0.5, most_prompt=rng.choice((4, 6, 8)),
            most_output=rng.choice((2, 4, 5)),
        )  # fmt: skip
        best, _ = optimum(instance)
        bound = lower_bound(instance)
        above += sum(part > best * (1 + _ROUNDING) for part in bound.parts.values())
        tight += bound.value_s >= best * (1 - _ROUNDING)
        verdict = verify(certify(instance, bound))
        refuted += not verdict.accepted
        assert verdict.proven_s is not None
        exact_above += float(verdict.proven_s) > best * (1 + _ROUNDING)
        priced = best_bound(instance, effort="normal", target_s=best)
        priced_above += priced.bound.value_s > best * (1 + _ROUNDING)
        refuted += not verify(certificate_of(instance, priced)).accepted
        for name in schedulers() if number % 10 == 0 else ("vllm", "sarathi", "portfolio"):
            schedule = scheduler(name)(instance)
            schedules += 1
            invalid += bool(check(instance, schedule))
            loads(instance, schedule)  # refuses what is no complete schedule
            invalid += simulate(instance, schedule).makespan_s < best * (1 - _ROUNDING)
    click.echo(
        f"{count} instances: {above} parts of bounds above the optimum, {exact_above} exact values "
        f"above it, {priced_above} priced bounds above it, {refuted} certificates refuted; the "
        f"bound is the optimum on {tight}; {schedules} schedules, {invalid} invalid or below the "
        f"optimum; {time.perf_counter() - begin:.0f} s"
    )


if __name__ == "__main__":
    main()
