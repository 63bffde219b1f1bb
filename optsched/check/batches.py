"""Rules about whole batches: capacities and limits, and that every batch processes something."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optsched.check.axis import Axis, covered
from optsched.check.history import History
from optsched.check.sums import Sums, sums
from optsched.check.violation import Findings
from optsched.instance import Instance, Limits

IntArray = NDArray[np.int64]


def check_batches(
    instance: Instance, history: History, last: int, no_hybrid: bool, findings: Findings
) -> None:
    """``progress`` of batches, ``kv_capacity``, ``batch_tokens``, ``prefill_tokens``,
    ``batch_requests``, ``host_capacity`` and, if asked for, policy ``no-hybrid``.

    Parameters
    ----------
    instance : Instance
    history : History
        What the requests did.
    last : int
        Number of the schedule's last batch.
    no_hybrid : bool
        Whether the policy holds.
    findings : Findings
        Where breaches go.
    """
    steps, moves = history.steps, history.moves
    first, stop = steps.first, steps.first + steps.batches
    axis = covered(first, stop)
    idle, length = axis.gaps(last)
    if idle.size:
        findings.add(
            "progress", "no token is processed, batches in a row: {excess}",
            excess=length, batch=idle,
        )  # fmt: skip
    if moves.batch.size:
        first, stop = np.append(first, moves.batch), np.append(stop, moves.batch + 1)
        axis = covered(first, stop)
    _check_limits(instance.limits, sums(steps, moves, axis, instance.limits.block_tokens),
                  axis, no_hybrid, findings)  # fmt: skip


def _check_limits(
    limits: Limits, load: Sums, axis: Axis, no_hybrid: bool, findings: Findings
) -> None:
    for rule, used, limit, text in (
        ("kv_capacity", load.kv, limits.kv_tokens, "{used} KV tokens, kv_tokens = {limit}"),
        ("batch_tokens", load.tokens, limits.batch_tokens, "{used} tokens, batch_tokens = {limit}"),
        (
            "prefill_tokens", load.prefill_tokens, limits.prefill_tokens,
            "{used} prefill tokens, prefill_tokens = {limit}",
        ),
        (
            "batch_requests", load.requests, limits.batch_requests,
            "{used} requests, batch_requests = {limit}",
        ),
        (
            "host_capacity", load.host, limits.host_kv_tokens,
            "{used} tokens swapped out, host_kv_tokens = {limit}",
        ),
    ):  # fmt: skip
        if limit is None:
            continue
        over = np.flatnonzero(used > limit)
        if over.size:
            findings.add(
                rule, text + " ({excess} too many)",
                excess=used[over] - limit, batch=axis.batch(over),
                used=used[over], limit=np.full(over.size, limit),
            )  # fmt: skip
    if no_hybrid:
        prefills, decodes = load.prefill_requests, load.requests - load.prefill_requests
        mixed = np.flatnonzero((prefills > 0) & (decodes > 0))
        findings.add(
            "no-hybrid", "{prefills} prefill steps beside {decodes} decode steps",
            excess=np.minimum(prefills, decodes)[mixed], batch=axis.batch(mixed),
            prefills=prefills[mixed], decodes=decodes[mixed],
        )  # fmt: skip
