"""Rule ``prefill_tokens``."""

from __future__ import annotations

from optsched.constraints.compact.rows import join, over_requests, rows
from optsched.instance import Instance
from optsched.model.compact import CompactVariables
from optsched.model.milp import Block


def prefill_tokens(instance: Instance, v: CompactVariables) -> Block:
    """Sum over prefill steps of c <= P y; as a decode has c = 1, that is sum of c - d. No rows
    without such a limit."""
    most = instance.limits.prefill_tokens
    if most is None or most >= int(instance.final_tokens.sum()):
        return join("prefill_tokens", [])
    y = v["used"]
    tokens, decodes = over_requests(v["tokens"]), over_requests(v["decodes"])
    return rows("prefill_tokens", y.shape, (tokens, 1), (decodes, -1), (y, -most), upper=0)
