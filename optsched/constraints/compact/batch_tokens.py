"""Rule ``batch_tokens``."""

from __future__ import annotations

from optsched.constraints.compact.rows import over_requests, rows
from optsched.instance import Instance
from optsched.model.compact import CompactVariables
from optsched.model.milp import Block


def batch_tokens(instance: Instance, v: CompactVariables) -> Block:
    """Sum of c <= C y, with C no larger than what all requests together can need."""
    most = min(instance.limits.batch_tokens, int(instance.final_tokens.sum()))
    y = v["used"]
    return rows("batch_tokens", y.shape, (over_requests(v["tokens"]), 1), (y, -most), upper=0)
