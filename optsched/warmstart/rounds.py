"""Rounds: fill some requests, hold them, then let all of them decode together.

Filling and decoding apart lets every batch have the size that suits it: fills are cut so that each
batch is as full as ``batch_tokens`` allows, and decodes run in few large batches without a ramp.
That is hard to beat where memory holds whole rounds and outputs are short (bounds, "prefill first,
hold, then decode").
"""

from __future__ import annotations

import numpy as np

from optsched.instance import Instance, IntArray
from optsched.schedule import Kind, Schedule
from optsched.warmstart.groups import Preference, grouped


def rounds(instance: Instance, batch_tokens: int, most: int, preference: Preference) -> Schedule:
    """Requests in the order of ``preference``, in rounds.

    Parameters
    ----------
    batch_tokens : int
        Prompt tokens of a batch, where that is less than min(C, P).
    most : int
        Requests of a round; fewer where M, C or ``batch_requests`` do not allow as many.
    """
    limits = instance.limits
    order = np.array([r for m in grouped(instance, preference).members for r in m])
    pages = -(-instance.final_tokens[order] // limits.block_tokens)
    most = min(most, limits.batch_tokens, limits.batch_requests or most)
    fill = min(batch_tokens, limits.fill_tokens)
    batch, first, runs = 1, 0, []
    while first < order.size:
        used = np.cumsum(pages[first : first + most])
        count = int(np.searchsorted(used, limits.kv_tokens // limits.block_tokens, side="right"))
        chosen = order[first : first + count]
        filled, batch = _fills(instance, chosen, batch, fill, limits.batch_requests)
        long = chosen[instance.output_tokens[chosen] > 1]
        steps = instance.output_tokens[long] - 1
        decodes = np.stack([long, np.full_like(long, batch), steps, np.ones_like(long)])
        runs += [filled, decodes]
        batch += int(steps.max(initial=0))
        first += count
    request, start, batches, tokens = np.concatenate(runs, axis=1)
    kind = np.full(request.size, int(Kind.PROCESS))
    return Schedule(
        request=request, kind=kind, first_batch=start, batches=batches, tokens=tokens
    ).merged()


def _fills(
    instance: Instance, chosen: IntArray, batch: int, fill: int, requests: int | None
) -> tuple[IntArray, int]:
    """Runs (request, batch, 1, tokens) of back-to-back fills as columns, and the next batch.

    Batches of ``fill`` prompt tokens are cut out of the prompts laid end to end; where the number
    of requests is limited too, a batch closes early.
    """
    runs, free, steps = [], fill, 0
    for request, prompt in zip(
        chosen.tolist(), instance.prompt_tokens[chosen].tolist(), strict=True
    ):
        left = prompt
        while left:
            if not free or steps == requests:
                batch, free, steps = batch + 1, fill, 0
            tokens = min(left, free)
            runs.append((request, batch, 1, tokens))
            left, free, steps = left - tokens, free - tokens, steps + 1
    return np.array(runs, dtype=np.int64).T, batch + 1
