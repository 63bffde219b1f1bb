"""Policy ``no-hybrid``."""

from __future__ import annotations

from optsched.constraints.compact.rows import join, rows
from optsched.instance import Instance
from optsched.model.compact import CompactVariables
from optsched.model.milp import Block


def no_hybrid(instance: Instance, v: CompactVariables) -> Block:
    """decode_batch + prefill_batch <= y; that they are set is a matter of ``batch_time``."""
    if "no-hybrid" not in v.policies:
        return join("no-hybrid", [])
    used = v["used"]
    kinds = (v["decode_batch"], 1), (v["prefill_batch"], 1)
    return rows("no-hybrid", used.shape, *kinds, (used, -1), upper=0)
