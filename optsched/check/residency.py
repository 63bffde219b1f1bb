"""Evictions and swaps, and rule ``residency``: what KV they need."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optsched.check.state import Log, State
from optsched.handling import HANDLINGS

IntArray = NDArray[np.int64]


def _need(at: State, row: IntArray, batch: IntArray, has: IntArray, what: str, log: Log) -> None:
    """``residency``: an action needs KV, ``has`` is what there is of it."""
    bad = np.flatnonzero(has == 0)
    if bad.size:
        log.findings.add(
            "residency", what, excess=np.ones(bad.size, dtype=np.int64), batch=batch[bad],
            request=at.request[row[bad]],
        )  # fmt: skip


def evict(at: State, row: IntArray, batch: IntArray, log: Log) -> None:
    """States in ``row`` lose their KV, on the GPU and on the host, in the ``batch`` beside them."""
    gpu, host = at.cached[row], at.host[row]
    _need(at, row, batch, gpu + host, "evicted, but it has no KV on the GPU or the host", log)
    log.move(batch, -gpu, -host)
    lost = gpu + host > 0
    log.evictions.add(at.request[row[lost]], batch[lost], (gpu + host)[lost])
    at.cached[row] = at.host[row] = at.filling[row] = 0
    at.handling[row[lost]] = HANDLINGS.index("discard")


def swap_out(at: State, row: IntArray, batch: IntArray, log: Log) -> None:
    """KV of the states in ``row`` goes from the GPU to the host."""
    gpu = at.cached[row]
    _need(at, row, batch, gpu, "swapped out, but it has no KV on the GPU", log)
    log.move(batch, -gpu, gpu)
    _note_swap(at, row, batch, gpu, log)
    at.host[row] += gpu
    at.cached[row] = 0
    at.handling[row[gpu > 0]] = HANDLINGS.index("swap")


def swap_in(at: State, row: IntArray, batch: IntArray, log: Log) -> None:
    """KV of the states in ``row`` comes back to the GPU."""
    host = at.host[row]
    _need(at, row, batch, host, "swapped in, but it has no KV on the host", log)
    log.move(batch, host, -host)
    _note_swap(at, row, batch, host, log)
    at.cached[row] += host
    at.host[row] = 0


def _note_swap(at: State, row: IntArray, batch: IntArray, tokens: IntArray, log: Log) -> None:
    moved = tokens > 0
    log.swaps.add(at.request[row[moved]], batch[moved], tokens[moved])


def bring_back(at: State, row: IntArray, batch: IntArray, log: Log) -> None:
    """``residency``: KV on the host must be swapped in first; go on as if it had been."""
    away = np.flatnonzero(at.host[row] > 0)
    if away.size:
        host = at.host[row[away]]
        log.findings.add(
            "residency", "processed while {excess} tokens of its KV are on the host",
            excess=host, batch=batch[away], request=at.request[row[away]],
        )  # fmt: skip
        swap_in(at, row[away], batch[away], log)
