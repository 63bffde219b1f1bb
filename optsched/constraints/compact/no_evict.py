"""Policy ``no-evict``."""

from __future__ import annotations

from optsched.constraints.compact.rows import join, rows
from optsched.instance import Instance
from optsched.model.compact import CompactVariables
from optsched.model.milp import Block


def no_evict(instance: Instance, v: CompactVariables) -> Block:
    """Sum over batches of e <= 0, for every request."""
    if "no-evict" not in v.policies:
        return join("no-evict", [])
    return rows("no-evict", (len(instance),), (v["evicts"], 1), upper=0)
