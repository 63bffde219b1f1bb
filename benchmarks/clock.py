"""The network formulation for objectives of the clock, with rigorous horizons.

    python -m benchmarks.clock [--seconds 60] [--solver highs] [--solver cpsat] [--seeds 3]

B8 I16 O8 M64 under preset `study`, offline and with Poisson arrivals (mean distance 20 ms, just
above what the machine keeps up with, 40 ms and 80 ms), for every objective but goodput, and goodput
with a TTFT SLO of 60 ms and a latency SLO of 150 ms. Per program: the horizon, shortened by the
relaxation, value and proven bound in seconds (for goodput the weight that is missed), wall time of
everything but the schedulers, and the processor time of it, since machines are shared.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

import click
import msgspec
import numpy as np

from optsched.cli.output import print_table
from optsched.constraints import network
from optsched.errors import OptschedError
from optsched.instance import Instance
from optsched.io.generate import uniform
from optsched.model.horizon import batch_horizon
from optsched.model.milp import Milp
from optsched.model.network import NetworkVariables
from optsched.objective import OBJECTIVES, Objective
from optsched.schedule import Schedule
from optsched.simulate import objective_value, simulate
from optsched.solvers import solver
from optsched.solvers.lp import solve_lp
from optsched.solvers.outcome import SolverOptions
from optsched.solvers.tighten import tighten
from optsched.warmstart import schedulers

COLUMNS = ("instance", "objective", "batches", "columns", "value", "bound", "wall s", "CPU s", "by")
ROUNDS = 20
TTFT_SLO_S, LATENCY_SLO_S = 0.06, 0.15


@dataclass(frozen=True)
class Proof:
    """What one run found: batches and columns of the program, value and bound, seconds."""

    batches: str
    columns: int
    value: float
    bound: float | None


def arriving(instance: Instance, distance_s: float, seed: int) -> Instance:
    """The instance with Poisson arrivals at this mean distance, the first at 0."""
    draw = random.Random(seed)
    requests, now = [], 0.0
    for request in instance.requests:
        requests.append(msgspec.structs.replace(request, arrival_s=now))
        now += draw.expovariate(1 / distance_s)
    return msgspec.structs.replace(
        instance, name=f"Poisson {1e3 * distance_s:.0f} ms, seed {seed}", requests=tuple(requests)
    )


def with_objectives(instance: Instance) -> Instance:
    """The instance with a TTFT and a latency SLO on every request."""
    requests = [
        msgspec.structs.replace(request, ttft_slo_s=TTFT_SLO_S, latency_slo_s=LATENCY_SLO_S)
        for request in instance.requests
    ]
    return msgspec.structs.replace(instance, requests=tuple(requests))


def best_schedule(instance: Instance, objective: Objective) -> tuple[float, Schedule]:
    """The best schedule of all schedulers that cover the instance, and its value."""
    known: list[tuple[float, Schedule]] = []
    for schedule_of in schedulers().values():
        try:
            schedule = schedule_of(instance)
        except OptschedError:
            continue
        value = objective_value(instance, simulate(instance, schedule), objective)
        if not known or objective.better(value, known[0][0]):
            known = [(value, schedule)]
    return known[0]


def prove(
    instance: Instance,
    objective: Objective,
    start: tuple[float, Schedule],
    name: str,
    limit_s: float,
) -> Proof:
    """Solve the unchunked network program from a known schedule."""
    cutoff = start[0]
    horizon = batch_horizon(instance, objective, cutoff, unchunked=True)
    assert horizon.rigorous
    most = late = horizon.batches
    if objective not in (Objective.MEAN_TTFT, Objective.GOODPUT):
        # A better schedule of these objectives can be long after it is settled.
        wide = NetworkVariables(
            instance, least=1, most=most, objective=objective, at_most={objective: cutoff}
        )
        most, late = network.most_used(wide, lambda linear: solve_lp(linear).bound)
    variables = NetworkVariables(instance, least=1, most=most, most_late=late, objective=objective)
    program = network.build(variables)
    hull = network.Hull(instance, _point)
    tightened = tighten(
        program, lambda point: hull.separate(variables, point), rounds=ROUNDS,
        time_limit_s=limit_s / 4,
    )  # fmt: skip
    outcome = solver(name)(
        tightened.milp, SolverOptions(time_limit_s=limit_s), variables.encode(start[1])
    )
    value = program.value(variables.encode(start[1]))
    if outcome.point is not None:
        value = program.value(outcome.point)
        schedule = variables.decode(outcome.point)
        again = objective_value(instance, simulate(instance, schedule), objective)
        if objective.maximised:
            again = instance.total_weight - again
        assert abs(again - value) <= 1e-6 * max(abs(value), 1e-3), (again, value)
    return Proof(f"{horizon.batches} > {most}/{late}", program.columns, value, outcome.bound)


def _point(linear: Milp) -> np.ndarray:
    point = solve_lp(linear).point
    assert point is not None
    return point


@click.command(help=__doc__)
@click.option("--seconds", default=60.0, show_default=True, help="Per program.")
@click.option("--solver", "names", multiple=True, default=("highs",), show_default=True)
@click.option("--seeds", default=2, show_default=True, help="Draws of arrivals per distance.")
@click.option("--objective", "only", multiple=True, type=click.Choice(OBJECTIVES))
def main(seconds: float, names: tuple[str, ...], seeds: int, only: tuple[str, ...]) -> None:
    """Print one table."""
    plain = uniform(8, 16, 8, kv_tokens=64, preset_name="study")
    instances = [msgspec.structs.replace(plain, name="offline")]
    instances += [
        arriving(plain, distance, seed) for distance in (0.02, 0.04, 0.08) for seed in range(seeds)
    ]
    rows = []
    for instance in instances:
        for objective in map(Objective, only or OBJECTIVES):
            judged = objective is Objective.GOODPUT
            case = with_objectives(instance) if judged else instance
            start = best_schedule(case, objective)
            for name in names:
                wall, cpu = time.perf_counter(), time.process_time()
                proof = prove(case, objective, start, name, seconds)
                spent = time.perf_counter() - wall, time.process_time() - cpu
                bound = "-" if proof.bound is None else f"{proof.bound:.6f}"
                row = [instance.name, objective.value, proof.batches, str(proof.columns)]
                row += [f"{proof.value:.6f}", bound, *(f"{s:.1f}" for s in spent), name]
                rows.append(row)
                click.echo("  ".join(row), err=True)
    print_table(COLUMNS, rows)


if __name__ == "__main__":
    main()
