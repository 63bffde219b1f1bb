"""Small schedules written by hand, shared by the tests of loads, clock and metrics."""

from __future__ import annotations

from optsched.cost import CostModel
from optsched.instance import Call, Instance, Limits, Request
from optsched.io.presets import preset
from optsched.schedule import Kind, Schedule
from tests.simulate.random_schedules import from_rows

UNIT = CostModel(pieces=((1.0, 0.0),))


def instance_of(
    *requests: Request, cost: CostModel = UNIT, block_tokens: int = 1, host_kv_tokens: int = 0
) -> Instance:
    """An instance whose limits do not bind."""
    limits = Limits(
        kv_tokens=10_000, batch_tokens=4096, block_tokens=block_tokens,
        host_kv_tokens=host_kv_tokens,
    )  # fmt: skip
    return Instance(name="example", limits=limits, cost=cost, requests=requests)


def request(
    name: str, prompt: int, output: int, *calls: tuple[int, float, int], arrival: float = 0.0
) -> Request:
    """A request; calls as (after_tokens, duration_s, response_tokens)."""
    return Request(
        id=name,
        prompt_tokens=prompt,
        output_tokens=output,
        arrival_s=arrival,
        calls=tuple(Call(after_tokens=k, duration_s=d, response_tokens=r) for k, d, r in calls),
    )


def process(which: int, first_batch: int, *tokens: int) -> list[tuple[int, int, int, int, int]]:
    """One process run per entry of ``tokens``, in consecutive batches."""
    return [(which, Kind.PROCESS, first_batch + k, 1, c) for k, c in enumerate(tokens)]


def action(which: int, kind: Kind, batch: int) -> list[tuple[int, int, int, int, int]]:
    """One evict, swap out or swap in."""
    return [(which, kind, batch, 1, 0)]


def two() -> tuple[Instance, Schedule]:
    """The smallest instance of the problem's section 8, with room for both, FCFS.

    r0 runs alone, r1 joins when it arrives, calls a tool after 2 tokens and holds its KV.
    """
    instance = instance_of(
        request("r0", 8, 4), request("r1", 8, 4, (2, 0.1, 5), arrival=0.02),
        cost=preset("study").cost,
    )  # fmt: skip
    return instance, from_rows([*process(0, 1, 8, 1, 1, 1), *process(1, 3, 8, 1, 6, 1)])
