"""The columns of calls in the compact formulation, and what a schedule gives them."""

from __future__ import annotations

import numpy as np

from optsched.handling import HANDLINGS
from optsched.instance import Instance
from optsched.model.compact_clock import Clock
from optsched.model.compact_table import Table
from optsched.model.contexts import Calls, calls_of
from optsched.model.milp import IntArray

PRESERVE, DISCARD, SWAP = range(len(HANDLINGS))


def add_calls(
    table: Table, instance: Instance, batches: int, clock: Clock, *, swapping: bool
) -> None:
    """Where calls are, and how they are handled; nothing without calls.

    Notes
    -----
    Per call and boundary: ``made``, ``resumed`` (its request was processed since). Per call:
    ``handlings``, one of which is 1, in the order of :data:`~optsched.handling.HANDLINGS`. Per
    call and batch: ``pause_evicts`` and ``pause_swap_outs`` (its request is evicted, swapped out,
    while it waits for that call). Per batch: ``start``, in units of the clock.
    """
    calls = calls_of(instance)
    if not len(calls):
        return
    Q, J = len(calls), batches
    boundary = np.arange(J + 1)
    fill = -(-instance.prompt_tokens // instance.limits.fill_tokens)[calls.request, None]
    after = calls.after_tokens[:, None]
    left = instance.output_tokens[calls.request, None] - after  # each takes a batch
    made = fill + after - 1
    table.add("made", (Q, J + 1), lower=J - boundary < left + 1, upper=boundary >= made)
    table.add("resumed", (Q, J + 1), lower=J - boundary < left, upper=boundary > made)
    batch = boundary[:-1]
    between = (batch >= made) & (J - batch - 1 >= left)
    can = [True, True, swapping]
    table.add("handlings", (Q, len(HANDLINGS)), upper=np.array(can, dtype=float))
    table.add("pause_evicts", (Q, J), where=between)
    if swapping:
        table.add("pause_swap_outs", (Q, J), where=between)
    table.add("start", (J,), upper=clock.latest_s[1:] / clock.unit_s, integer=False)


def call_values(
    calls: Calls, known: IntArray, tokens: IntArray, evicts: IntArray, swap_outs: IntArray
) -> dict[str, IntArray]:
    """Arrays of the names and shapes of :func:`add_calls`, without ``start``, and
    ``made_batch`` and ``resumed_batch``, shape ``(calls,)``, counted from 0.

    Parameters
    ----------
    calls : Calls
    known : int array, shape ``(requests, batches + 1)``
    tokens, evicts, swap_outs : int arrays, shape ``(requests, batches)``
    """
    who = calls.request
    made = (known[who] >= calls.known_after[:, None]).astype(np.int64)
    resumed = np.zeros_like(made)
    resumed[:, 1:] = np.logical_or.accumulate((tokens[who] > 0) & (made[:, :-1] > 0), axis=1)
    paused = made[:, :-1] - resumed[:, :-1]
    pause_evicts, pause_swap_outs = evicts[who] * paused, swap_outs[who] * paused
    discarded = np.asarray(pause_evicts.any(axis=1))
    swapped = np.asarray(pause_swap_outs.any(axis=1)) & ~discarded
    handlings = np.column_stack([~discarded & ~swapped, discarded, swapped])
    return {
        "made": made, "resumed": resumed, "handlings": handlings.astype(np.int64),
        "pause_evicts": pause_evicts, "pause_swap_outs": pause_swap_outs,
        "made_batch": made.argmax(axis=1) - 1, "resumed_batch": resumed.argmax(axis=1) - 1,
    }  # fmt: skip
