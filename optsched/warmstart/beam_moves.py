"""What one batch may do to the states of a beam: evictions, then fills, then decodes.

Every row is one way to go on from a state. Evictions and fills are added one at a time, in an
order that makes no set twice; then the residents decode as far as memory allows, those that must
hold being next to each other by size, which is tried from every resident on.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from optsched.cost import CostModel
from optsched.instance import IntArray
from optsched.warmstart.beam_kinds import FloatArray, Kinds

BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, eq=False)
class States:
    """The beam.

    Parameters
    ----------
    residents : int array, shape ``(states, slots)``
        Kinds that hold KV, ascending, then *none*.
    waiting : int array, shape ``(states, kinds + 1)``
        Requests of each kind that hold none.
    time_s : float array, shape ``(states,)``
        End of the last batch.
    left_s : float array, shape ``(states,)``
        Work and prices that are left.
    hash : uint64 array, shape ``(states,)``
    """

    residents: IntArray
    waiting: IntArray
    time_s: FloatArray
    left_s: FloatArray
    hash: NDArray[np.uint64]

    def take(self, states: IntArray) -> States:
        """Some of the states."""
        return States(**{f.name: getattr(self, f.name)[states] for f in fields(self)})


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """Ways to go on: columns of shape ``(rows,)``, and per slot or fill.

    Parameters
    ----------
    parent : int array
        The state.
    free : int array
        Pages left.
    left_s : float array
        Work and prices that are left.
    attention_s : float array
        Attention and per-request part of the batch so far.
    tokens, processed : int array
        Tokens and requests of the batch so far.
    hash : uint64 array
    evicted, decoded : bool array, shape ``(rows, slots)``
    fills : int array, shape ``(rows, most fills)``
        Kinds filled, descending, then *none*.
    copies : int array
        How many of the last kind filled still wait.
    """

    parent: IntArray
    free: IntArray
    left_s: FloatArray
    attention_s: FloatArray
    tokens: IntArray
    processed: IntArray
    hash: NDArray[np.uint64]
    evicted: BoolArray
    decoded: BoolArray
    fills: IntArray
    copies: IntArray

    def take(self, rows: IntArray | BoolArray) -> Rows:
        """Some of the rows."""
        return Rows(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How much is tried per batch: most evictions and fills, and rows kept while they grow."""

    evictions: int
    fills: int
    rows: int


def ways_on(states: States, kinds: Kinds, effort: Effort, most_requests: int) -> Rows:
    """Batches that may follow the states; all of them keep every rule."""
    rows = _evictions(states, _start(states, kinds, effort), kinds, effort)
    rows = _fills(states, rows, kinds, effort, most_requests)
    found = _completed(states, _promising(states, rows, kinds, effort.rows), kinds, most_requests)
    if not found.parent.size:
        # All that seemed promising cannot be completed: try the others before giving up.
        found = _completed(states, rows, kinds, most_requests)
    return found


def _completed(states: States, rows: Rows, kinds: Kinds, most_requests: int) -> Rows:
    """Rows with their decodes, without those that process nothing, evict in vain or have too many
    residents afterwards."""
    rows = _decodes(states, rows, kinds, most_requests)
    evicted = np.where(rows.evicted, kinds.held[states.residents[rows.parent]], kinds.capacity + 1)
    needed = evicted.min(axis=1, initial=kinds.capacity + 1) > rows.free
    residents = states.residents[rows.parent]
    staying = np.where(rows.decoded, kinds.next[residents], residents) < kinds.none
    slots = (staying & ~rows.evicted).sum(axis=1) + (kinds.next[rows.fills] < kinds.none).sum(
        axis=1
    )
    return rows.take((rows.processed > 0) & needed & (slots <= rows.evicted.shape[1]))


def batch_s(rows: Rows, cost: CostModel) -> FloatArray:
    """Time of each row's batch, shape ``(rows,)``."""
    decodes, filled = rows.decoded.any(axis=1), rows.tokens > rows.decoded.sum(axis=1)
    weights = cost.token_time(rows.tokens)
    return np.asarray(weights + rows.attention_s + cost.d0 * decodes + cost.p0 * filled)


def followed(states: States, rows: Rows, time_s: FloatArray, kinds: Kinds) -> States:
    """The states that ``rows`` lead to."""
    residents = states.residents[rows.parent]
    stay = np.where(rows.decoded, kinds.next[residents], residents)
    stay = np.where(rows.evicted, kinds.none, stay)
    both = np.sort(np.concatenate((stay, kinds.next[rows.fills]), axis=1), axis=1)
    waiting = states.waiting[rows.parent]
    number = np.arange(rows.parent.size)[:, None]
    np.subtract.at(waiting, (number, rows.fills), 1)
    np.add.at(waiting, (number, np.where(rows.evicted, residents, kinds.none)), 1)
    waiting[:, kinds.none] = 0
    return States(
        residents=both[:, : residents.shape[1]], waiting=waiting, time_s=time_s,
        left_s=rows.left_s, hash=rows.hash,
    )  # fmt: skip


def _start(states: States, kinds: Kinds, effort: Effort) -> Rows:
    count, slots = states.residents.shape
    zeros = np.zeros(count, dtype=np.int64)
    return Rows(
        parent=np.arange(count), free=kinds.capacity - kinds.held[states.residents].sum(axis=1),
        left_s=states.left_s, attention_s=np.zeros(count), tokens=zeros, processed=zeros,
        hash=states.hash, evicted=np.zeros((count, slots), dtype=np.bool_),
        decoded=np.zeros((count, slots), dtype=np.bool_),
        fills=np.full((count, effort.fills), kinds.none), copies=zeros,
    )  # fmt: skip


def _evictions(states: States, rows: Rows, kinds: Kinds, effort: Effort) -> Rows:
    parts, slots = [rows], np.arange(rows.evicted.shape[1])
    for _ in range(effort.evictions):
        residents = states.residents[rows.parent]
        last = np.where(rows.evicted, slots + 1, 0).max(axis=1, initial=0)
        which, slot = np.nonzero((residents < kinds.none) & (slots >= last[:, None]))
        if not which.size:
            break
        kind = residents[which, slot]
        rows = rows.take(which)
        evicted = rows.evicted.copy()
        evicted[np.arange(which.size), slot] = True
        rows = replace(
            rows, evicted=evicted, free=rows.free + kinds.held[kind],
            left_s=rows.left_s + kinds.waiting_s[kind] - kinds.resident_s[kind],
            hash=rows.hash + kinds.waiting_hash[kind] - kinds.resident_hash[kind],
        )  # fmt: skip
        rows = _cheapest(rows, effort.rows)
        parts.append(rows)
    return _joined(parts)


def _fills(
    states: States, rows: Rows, kinds: Kinds, effort: Effort, most_requests: int
) -> Rows:  # fmt: skip
    parts = [rows]
    some = np.flatnonzero(states.waiting.any(axis=0))  # of all kinds few are waiting
    waiting, pages = states.waiting[:, some], kinds.after[some]
    for place in range(effort.fills):
        left = waiting[rows.parent]
        if place:
            last = rows.fills[:, place - 1, None]
            left = np.where(some < last, left, np.where(some == last, rows.copies[:, None], 0))
        fits = (left > 0) & (pages <= rows.free[:, None])
        fits &= (rows.processed < most_requests)[:, None]
        which, column = np.nonzero(fits)
        if not which.size:
            break
        kind = some[column]
        copies = left[which, column] - 1
        rows = rows.take(which)
        fills = rows.fills.copy()
        fills[:, place] = kind
        then = kinds.next[kind]
        rows = replace(
            rows, fills=fills, copies=copies, free=rows.free - kinds.after[kind],
            left_s=rows.left_s - kinds.waiting_s[kind] + kinds.resident_s[then],
            attention_s=rows.attention_s + kinds.fill_s[kind],
            tokens=rows.tokens + kinds.fill_tokens[kind], processed=rows.processed + 1,
            hash=rows.hash - kinds.waiting_hash[kind] + kinds.resident_hash[then],
        )  # fmt: skip
        rows = _cheapest(rows, effort.rows)
        parts.append(rows)
    return _joined(parts)


def _decodes(states: States, rows: Rows, kinds: Kinds, most_requests: int) -> Rows:
    residents = np.where(rows.evicted, kinds.none, states.residents[rows.parent])
    grows = kinds.after[residents] - kinds.held[residents]
    room = most_requests - rows.processed
    running = (residents < kinds.none).sum(axis=1)
    all_fit = (grows.sum(axis=1) <= rows.free) & (running <= room)
    slots = np.arange(residents.shape[1])
    used = np.maximum((states.residents[rows.parent] < kinds.none).sum(axis=1), 1)
    starts = np.where(all_fit, 1, used)
    which = np.repeat(np.arange(starts.size), starts)
    first = np.arange(which.size) - np.repeat(starts.cumsum() - starts, starts)
    order = np.where(
        slots < used[which, None], (slots + first[:, None]) % used[which, None], slots
    )  # fmt: skip
    kind = np.take_along_axis(residents[which], order, axis=1)
    real = kind < kinds.none
    fits = np.cumsum(kinds.after[kind] - kinds.held[kind], axis=1) <= rows.free[which, None]
    fits &= real & (np.cumsum(real, axis=1) <= room[which, None])
    decoded = np.zeros_like(fits)
    np.put_along_axis(decoded, order, fits, axis=1)
    rows, kind = rows.take(which), np.where(decoded, residents[which], kinds.none)
    then = kinds.next[kind]
    count = decoded.sum(axis=1)
    return replace(
        rows, decoded=decoded, free=rows.free - (kinds.after[kind] - kinds.held[kind]).sum(axis=1),
        left_s=rows.left_s + (kinds.resident_s[then] - kinds.resident_s[kind]).sum(axis=1),
        attention_s=rows.attention_s + kinds.decode_s[kind].sum(axis=1),
        tokens=rows.tokens + count, processed=rows.processed + count,
        hash=rows.hash + (kinds.resident_hash[then] - kinds.resident_hash[kind]).sum(axis=1),
    )  # fmt: skip


def _promising(states: States, rows: Rows, kinds: Kinds, most: int) -> Rows:
    """At most ``most`` rows: the best if as many residents decode as there are free pages."""
    if rows.parent.size <= most:
        return rows
    kind = np.where(rows.evicted, kinds.none, states.residents[rows.parent])
    earned = kinds.resident_s[kind] - kinds.resident_s[kinds.next[kind]] - kinds.decode_s[kind]
    grows = (kinds.after[kind] - kinds.held[kind]).sum(axis=1)
    share = np.minimum(1.0, rows.free / np.maximum(grows, 1))
    value = rows.left_s + rows.attention_s + states.time_s[rows.parent]
    value -= share * earned.sum(axis=1)
    return rows.take(np.argsort(value, kind="stable")[:most])


def _cheapest(rows: Rows, most: int) -> Rows:
    """At most ``most`` rows: those with the least work left and paid."""
    if rows.parent.size <= most:
        return rows
    # Free pages may still earn a price: what has been filled is no advantage in itself.
    return rows.take(np.argsort(rows.left_s + rows.attention_s, kind="stable")[:most])


def _joined(parts: list[Rows]) -> Rows:
    if len(parts) == 1:
        return parts[0]
    return Rows(
        **{f.name: np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(Rows)}
    )
