"""Rule ``batch_requests``."""

from __future__ import annotations

from optsched.constraints.compact.rows import join, over_requests, rows
from optsched.instance import Instance
from optsched.model.compact import CompactVariables
from optsched.model.milp import Block


def batch_requests(instance: Instance, v: CompactVariables) -> Block:
    """Sum of d + p <= K y. No rows without such a limit."""
    most = instance.limits.batch_requests
    if most is None or most >= len(instance):
        return join("batch_requests", [])
    y = v["used"]
    decodes, prefills = over_requests(v["decodes"]), over_requests(v["prefills"])
    return rows("batch_requests", y.shape, (decodes, 1), (prefills, 1), (y, -most), upper=0)
