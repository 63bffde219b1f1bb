"""What a schedule gives every column of the compact formulation."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from optsched.errors import ScheduleError, UnsupportedError
from optsched.instance import Instance
from optsched.model.milp import FloatArray, IntArray
from optsched.schedule import Kind, Schedule

Values = dict[str, NDArray[Any]]


def actions(instance: Instance, schedule: Schedule, batches: int) -> tuple[IntArray, IntArray]:
    """Tokens processed and evictions of every request in every batch, ``(requests, batches)``.

    Raises
    ------
    UnsupportedError
        The schedule swaps, waits deliberately or has more than ``batches`` batches.
    """
    if schedule.wait_batch.size:
        raise UnsupportedError("the compact formulation has no deliberate waits")
    swaps = (schedule.kind == Kind.SWAP_IN) | (schedule.kind == Kind.SWAP_OUT)
    if swaps.any():
        raise UnsupportedError("the compact formulation does not swap")
    if schedule.batch_count > batches:
        raise UnsupportedError(
            f"the schedule has {schedule.batch_count} batches, the formulation {batches}",
            hint="give it a horizon from an upper bound that is no less than its makespan",
        )
    tokens = np.zeros((len(instance), batches), dtype=np.int64)
    evicts = np.zeros_like(tokens)
    columns = (
        schedule.request, schedule.kind, schedule.first_batch, schedule.batches, schedule.tokens
    )  # fmt: skip
    for request, kind, first, count, size in zip(*(c.tolist() for c in columns), strict=True):
        if kind == Kind.PROCESS:
            tokens[request, first - 1 : first - 1 + count] = size
        else:
            evicts[request, first - 1] = 1
    return tokens, evicts


def values(instance: Instance, tokens: IntArray, evicts: IntArray, time_unit_s: float) -> Values:
    """Arrays of the names and shapes of :func:`optsched.model.compact_columns.build_columns`,
    without those of the clock.

    Raises
    ------
    ScheduleError
        A request is not finished in the end.
    """
    found = _base(instance, tokens, evicts)
    unfinished = np.flatnonzero(found["done"][:, -1] == 0)
    if unfinished.size:
        raise ScheduleError(
            f"the schedule does not finish request {instance.requests[unfinished[0]].id!r}"
        )
    return {**found, **_batches(instance, found, time_unit_s), **_prices(instance, found),
            **_stages(instance, found)}  # fmt: skip


def _base(instance: Instance, tokens: IntArray, evicts: IntArray) -> Values:
    """The state of every request at every boundary, batch after batch."""
    requests, batches = tokens.shape
    prompt, last = instance.prompt_tokens, instance.prompt_tokens + instance.output_tokens
    known, cached, partial, done = np.zeros((4, requests, batches + 1), dtype=np.int64)
    generates, decodes = np.zeros((2, requests, batches), dtype=np.int64)
    kv_after = np.zeros((requests, batches), dtype=np.int64)
    known[:, 0] = prompt
    for j in range(batches):
        s, m, c = known[:, j], cached[:, j], tokens[:, j]
        runs = c > 0
        generates[:, j] = runs & (m + c == s)
        decodes[:, j] = runs & (c == 1) & (m == s - 1) & (m >= prompt)
        known[:, j + 1] = s + generates[:, j]
        finished = known[:, j + 1] == last
        kv_after[:, j] = np.where(evicts[:, j] > 0, 0, m + c)
        cached[:, j + 1] = np.where(finished, 0, kv_after[:, j])
        unfinished_fill = np.where(runs, generates[:, j] == 0, partial[:, j] > 0)
        partial[:, j + 1] = unfinished_fill & (cached[:, j + 1] > 0)
        done[:, j + 1] = finished
    return {
        "known": known, "cached": cached, "partial": partial, "done": done, "tokens": tokens,
        "evicts": evicts, "generates": generates, "decodes": decodes,
        "prefills": (tokens > 0) - decodes, "pages": -(-kv_after // instance.limits.block_tokens),
    }  # fmt: skip


def _batches(instance: Instance, found: Values, time_unit_s: float) -> Values:
    tokens: IntArray = found["tokens"].sum(axis=0)
    used = tokens > 0
    return {
        "used": used,
        "decode_batch": found["decodes"].max(axis=0),
        "prefill_batch": found["prefills"].max(axis=0),
        "time": np.where(used, instance.cost.token_time(tokens), 0.0) / time_unit_s,
    }


def _prices(instance: Instance, found: Values) -> Values:
    """The columns that carry attention: lengths and squares of fills and of chunks."""
    known, cached = found["known"][:, :-1], found["cached"][:, :-1]
    decodes, prefills, generates = found["decodes"], found["prefills"], found["generates"]
    ends = found["partial"][:, :-1] * (decodes + found["evicts"])
    fill = known * prefills * generates + cached * ends
    chunk = found["tokens"] - decodes
    priced: Values = {"decode_kv": cached * decodes, "prefill_kv": cached * prefills, "fill": fill}
    for name, count in (("fill", fill), ("chunk", chunk)):
        bits = np.arange(int(instance.final_tokens.max()).bit_length())
        digit = (count[:, :, None] >> bits) & 1
        priced[f"{name}_square"] = count**2
        priced[f"{name}_digit"] = digit
        priced[f"{name}_cut"] = digit * count[:, :, None]
    digit = priced["chunk_digit"]
    priced["cross_cut"] = digit * cached[:, :, None]
    priced["cross"] = chunk * cached
    return priced


def _stages(instance: Instance, found: Values) -> Values:
    """The columns of the strengthening, ``(requests, k, boundaries or batches)``."""
    k = np.arange(int(instance.output_tokens.max()))[None, :, None]
    generated = (found["known"] - instance.prompt_tokens[:, None])[:, None, :]
    at = (generated == k) & (found["done"] == 0)[:, None, :]
    resident = at & ((found["cached"] > 0) & (found["partial"] == 0))[:, None, :]
    here, full = at[:, :, :-1], resident[:, :, :-1]
    generates, decodes, prefills, evicts = (
        (found[name] > 0)[:, None, :] for name in ("generates", "decodes", "prefills", "evicts")
    )
    return {
        "absent": at & ~resident, "resident": resident,
        "fills": here & generates & prefills, "refill_decodes": here & ~full & decodes,
        "stage_decodes": full & decodes, "stage_evicts": full & evicts,
    }  # fmt: skip


def fill_point(point: FloatArray, index: dict[str, IntArray], found: Values) -> None:
    """Set column ``index[name][at]`` of ``point`` to ``found[name][at]``, where both are there."""
    for name, positions in index.items():
        if name in found:
            value = found[name][..., : positions.shape[-1]]  # a count may need fewer binary digits
            has = positions >= 0
            point[positions[has]] = value[has]
