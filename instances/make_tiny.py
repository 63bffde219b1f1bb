"""Write ``instances/tiny/``: instances small enough for an exhaustive search, each with a claim.

Every family below draws random instances from a seed of its own and keeps those whose claim the
exhaustive search of ``tests/oracle.py`` confirms, so a file's name tells what it is for:
``evict-pays-01.json`` has an optimum that no schedule without evictions reaches. The same program
always writes the same files. From the root of the project:

    python -m instances.make_tiny            # writes instances/tiny/*.json
    python -m instances.make_tiny --list     # prints name, optimum, batches, evictions; no files

Every one is solved within seconds; the claims, which need more searches, take half a minute.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from optsched.cost import CostModel
from optsched.errors import InfeasibleError, UnsupportedError
from optsched.instance import Instance, Limits, Request
from optsched.io.instances import write_instance
from optsched.io.presets import preset
from optsched.schedule import Schedule
from tests.oracle import optimum

FOLDER = Path(__file__).parent / "tiny"
MOST_STATES = 15_000  # some 5 s of search
ATTEMPTS = 400
WIDE = 4096  # C when it is not meant to bind


@dataclass(frozen=True)
class Family:
    """``count`` instances drawn by ``draw`` of which ``claim`` is true."""

    name: str
    count: int
    draw: Callable[[random.Random], Instance]
    claim: Callable[[Instance], bool]


def best(instance: Instance, *policies: str) -> float:
    """The least makespan under these policies, infinite if there is no schedule."""
    try:
        return optimum(instance, policies, most_states=MOST_STATES)[0]
    except InfeasibleError:
        return float("inf")


def worse(value: float, than: float) -> bool:
    """Whether a makespan is longer by more than rounding and small effects: 0.1 %."""
    return value > than * 1.001


def with_limits(instance: Instance, **changes: int | None) -> Instance:
    """The same requests on another machine."""
    limits = msgspec.structs.replace(instance.limits, **changes)
    return msgspec.structs.replace(instance, limits=limits)


def with_cost(instance: Instance, **changes: object) -> Instance:
    """The same requests under another batch-time law."""
    cost = msgspec.structs.replace(instance.cost, preset=None, **changes)
    return msgspec.structs.replace(instance, cost=cost)


# --- what the families draw from -----------------------------------------------------------------


def study(rng: random.Random) -> CostModel:
    """Round numbers in proportion to a 7B model: one piece, cheap refills."""
    return preset("study").cost


def dear_refills(rng: random.Random) -> CostModel:
    """One piece; a prefill costs about as much as a batch."""
    return CostModel(
        pieces=((9e-3, 7e-5),), d_kv=3e-7, p_sq=rng.choice([5e-5, 2e-4]), p_kv=3e-8,
        p_req=rng.choice([2e-3, 6e-3]),
    )  # fmt: skip


def knees(rng: random.Random) -> CostModel:
    """Two or three pieces whose knots lie among the tokens of a tiny batch, as a GPU's do among
    those of a large one: nearly flat, then steep."""
    alpha, beta, knot = 9e-3, 1e-4, 0
    pieces = [(alpha, beta)]
    for steeper in rng.choice([(3e-3,), (1e-3, 4e-3)]):
        knot += rng.randint(2, 5)
        alpha, beta = round(alpha + (beta - steeper) * knot, 9), steeper
        pieces.append((alpha, beta))
    return CostModel(pieces=tuple(pieces), d_kv=3e-7, p_sq=2e-8, p_kv=3e-8, p_req=5e-5)


def fixed_costs(rng: random.Random) -> CostModel:
    """A batch pays for having any decode and for having any prefill."""
    return CostModel(
        pieces=((2e-3, 6e-5),), d0=rng.choice([6e-4, 2e-3]), d_kv=2.7e-7, d_req=2.4e-5,
        p0=rng.choice([3e-3, 8e-3]), p_sq=5e-9, p_kv=3e-7, p_req=5e-5,
    )  # fmt: skip


def draw(
    *,
    count: tuple[int, int] = (2, 3),
    prompt: tuple[int, int] = (1, 8),
    output: tuple[int, int] = (1, 5),
    cost: Callable[[random.Random], CostModel] = study,
    arrivals: tuple[float, ...] = (0.0,),
    room: tuple[float, float] = (1.0, 2.0),
    block: tuple[int, ...] = (1,),
    C: tuple[int, int] | None = None,
    P: tuple[int, int] | None = None,
    batch_requests: int | None = None,
    alike: bool = False,
) -> Callable[[random.Random], Instance]:
    """A function that draws an instance; ranges include both ends.

    ``room`` is M in multiples of the largest request's need, ``alike`` makes all requests equal.
    """

    def drawn(rng: random.Random) -> Instance:
        shapes = [(rng.randint(*prompt), rng.randint(*output)) for _ in range(rng.randint(*count))]
        if alike:
            shapes = [shapes[0]] * len(shapes)
        pages = rng.choice(block)
        requests = tuple(
            Request(
                id=f"r{k}", prompt_tokens=size, output_tokens=length, arrival_s=rng.choice(arrivals)
            )
            for k, (size, length) in enumerate(shapes)
        )
        largest = max(pages * -(-r.final_tokens // pages) for r in requests)
        return Instance(
            name="drawn",
            limits=Limits(
                kv_tokens=int(largest * rng.uniform(*room)),
                batch_tokens=rng.randint(*C) if C else WIDE,
                prefill_tokens=rng.randint(*P) if P else None,
                batch_requests=batch_requests,
                block_tokens=pages,
            ),
            cost=cost(rng),
            requests=requests,
        )

    return drawn


# --- claims --------------------------------------------------------------------------------------


def always(instance: Instance) -> bool:
    """Nothing beyond what the draw ensures."""
    return best(instance) > 0


def pays(policy: str) -> Callable[[Instance], bool]:
    """What the policy forbids makes the optimum better."""
    return lambda instance: worse(best(instance, policy), best(instance))


def memory_binds(instance: Instance) -> bool:
    """More KV memory would make the optimum better."""
    return worse(best(instance), best(with_limits(instance, kv_tokens=WIDE)))


def neutral(policy: str) -> Callable[[Instance], bool]:
    """Memory binds, and yet what the policy forbids gains nothing at all."""
    return lambda instance: (
        memory_binds(instance) and best(instance, policy) <= best(instance) * (1 + 1e-12)
    )


def all_of(*claims: Callable[[Instance], bool]) -> Callable[[Instance], bool]:
    """Every one of the claims."""
    return lambda instance: all(claim(instance) for claim in claims)


def binds(**changes: int | None) -> Callable[[Instance], bool]:
    """Lifting these limits would make the optimum better."""
    return lambda instance: worse(best(instance), best(with_limits(instance, **changes)))


def chunking_forced(instance: Instance) -> bool:
    """Some prompt does not fit into one batch."""
    longest = max(request.prompt_tokens for request in instance.requests)
    return longest > instance.limits.fill_tokens


def knees_bind(instance: Instance) -> bool:
    """The steeper pieces cost something."""
    return worse(best(instance), best(with_cost(instance, pieces=instance.cost.pieces[:1])))


def machine_idles(instance: Instance) -> bool:
    """The last arrival comes after all else could be finished."""
    last = max(instance.release_s)
    early = tuple(r for r, t in zip(instance.requests, instance.release_s, strict=True) if t < last)
    return 0 < best(msgspec.structs.replace(instance, requests=early)) < last if early else False


def waiting_pays(instance: Instance) -> bool:
    """Not offline, and the arrivals make the optimum longer by less than the last of them."""
    requests = tuple(msgspec.structs.replace(r, arrival_s=0.0) for r in instance.requests)
    offline = best(msgspec.structs.replace(instance, requests=requests))
    return worse(best(instance), offline) and best(instance) < offline + max(instance.release_s)


SOON = (0.0, 0.005, 0.012, 0.02)
FAMILIES = (
    Family("alone", 1, draw(count=(1, 1), prompt=(5, 12), output=(3, 6)), always),
    Family("alone-one-output", 1, draw(count=(1, 1), output=(1, 1)), always),
    Family("alone-chunked", 1, draw(count=(1, 1), prompt=(9, 12), C=(2, 4)), chunking_forced),
    Family("alone-knees", 1, draw(count=(1, 1), prompt=(9, 12), cost=knees), pays("no-chunk")),
    Family("one-output", 2, draw(count=(4, 4), output=(1, 1), room=(1.0, 1.6)), memory_binds),
    Family("mixed", 4, draw(count=(3, 3), prompt=(1, 12), room=(1.0, 1.5)), memory_binds),
    Family("alike", 2, draw(count=(4, 4), prompt=(1, 6), alike=True), memory_binds),
    Family("four", 2, draw(count=(4, 4), prompt=(1, 6), room=(1.2, 2.0)), memory_binds),
    Family("chunk-forced-batch", 2, draw(prompt=(4, 9), C=(2, 5)), chunking_forced),
    Family("chunk-forced-prefill", 2, draw(prompt=(4, 9), P=(1, 4)), chunking_forced),
    Family("chunk-pays-batch", 2, draw(C=(6, 12), output=(2, 4)), pays("no-chunk")),
    Family("chunk-pays-knees", 3, draw(cost=knees, prompt=(2, 9)), pays("no-chunk")),
    Family("chunk-pays-arrivals", 1, draw(cost=knees, arrivals=SOON), pays("no-chunk")),
    Family("chunk-neutral", 2, draw(prompt=(2, 9), output=(2, 5)), neutral("no-chunk")),
    Family("pages", 4, draw(block=(2, 3, 4), count=(3, 3)), binds(block_tokens=1)),
    Family("knees", 3, draw(cost=knees, count=(3, 3), output=(2, 5)), knees_bind),
    Family("fixed-costs", 2, draw(cost=fixed_costs, count=(3, 3)), memory_binds),
    Family("hybrid-pays", 2, draw(output=(2, 5)), pays("no-hybrid")),
    Family(
        "hybrid-neutral", 1, draw(cost=fixed_costs, output=(2, 5), room=(1.0, 1.4)),
        neutral("no-hybrid"),
    ),
    Family("arrivals", 3, draw(count=(3, 3), arrivals=SOON), waiting_pays),
    Family("arrivals-idle", 1, draw(count=(3, 3), arrivals=(0.0, 0.01, 0.3)), machine_idles),
    Family("batch-requests", 2, draw(count=(3, 3), batch_requests=2), binds(batch_requests=None)),
    Family("prefill-limit", 1, draw(P=(6, 9), count=(3, 3)), binds(prefill_tokens=None)),
    Family("evict-pays", 3, draw(room=(1.0, 1.5), output=(2, 5)), pays("no-evict")),
    Family(
        "evict-pays-pages", 1, draw(room=(1.0, 1.5), output=(2, 5), block=(2, 3)),
        pays("no-evict"),
    ),
    Family(
        "evict-pays-four", 1, draw(count=(4, 4), prompt=(1, 4), room=(1.0, 1.5), output=(3, 4)),
        pays("no-evict"),
    ),
    Family("evict-neutral", 3, draw(output=(2, 5), count=(3, 3)), neutral("no-evict")),
    Family(
        "evict-neutral-dear", 1, draw(cost=dear_refills, output=(2, 5), prompt=(3, 8)),
        neutral("no-evict"),
    ),
    Family(
        "hold-pays-batch", 1, draw(count=(3, 3), prompt=(1, 4), output=(2, 5), C=(2, 4)),
        pays("no-hold"),
    ),
    Family(
        "hold-pays-fixed-costs", 1, draw(cost=fixed_costs, output=(2, 5), room=(1.0, 1.6)),
        pays("no-hold"),
    ),
    Family(
        "everything", 3,
        draw(
            cost=knees, count=(3, 3), output=(2, 4), arrivals=SOON, room=(1.0, 1.5), block=(1, 2),
            C=(4, 8), P=(2, 5), batch_requests=2,
        ),
        all_of(memory_binds, pays("no-evict")),
    ),
)  # fmt: skip


def instances() -> Iterator[Instance]:
    """All instances in the order of the families, named ``family-01`` and so on."""
    for family in FAMILIES:
        rng = random.Random(family.name)
        found = 0
        for _ in range(ATTEMPTS):
            instance = family.draw(rng)
            try:
                keep = family.claim(instance)
            except UnsupportedError:  # too large for the search
                continue
            if keep:
                found += 1
                yield msgspec.structs.replace(instance, name=f"{family.name}-{found:02d}")
            if found == family.count:
                break
        else:
            raise RuntimeError(f"{family.name}: {found} of {family.count} in {ATTEMPTS} draws")


def solved() -> Iterator[tuple[Instance, float, Schedule]]:
    """Every instance with its least makespan in seconds and a schedule that has it."""
    for instance in instances():
        makespan_s, schedule = optimum(instance)
        yield instance, makespan_s, schedule


def main() -> None:
    """Write the files, or list the instances."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--list", action="store_true", help="print the optima, write nothing")
    if parser.parse_args().list:
        for instance, makespan_s, schedule in solved():
            print(instance.name, makespan_s, schedule.batch_count, schedule.evictions)
        return
    FOLDER.mkdir(exist_ok=True)
    for instance in instances():
        write_instance(instance, FOLDER / f"{instance.name}.json")


if __name__ == "__main__":
    main()
