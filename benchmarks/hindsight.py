"""The hindsight benchmark of Jaillet et al. (arXiv 2502.07115): MC-SF against optimum and bound.

    python -m benchmarks.hindsight [--model offline|arrivals] [--trials 20] [--small] [..]
    python -m benchmarks.hindsight --small --trials 200 [--csv FILE]

Batches take one second. M is uniform in 30..50, prompts in 1..5, outputs in 1..M - prompt. Offline,
40..60 requests are there at once; with arrivals, they come in 40..60 rounds, Poisson with a rate
uniform in 0.5..1.5 per round. Trial t has seed t. One more KV token per request and round is the
paper's own convention (--paper-memory); it changes no conclusion.

Each trial has --seconds: some for annealing, the rest for the Lagrangian bound. With --small there
are few requests, --sizes of them (with arrivals at the same rates), and the time is for a search
that proves the optimum. --processes trials run at a time, each on one core.

MC-SF admits waiting requests by output length, as long as they fit until they end, and stops at
the first that does not; "skip" goes past it.
"""

from __future__ import annotations

import csv
import random
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import click
import numpy as np

from optsched.bounds.hindsight import hindsight_bound
from optsched.bounds.hindsight_search import search
from optsched.check import require_valid
from optsched.cli.output import percent, print_table
from optsched.instance import Instance, Limits, Request
from optsched.io.presets import preset
from optsched.model.hindsight import rounds_of
from optsched.schedule import Schedule
from optsched.simulate import simulate
from optsched.warmstart import scheduler
from optsched.warmstart.annealed import annealed

PAPER = {"offline": (1.005, 1.074, "114 of 200"), "arrivals": (1.047, 1.227, None)}
_ANNEALED = 0.2  # share of a trial's time
_BOUNDED = 0.5  # of the time left, where a search follows
_POLICY = ("nonpreemptive",)


@dataclass(frozen=True, kw_only=True)
class Trial:
    """Sums of latencies in rounds; ``best`` is optimal if it equals ``bound``."""

    model: str
    seed: int
    requests: int
    kv_tokens: int
    mc_sf: int
    skipping: int
    best: int
    bound: int
    seconds: float


def instance(
    model: str, seed: int, *, sizes: tuple[int, int] | None = None, paper_memory: bool = False
) -> Instance:
    """Trial ``seed`` of a model; with ``sizes``, least and most requests of the small version."""
    rng = random.Random(f"{model} {seed} {sizes}")
    capacity = rng.randint(30, 50)
    if model == "offline":
        arrivals = [0] * rng.randint(*(sizes or (40, 60)))
    else:
        arrivals = _poisson(rng, most=rng.randint(*sizes) if sizes else None)
    requests = []
    for number, arrival in enumerate(arrivals):
        prompt = rng.randint(1, 5)
        output = rng.randint(1, capacity - prompt)
        requests.append(
            Request(
                id=f"r{number}", prompt_tokens=prompt + paper_memory, output_tokens=output,
                arrival_s=float(arrival),
            )
        )  # fmt: skip
    return Instance(
        name=f"hindsight-{model}-{seed}", cost=preset("unit").cost, requests=tuple(requests),
        limits=Limits(kv_tokens=capacity, batch_tokens=10**9),
    )  # fmt: skip


def _poisson(rng: random.Random, *, most: int | None) -> list[int]:
    """Arrivals of a Poisson process, each at the end of the round that it falls in."""
    rate, rounds = rng.uniform(0.5, 1.5), rng.randint(40, 60)
    found: list[int] = []
    now = rng.expovariate(rate)
    while now < rounds and (most is None or len(found) < most):
        found.append(int(now))
        now += rng.expovariate(rate)
    return found or [0]


def latencies(problem: Instance, schedule: Schedule) -> int:
    """Sum of latencies in rounds; the schedule must be valid and non-preemptive."""
    require_valid(problem, schedule, policies=_POLICY)
    trace = simulate(problem, schedule)
    return round(float((trace.finish_s - problem.release_s).sum()))


def mc_sf(problem: Instance, *, skip: bool) -> int:
    """Sum of latencies of MC-SF in rounds; equal outputs by prompt, then by arrival.

    The rule as the paper states it; the scheduler of the same name takes equal outputs by arrival.
    """
    kinds = rounds_of(problem)
    order = np.lexsort((kinds.release, kinds.prompt, kinds.output)).tolist()
    waiting = [kind for kind in order for _ in range(int(kinds.count[kind]))]
    held = np.zeros(kinds.horizon + 1, dtype=np.int64)
    total, now = 0, 0
    while waiting:
        left, blocked = [], False
        for kind in waiting:
            kv = kinds.kv_of(kind)
            arrived = kinds.release[kind] <= now
            fits = (held[now : now + kv.size] + kv <= problem.limits.kv_tokens).all()
            if arrived and fits and not blocked:
                held[now : now + kv.size] += kv
                total += now + kv.size - int(kinds.release[kind])
            else:
                left.append(kind)
                blocked = blocked or (arrived and not skip)
        waiting, now = left, now + 1
    return total


def run(
    seed: int, *, model: str, seconds: float, sizes: tuple[int, int] | None, paper_memory: bool
) -> Trial:
    """One trial; with ``sizes``, the search for the optimum too."""
    problem = instance(model, seed, sizes=sizes, paper_memory=paper_memory)
    begin = time.monotonic()
    rule = scheduler("mc-sf")(problem)
    mine = annealed(problem, deadline=begin + _ANNEALED * seconds)
    rules = mc_sf(problem, skip=False), mc_sf(problem, skip=True)
    best = min(latencies(problem, mine), latencies(problem, rule), *rules)
    left = seconds - (time.monotonic() - begin)
    share = _BOUNDED if sizes else 1.0
    bound = hindsight_bound(problem, time_limit_s=share * left, target=best)
    total = bound.total
    if sizes and total < best:
        left = seconds - (time.monotonic() - begin)
        found = search(bound, known=best, time_limit_s=left)
        if found.schedule is not None:
            assert latencies(problem, found.schedule) == found.total
        best, total = found.total, found.bound
    return Trial(
        model=model, seed=seed, requests=len(problem), kv_tokens=problem.limits.kv_tokens,
        mc_sf=rules[0], skipping=rules[1], best=best,
        bound=min(total, best), seconds=round(time.monotonic() - begin, 2),
    )  # fmt: skip


@contextmanager
def _append_to(path: Path | None) -> Iterator[csv.DictWriter[str] | None]:
    """A table of trials, with a header if it is new."""
    if path is None:
        yield None
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", newline="") as file:
        table = csv.DictWriter(file, list(Trial.__dataclass_fields__), lineterminator="\n")
        if not file.tell():
            table.writeheader()
        yield table


@click.command(help=__doc__)
@click.option("--model", type=click.Choice(list(PAPER)), default="offline", show_default=True)
@click.option("--trials", default=20, show_default=True)
@click.option("--first", default=0, show_default=True, help="Seed of the first trial.")
@click.option("--seconds", default=120.0, show_default=True, help="Per trial.")
@click.option("--small", is_flag=True, help="Few requests, and the proven optimum.")
@click.option(
    "--sizes", nargs=2, type=int, default=(10, 15), show_default=True, help="With --small."
)
@click.option("--processes", default=1, show_default=True, help="Trials at a time.")
@click.option(
    "--csv", "file", type=click.Path(path_type=Path), help="Table to append the trials to."
)
@click.option("--paper-memory", is_flag=True, help="One more KV token per request and round.")
def main(
    model: str, trials: int, first: int, seconds: float, small: bool, sizes: tuple[int, int],
    processes: int, file: Path | None, paper_memory: bool,
) -> None:  # fmt: skip
    """Print the table and what it says beside the paper."""
    rows, done = [], []
    one = partial(
        run, model=model, seconds=seconds, sizes=sizes if small else None, paper_memory=paper_memory
    )
    with ProcessPoolExecutor(processes) as pool, _append_to(file) as table:
        for trial in pool.map(one, range(first, first + trials)):
            done.append(trial)
            rows.append(
                (
                    str(trial.seed), str(trial.requests), str(trial.kv_tokens), str(trial.mc_sf),
                    str(trial.skipping), str(trial.best), str(trial.bound),
                    percent(trial.best / trial.bound - 1, 1), f"{trial.mc_sf / trial.best:.3f}",
                    f"{trial.seconds:.1f}",
                )
            )  # fmt: skip
            click.echo(" ".join(rows[-1]), err=True)
            if table is not None:
                table.writerow(asdict(trial))
    header = (
        "trial", "n", "M", "MC-SF", "skip", "best", "bound", "gap", "MC-SF / best", "seconds"
    )  # fmt: skip
    print_table(header, rows)
    mean, worst, optimal = PAPER[model]
    for name, column in (("MC-SF", "mc_sf"), ("skip", "skipping")):
        ratios = [getattr(trial, column) / trial.best for trial in done]
        reached = sum(ratio == 1 for ratio in ratios)
        click.echo(
            f"{name} / best: mean {np.mean(ratios):.4f}, worst {max(ratios):.4f}, "
            f"equal in {reached} of {len(done)}"
        )
    also = f", equal in {optimal}" if optimal else ""
    click.echo(f"paper, MC-SF / optimum: mean {mean}, worst {worst}{also}")
    gaps = [trial.best / trial.bound - 1 for trial in done]
    proven = sum(gap == 0 for gap in gaps)
    click.echo(
        f"gap: mean {percent(float(np.mean(gaps)), 1)}, largest {percent(max(gaps), 1)}, "
        f"proven optimal {proven} of {len(done)}; seconds: mean "
        f"{np.mean([trial.seconds for trial in done]):.1f}, "
        f"largest {max(trial.seconds for trial in done):.1f}"
    )


if __name__ == "__main__":
    main()
