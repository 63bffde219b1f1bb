"""Policy ``no-chunk``."""

from __future__ import annotations

from optsched.constraints.compact.rows import join, rows
from optsched.instance import Instance
from optsched.model.compact import CompactVariables
from optsched.model.milp import Block


def no_chunk(instance: Instance, v: CompactVariables) -> Block:
    """p <= g: every prefill step is a whole fill, which generates a token."""
    if "no-chunk" not in v.policies:
        return join("no-chunk", [])
    prefills = v["prefills"]
    return rows("no-chunk", prefills.shape, (prefills, 1), (v["generates"], -1), upper=0)
