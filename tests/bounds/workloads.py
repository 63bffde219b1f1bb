"""Instances that the tests of bounds share."""

from __future__ import annotations

from optsched.cost import CostModel
from optsched.instance import Instance, Limits, Request
from optsched.io.presets import preset

UNIT = CostModel(pieces=((1.0, 0.0),))  # the makespan is the number of batches


def shaped(
    shapes: list[tuple[int, int]], cost: CostModel = UNIT, *, kv_tokens: int = 1000,
    batch_tokens: int = 4096, prefill_tokens: int | None = None,
    batch_requests: int | None = None, block_tokens: int = 1,
) -> Instance:  # fmt: skip
    """One request per (I, O) of ``shapes``."""
    limits = Limits(
        kv_tokens=kv_tokens, batch_tokens=batch_tokens, prefill_tokens=prefill_tokens,
        batch_requests=batch_requests, block_tokens=block_tokens,
    )  # fmt: skip
    requests = tuple(
        Request(id=f"r{k}", prompt_tokens=i, output_tokens=o) for k, (i, o) in enumerate(shapes)
    )
    return Instance(name="shaped", limits=limits, cost=cost, requests=requests)


def uniform(count: int, prompt: int, output: int, kv_tokens: int, name: str = "study") -> Instance:
    """``count`` equal requests under the preset ``name`` and its batch size."""
    chosen = preset(name)
    return shaped(
        [(prompt, output)] * count, chosen.cost,
        kv_tokens=kv_tokens, batch_tokens=chosen.batch_tokens,
    )  # fmt: skip
