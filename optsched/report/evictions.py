"""What each eviction cost: tokens processed again, and seconds."""

from __future__ import annotations

import msgspec
import numpy as np

from optsched.instance import Instance
from optsched.report.refills import IntArray, ProcessRuns, prefill_attention, process_runs
from optsched.schedule import Kind, Schedule
from optsched.simulate import loads


class EvictionCost(msgspec.Struct, frozen=True, kw_only=True):
    """One eviction.

    Parameters
    ----------
    request : str
        Who was evicted.
    batch, refilled_batch : int
        When, and the batch in which its next token was generated.
    tokens : int
        Cached tokens that were processed again.
    seconds : float
        Time that these tokens and the attention of the refill added to their batches, less that
        of the decode which the refill replaces.
    """

    request: str
    batch: int
    refilled_batch: int
    tokens: int
    seconds: float


def eviction_costs(instance: Instance, schedule: Schedule) -> tuple[EvictionCost, ...]:
    """Every eviction, the dearest first.

    The seconds of several refills in one batch are each what the batch would save without that
    refill alone; with several affine pieces they need not add up.

    Raises
    ------
    UnsupportedError
        A request makes calls.
    """
    tokens = loads(instance, schedule).tokens
    runs = process_runs(instance, schedule)
    found, previous = [], (-1, 0)
    for at in np.flatnonzero(schedule.kind == Kind.EVICT).tolist():
        request, batch = int(schedule.request[at]), int(schedule.first_batch[at])
        since = previous[1] if previous[0] == request else 0
        found.append(_cost(instance, runs, tokens, request, batch, since))
        previous = (request, batch)
    return tuple(sorted(found, key=lambda e: -e.seconds))


def _cost(
    instance: Instance, runs: ProcessRuns, tokens: IntArray, request: int, batch: int, since: int
) -> EvictionCost:
    """Cost of the eviction of ``request`` in ``batch``; the one before it was in ``since``."""
    cost, prompt = instance.cost, int(instance.prompt_tokens[request])
    own = np.flatnonzero(runs.request == request)
    lost = own[(runs.first[own] >= since) & (runs.first[own] < batch)]
    later = own[runs.first[own] >= batch]
    frontier = int(runs.frontier[later[0]])
    repeated, seconds, level, last = 0, 0.0, 0, int(runs.first[later[0]])
    if frontier < prompt:
        # A first fill was cut short: what is repeated is its attention so far.
        seconds = float(
            prefill_attention(cost, runs.tokens[lost], runs.before[lost], runs.batches[lost]).sum()
        )
    for k in later.tolist():
        if runs.before[k] != level or level > frontier:
            break  # the fill has ended, or a further eviction cut it short
        c = int(runs.tokens[k])
        steps = min(int(runs.batches[k]), -(-(frontier + 1 - level) // c))
        if frontier >= prompt:
            alone = c == 1 and level + steps > frontier  # the last token is an ordinary decode
            chunks = (np.array([c]), np.array([level]), np.array([steps - alone]))
            seconds += float(prefill_attention(cost, *chunks).sum())
            if level + c * steps > frontier and not alone:
                seconds -= float(cost.decode_time(frontier))
        for last in range(int(runs.first[k]), int(runs.first[k]) + steps):
            extra = max(min(c, frontier - level), 0)
            saved = cost.token_time(tokens[last]) - cost.token_time(tokens[last] - extra)
            seconds, repeated, level = seconds + float(saved), repeated + extra, level + c
    return EvictionCost(
        request=instance.requests[request].id, batch=batch, refilled_batch=last + 1,
        tokens=repeated, seconds=seconds,
    )  # fmt: skip
