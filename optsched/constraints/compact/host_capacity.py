"""Rule ``host_capacity``."""

from __future__ import annotations

from optsched.constraints.compact.rows import join, over_requests, rows
from optsched.instance import Instance
from optsched.model.compact import CompactVariables
from optsched.model.milp import Block


def host_capacity(instance: Instance, v: CompactVariables) -> Block:
    """Sum of w after every batch <= the host's memory. No rows where nothing can be swapped."""
    if not v.swapping:
        return join("host_capacity", [])
    after = over_requests(v["swapped"][:, 1:])
    most = instance.limits.host_kv_tokens
    return rows("host_capacity", (v.batches,), (after, 1), upper=most)
