"""Beam search over what is resident and what waits, batch after batch.

States after equally many batches are ranked by the time they have taken plus the work and the
prices of the tokens that they still have to make; the best ``width`` go on (exact formulations,
section 7, "Upper bounds"). Fills are whole and all requests are there from the start.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optsched.instance import Instance, IntArray
from optsched.schedule import Schedule
from optsched.warmstart.beam_kinds import FloatArray, Kinds, capacity_tokens, kinds_of
from optsched.warmstart.beam_moves import (
    BoolArray,
    Effort,
    Rows,
    States,
    batch_s,
    followed,
    ways_on,
)
from optsched.warmstart.replay import Replay

_SPARE = 8  # rows looked at per state that goes on, many of which lead to the same state

_ALL = Effort(evictions=1, fills=1, rows=2**62)


@dataclass(frozen=True, kw_only=True)
class BeamOptions:
    """How to search.

    Parameters
    ----------
    width : int
        States that go on per batch.
    weight : float
        lambda: share of a batch's fixed time that full memory earns.
    effort : Effort
    slots : int
        Most residents between two batches.
    """

    width: int
    weight: float
    effort: Effort
    slots: int


@dataclass(frozen=True, kw_only=True, eq=False)
class _Layer:
    """How the states after a batch came about: columns of :class:`Rows`."""

    parent: IntArray
    evicted: BoolArray
    decoded: BoolArray
    fills: IntArray


def searchable(instance: Instance) -> bool:
    """Whether all requests are there at once and whole fills of any of them keep C and P."""
    largest = int(instance.limits.pages(int(instance.final_tokens.max())))
    return instance.offline and largest <= capacity_tokens(instance)


def beam(instance: Instance, options: BeamOptions, so_far: Replay | None = None) -> Schedule:
    """The shortest schedule that the beam reaches.

    Parameters
    ----------
    instance : Instance
        One that is :func:`searchable`.
    options : BeamOptions
    so_far : Replay, optional
        Batches to go on from; nothing if not given.
    """
    kinds = kinds_of(instance, options.weight)
    most_requests = instance.limits.batch_requests or len(instance)
    so_far = so_far or Replay(kinds)
    states = _start(kinds, so_far, options.slots)
    place = np.zeros(1, dtype=np.int64)  # of each state in the last layer
    layers: list[_Layer] = []
    best_s, best = np.inf, (0, 0)
    while states.time_s.size:
        rows = ways_on(states, kinds, options.effort, most_requests)
        if not rows.parent.size:  # what was kept while rows grew led nowhere; something always does
            rows = ways_on(states, kinds, _ALL, most_requests)
        time_s = states.time_s[rows.parent] + batch_s(rows, instance.cost)
        chosen = _chosen(rows, time_s, options.width)
        rows, time_s = rows.take(chosen), time_s[chosen]
        layers.append(
            _Layer(
                parent=place[rows.parent], evicted=rows.evicted, decoded=rows.decoded,
                fills=rows.fills,
            )
        )  # fmt: skip
        states = followed(states, rows, time_s, kinds)
        done = (states.residents == kinds.none).all(axis=1) & ~states.waiting.any(axis=1)
        for k in np.flatnonzero(done & (time_s < best_s)).tolist():
            if time_s[k] < best_s:
                best_s, best = float(time_s[k]), (len(layers), k)
        place = np.flatnonzero(~done & (time_s < best_s))
        states = states.take(place)
    _replay(layers[: best[0]], best[1], kinds, so_far)
    return so_far.schedule()


def _start(kinds: Kinds, so_far: Replay, slots: int) -> States:
    """What has been decided so far."""
    waiting = np.array([len(own) for own in (*so_far.waiting, ())], dtype=np.int64)
    used = np.array([kind for kind, _ in so_far.residents], dtype=np.int64)
    residents = np.full((1, max(slots, used.size)), kinds.none)
    residents[0, : used.size] = used
    left_s = (waiting * kinds.waiting_s).sum() + kinds.resident_s[used].sum()
    hashes = (waiting.astype(np.uint64) * kinds.waiting_hash, kinds.resident_hash[used])
    return States(
        residents=residents, waiting=waiting[None, :], time_s=np.zeros(1),
        left_s=np.array([left_s]), hash=np.concatenate(hashes).sum(keepdims=True),
    )  # fmt: skip


def _chosen(rows: Rows, time_s: FloatArray, width: int) -> IntArray:
    """Numbers of the ``width`` best rows that lead to different states, best first."""
    value = time_s + rows.left_s
    most = min(value.size, _SPARE * width)
    while True:
        few = np.argpartition(value, most - 1)[:most] if most < value.size else np.arange(most)
        few = few[np.lexsort((few, value[few]))]
        first = np.sort(np.unique(rows.hash[few], return_index=True)[1])
        if first.size >= width or most == value.size:
            return few[first[:width]]
        most = min(value.size, 4 * most)


def _replay(layers: list[_Layer], last: int, kinds: Kinds, so_far: Replay) -> None:
    """Go on along the way to state ``last`` of the last layer."""
    path, place = [], last
    for layer in reversed(layers):
        path.append((layer, place))
        place = int(layer.parent[place])
    for layer, row in reversed(path):
        used = slice(len(so_far.residents))
        fills = layer.fills[row]
        so_far.batch(
            layer.evicted[row, used].tolist(), layer.decoded[row, used].tolist(),
            fills[fills < kinds.none].tolist(),
        )  # fmt: skip
