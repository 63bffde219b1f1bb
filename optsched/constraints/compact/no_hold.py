"""Policy ``no-hold``."""

from __future__ import annotations

from optsched.constraints.compact.rows import Term, join, rows
from optsched.instance import Instance
from optsched.model.compact import CompactVariables
from optsched.model.milp import Block


def no_hold(instance: Instance, v: CompactVariables) -> Block:
    """m <= (I + O - 2)(d + p + e): whoever has KV is processed or evicted; m - w and swap outs as
    well if there is host memory."""
    if "no-hold" not in v.policies:
        return join("no-hold", [])
    most = 1 - instance.final_tokens[:, None]
    acts: list[Term] = [(v[name], most) for name in ("decodes", "prefills", "evicts")]
    if v.swapping:
        acts += [(v["swap_outs"], most), (v["swapped"][:, :-1], -1)]
    return rows("no-hold", v["decodes"].shape, (v["cached"][:, :-1], 1), *acts, upper=0)
