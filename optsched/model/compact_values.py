"""What a schedule gives every column of the compact formulation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optsched.errors import ScheduleError, UnsupportedError
from optsched.instance import Instance
from optsched.model.compact_calls import call_values
from optsched.model.contexts import calls_of, contexts
from optsched.model.milp import FloatArray, IntArray
from optsched.schedule import Kind, Schedule

Values = dict[str, NDArray[Any]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Actions:
    """What every request does in every batch, int arrays of shape ``(requests, batches)``:
    the tokens that it processes, and 1 where it is evicted, swapped out or swapped in."""

    tokens: IntArray
    evicts: IntArray
    swap_outs: IntArray
    swap_ins: IntArray

    def of(self, order: IntArray) -> Actions:
        """The actions of those requests."""
        return Actions(
            tokens=self.tokens[order], evicts=self.evicts[order],
            swap_outs=self.swap_outs[order], swap_ins=self.swap_ins[order],
        )  # fmt: skip


def actions(instance: Instance, schedule: Schedule, batches: int, *, swapping: bool) -> Actions:
    """The actions of a schedule.

    Raises
    ------
    UnsupportedError
        The schedule swaps though that is not possible, waits deliberately or has more than
        ``batches`` batches.
    """
    if schedule.wait_batch.size:
        raise UnsupportedError("the compact formulation has no deliberate waits")
    swaps = (schedule.kind == Kind.SWAP_IN) | (schedule.kind == Kind.SWAP_OUT)
    if swaps.any() and not swapping:
        raise UnsupportedError("the schedule swaps, which is ruled out")
    if schedule.batch_count > batches:
        raise UnsupportedError(
            f"the schedule has {schedule.batch_count} batches, the formulation {batches}",
            hint="give it a horizon from an upper bound that is no less than its makespan",
        )
    done = {kind: np.zeros((len(instance), batches), dtype=np.int64) for kind in Kind}
    columns = (
        schedule.request, schedule.kind, schedule.first_batch, schedule.batches, schedule.tokens
    )  # fmt: skip
    for request, kind, first, count, size in zip(*(c.tolist() for c in columns), strict=True):
        what = size if kind == Kind.PROCESS else 1
        done[Kind(kind)][request, first - 1 : first - 1 + count] = what
    return Actions(
        tokens=done[Kind.PROCESS], evicts=done[Kind.EVICT],
        swap_outs=done[Kind.SWAP_OUT], swap_ins=done[Kind.SWAP_IN],
    )  # fmt: skip


def values(instance: Instance, does: Actions, time_unit_s: float) -> Values:
    """Arrays of the names and shapes of :func:`optsched.model.compact_columns.build_columns`,
    without those of the clock.

    Raises
    ------
    ScheduleError
        A request is not finished in the end.
    """
    found = _base(instance, does)
    unfinished = np.flatnonzero(found["done"][:, -1] == 0)
    if unfinished.size:
        raise ScheduleError(
            f"the schedule does not finish request {instance.requests[unfinished[0]].id!r}"
        )
    calls = call_values(
        calls_of(instance), found["known"], does.tokens, does.evicts, does.swap_outs
    )
    return {**found, **_batches(instance, found, time_unit_s), **_prices(instance, found),
            **_stages(instance, found), **calls}  # fmt: skip


def _base(instance: Instance, does: Actions) -> Values:
    """The state of every request at every boundary, batch after batch."""
    tokens, evicts = does.tokens, does.evicts
    requests, batches = tokens.shape
    prompt, sizes, each = instance.prompt_tokens, contexts(instance).known, np.arange(requests)
    known, generated, cached, partial, kept, away, done = np.zeros(
        (7, requests, batches + 1), dtype=np.int64
    )
    generates, decodes = np.zeros((2, requests, batches), dtype=np.int64)
    kv_after = np.zeros((requests, batches), dtype=np.int64)
    known[:, 0] = prompt
    for j in range(batches):
        s, m, c, gone = known[:, j], cached[:, j], tokens[:, j], evicts[:, j] > 0
        runs = c > 0
        generates[:, j] = runs & (m + c == s)
        decodes[:, j] = runs & (c == 1) & (m == s - 1) & (m >= prompt)
        generated[:, j + 1] = generated[:, j] + generates[:, j]
        known[:, j + 1] = sizes[each, generated[:, j + 1]]
        finished = generated[:, j + 1] == instance.output_tokens
        away[:, j + 1] = (away[:, j] + does.swap_outs[:, j] - does.swap_ins[:, j]) * ~gone
        after = np.where(gone, 0, m + c)
        kv_after[:, j] = after * (1 - away[:, j + 1])
        cached[:, j + 1] = np.where(finished, 0, after)
        unfinished_fill = np.where(runs, generates[:, j] == 0, partial[:, j] > 0)
        partial[:, j + 1] = unfinished_fill & (cached[:, j + 1] > 0)
        kept[:, j + 1] = ((generates[:, j] > 0) | (kept[:, j] > 0)) & ~gone & ~finished
        done[:, j + 1] = finished
    swaps = does.swap_outs + does.swap_ins
    return {
        "known": known, "generated": generated, "cached": cached, "partial": partial,
        "kept": kept, "done": done, "tokens": tokens, "evicts": evicts, "generates": generates,
        "decodes": decodes, "prefills": (tokens > 0) - decodes,
        "pages": -(-kv_after // instance.limits.block_tokens),
        "away": away, "swapped": cached * away, "swap_outs": does.swap_outs,
        "swap_ins": does.swap_ins, "moved": cached[:, :-1] * swaps,
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
    at = (found["generated"][:, None, :] == k) & (found["done"] == 0)[:, None, :]
    resident = at & (found["kept"] > 0)[:, None, :]
    here, full = at[:, :, :-1], resident[:, :, :-1]
    generates, decodes, prefills, evicts, outs, ins = (
        (found[name] > 0)[:, None, :]
        for name in ("generates", "decodes", "prefills", "evicts", "swap_outs", "swap_ins")
    )
    return {
        "absent": at & ~resident, "resident": resident,
        "fills": here & ~full & generates & prefills, "refill_decodes": here & ~full & decodes,
        "appends": full & generates & prefills,
        "stage_decodes": full & decodes, "stage_evicts": full & evicts,
        "stage_away": resident & (found["away"] > 0)[:, None, :],
        "stage_outs": full & outs, "stage_ins": full & ins,
    }  # fmt: skip


def fill_point(point: FloatArray, index: dict[str, IntArray], found: Values) -> None:
    """Set column ``index[name][at]`` of ``point`` to ``found[name][at]``, where both are there."""
    for name, positions in index.items():
        if name in found:
            value = found[name][..., : positions.shape[-1]]  # a count may need fewer binary digits
            has = positions >= 0
            point[positions[has]] = value[has]
