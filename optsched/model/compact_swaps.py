"""The columns of swapping in the compact formulation."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from optsched.instance import Instance
from optsched.model.compact_table import Table
from optsched.model.milp import IntArray


def can_swap(instance: Instance, policies: Collection[str]) -> bool:
    """Whether any KV can be swapped out."""
    return instance.limits.host_kv_tokens > 0 and not {"no-swap", "nonpreemptive"} & set(policies)


def add_swaps(
    table: Table, instance: Instance, most_cached: IntArray, batches: int, *, strengthened: bool
) -> None:
    """Where KV is, if it can be on the host; ``cached`` is what a request has in either place.

    Notes
    -----
    Per request and boundary: ``away`` (its KV is on the host), ``swapped`` (w, the tokens there).
    Per request and batch: ``swap_outs``, ``swap_ins``, ``moved`` (tokens copied). Strengthening,
    per request, k and boundary or batch, of those that are ``resident``: ``stage_away``,
    ``stage_outs``, ``stage_ins``.
    """
    host = instance.limits.host_kv_tokens
    n, J = len(instance), batches
    batch = np.arange(J)
    held = most_cached > 0
    table.add("away", (n, J + 1), upper=held)
    table.add("swapped", (n, J + 1), upper=np.minimum(most_cached, host), integer=False)
    table.add("swap_outs", (n, J), upper=held[:, :-1] & held[:, 1:])
    table.add("swap_ins", (n, J), upper=(batch > 1) & held[:, :-1])
    if instance.cost.swap_tok:
        table.add(
            "moved", (n, J), duration=instance.cost.swap_tok,
            upper=np.minimum(instance.final_tokens[:, None] - 1, host), integer=False,
        )  # fmt: skip
    if not strengthened:
        return
    resident = table.index["resident"] >= 0
    before, after = resident[:, :, :-1], resident[:, :, 1:]
    table.add("stage_away", resident.shape, where=resident)
    table.add("stage_outs", before.shape, where=before & after)
    table.add("stage_ins", before.shape, where=before)
