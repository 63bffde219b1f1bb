"""Where a schedule's distance from the bound comes from, term by term.

With g the token time, X = sum(I + O - 1) the tokens that every schedule processes, r_j the tokens
that batch j processes again after evictions, N the schedule's batches and N0 a number that every
schedule has, the makespan is the sum of

    base              N0 g(X / N0), attention of whole first fills and of decodes, p0 per
                      batch that prompts need at least
    batch overhead    N g(X / N) - N0 g(X / N0)
    uneven batches    sum g(n_j - r_j) - N g(X / N): tokens above a knot in some batches, room
                      below it in others (none with one affine piece)
    refills           sum g(n_j) - g(n_j - r_j), and the attention of refills beyond the decodes
                      that they replace
    chunks            attention of first fills beyond that of whole ones
    setups            d0 and p0 beyond those in the base
    swaps, idle       time to copy KV; time in which no batch runs

and the bound is the base plus what it proves to be unavoidable of these. The batch overhead is
split by what filled the memory badly: N - A / M, with A / M the batches that the token events of
memory M need, is the sum over batches of the fraction of M that generates nothing.
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from optsched.bounds import Bound
from optsched.instance import Instance
from optsched.report.refills import (
    ProcessRuns,
    prefill_attention,
    process_runs,
    repeated_tokens,
)
from optsched.schedule import Kind, Schedule
from optsched.simulate import Loads, loads
from optsched.trace import Trace

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

_NOISE = 1e-12  # of the makespan: what sums of doubles leave of a term that is zero
_FULL = 0.95  # of the peak KV: the ramp-up ends when it is first reached


class GapTerm(msgspec.Struct, frozen=True, kw_only=True):
    """One term: seconds, and what they are of the bound; ``part_of`` names the term it splits."""

    name: str
    seconds: float
    of_bound: float
    part_of: str | None = None
    about: str = ""


def explain_gap(
    instance: Instance,
    schedule: Schedule,
    trace: Trace,
    bound: Bound,
    best_known_s: float | None = None,
) -> tuple[GapTerm, ...]:
    """Terms that add up to makespan - bound; those with ``part_of`` split another one.

    Parameters
    ----------
    best_known_s : float, optional
        Makespan of the best schedule known: no scheduler is to blame for what lies below it.

    Raises
    ------
    UnsupportedError
        A request makes calls.
    """
    cost, load = instance.cost, loads(instance, schedule)
    runs = process_runs(instance, schedule)
    size = schedule.batch_count
    again = repeated_tokens(runs, size)
    necessary = float(instance.final_tokens.sum())
    least = bound.batches
    balanced = size * float(cost.token_time(necessary / size))
    least_balanced = least * float(cost.token_time(necessary / least))
    lean = float(cost.token_time(load.tokens - again).sum())
    tokens = float(cost.token_time(load.tokens).sum())
    whole, decoded = _necessary_attention(instance)
    first = _first_fill_attention(instance, schedule, runs, load)
    attention = _attention(instance, load)
    prompts = -(-int(instance.prompt_tokens.sum()) // instance.limits.fill_tokens)
    setups = cost.d0 * float((load.decodes > 0).sum()) + cost.p0 * float((load.prefills > 0).sum())
    busy = float((trace.end_s - trace.start_s).sum())
    base = least_balanced + whole + decoded + cost.p0 * prompts
    overhead = balanced - least_balanced
    amounts = {
        "batch overhead": (overhead, f"{size} batches where {least} are proven necessary"),
        "uneven batches": (lean - balanced, "tokens above a knot of the batch time"),
        "refills": (
            tokens - lean + attention - first - decoded,
            f"{int(again.sum())} tokens processed again after {schedule.evictions} evictions",
        ),
        "chunks": (first - whole, "cached prompt read again for every further chunk"),
        "setups": (setups - cost.p0 * prompts, "d0 and p0"),
        "swaps": (cost.swap_tok * float(load.swapped_tokens.sum()), ""),
        "idle": (trace.makespan_s - busy, "no batch runs"),
        "unavoidable": (base - bound.value_s, f"part of the above that {bound.proof} proves"),
    }
    terms = [
        GapTerm(name=name, seconds=s, of_bound=s / bound.value_s, about=about)
        for name, (s, about) in amounts.items()
        if abs(s) > _NOISE * trace.makespan_s
    ]
    for name, share in _reasons(instance, schedule, trace, load).items():
        part = overhead * share
        terms.append(
            GapTerm(
                name=name, seconds=part, of_bound=part / bound.value_s, part_of="batch overhead"
            )
        )
    if best_known_s is not None:
        open_s = best_known_s - bound.value_s
        terms.append(
            GapTerm(
                name="open", seconds=open_s, of_bound=open_s / bound.value_s, part_of="gap",
                about="between the bound and the best schedule known",
            )
        )  # fmt: skip
    return tuple(terms)


def _necessary_attention(instance: Instance) -> tuple[float, float]:
    """Attention of whole first fills, and of one decode for every further token."""
    cost = instance.cost
    prompt, output = (
        a.astype(np.float64) for a in (instance.prompt_tokens, instance.output_tokens)
    )
    whole = float(cost.prefill_time(prompt, 0.0).sum())
    steps = output - 1
    cached = steps * prompt + steps * (steps - 1) / 2
    return whole, float((cost.d_kv * cached + cost.d_req * steps).sum())


def _first_fill_attention(
    instance: Instance, schedule: Schedule, runs: ProcessRuns, load: Loads
) -> float:
    """Attention of the fills that end in first tokens; a fill that an eviction cuts short is
    repeated, so it counts as a refill's."""
    prompt = instance.prompt_tokens[runs.request]
    begun = np.zeros(len(instance), dtype=np.int64)
    evict = schedule.kind == Kind.EVICT
    early = evict & (schedule.first_batch < load.first_token_batch[schedule.request])
    np.maximum.at(begun, schedule.request[early], schedule.first_batch[early])
    batch = runs.first + 1
    of = np.flatnonzero(
        (batch > begun[runs.request]) & (batch <= load.first_token_batch[runs.request])
    )
    below = prompt[of] - runs.before[of]
    steps = np.minimum(runs.batches[of], -(-below // runs.tokens[of]))
    parts = prefill_attention(instance.cost, runs.tokens[of], runs.before[of], steps)
    return float(parts.sum())


def _attention(instance: Instance, load: Loads) -> float:
    cost = instance.cost
    return float(
        cost.d_kv * load.decode_cached.sum()
        + cost.d_req * load.decodes.sum()
        + cost.p_sq * load.prefill_square.sum()
        + cost.mixed * load.prefill_cross.sum()
        + cost.p_kv * load.prefill_cached.sum()
        + cost.p_req * load.prefills.sum()
    )


def _reasons(instance: Instance, schedule: Schedule, trace: Trace, load: Loads) -> dict[str, float]:
    """Shares of the batch overhead, by what kept memory from generating tokens."""
    capacity = float(instance.limits.kv_tokens)
    generating = _generating(instance, schedule, load)
    held = np.maximum(load.kv_tokens - generating, 0.0) / capacity
    empty = np.maximum(capacity - load.kv_tokens, 0.0) / capacity
    batch = np.arange(1, schedule.batch_count + 1)
    full = int(np.argmax(load.kv_tokens >= _FULL * load.kv_tokens.max()))
    up = batch <= full
    down = batch > int(load.first_token_batch.max())
    limit = load.tokens >= instance.limits.batch_tokens
    limit |= (load.prefills > 0) & (load.tokens >= instance.limits.fill_tokens)
    arrived = np.searchsorted(np.sort(instance.release_s), trace.start_s, side="right")
    started = np.searchsorted(np.sort(load.first_batch), batch, side="right")
    none_waiting = arrived <= started
    masks: dict[str, BoolArray] = {
        "ramp-down": down,
        "ramp-up": up & ~down,
        "no request waiting": none_waiting & ~up & ~down,
        "token budget": limit & ~none_waiting & ~up & ~down,
        "memory under-filled": ~limit & ~none_waiting & ~up & ~down,
    }
    amounts = {name: float(empty[mask].sum()) for name, mask in masks.items()}
    amounts["held without progress"] = float(held.sum())
    total = sum(amounts.values())
    return {name: amount / total for name, amount in amounts.items() if amount > 0}


def _generating(instance: Instance, schedule: Schedule, load: Loads) -> FloatArray:
    """KV of the requests that generate a token in each batch, shape ``(batches,)``."""
    size = schedule.batch_count
    amount = (load.decode_cached + load.decodes).astype(np.float64)
    np.add.at(amount, load.first_token_batch - 1, instance.prompt_tokens)
    runs = process_runs(instance, schedule)
    # A refill of c > 1 tokens per batch ends in the batch that first passes the frontier.
    ends = np.flatnonzero(
        (runs.tokens > 1)
        & (runs.frontier >= instance.prompt_tokens[runs.request])
        & (runs.before + runs.batches * runs.tokens > runs.frontier)
    )
    known = runs.frontier[ends] + 1
    at = runs.first[ends] + -(-(known - runs.before[ends]) // runs.tokens[ends]) - 1
    np.add.at(amount, np.minimum(at, size - 1), known)
    return amount
