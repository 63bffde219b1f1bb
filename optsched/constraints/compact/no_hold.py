"""Policy ``no-hold``."""

from __future__ import annotations

from optsched.constraints.compact.rows import join, rows
from optsched.instance import Instance
from optsched.model.compact import CompactVariables
from optsched.model.milp import Block


def no_hold(instance: Instance, v: CompactVariables) -> Block:
    """m <= (I + O - 2)(d + p + e): whoever has KV is processed or evicted."""
    if "no-hold" not in v.policies:
        return join("no-hold", [])
    most = 1 - instance.final_tokens[:, None]
    acts = [(v[name], most) for name in ("decodes", "prefills", "evicts")]
    return rows("no-hold", v["decodes"].shape, (v["cached"][:, :-1], 1), *acts, upper=0)
