"""Strengthening: attention by number of generated tokens, where it is known."""

from __future__ import annotations

from optsched.constraints.compact.rows import join, rows
from optsched.constraints.compact.stages import per_request
from optsched.instance import Instance
from optsched.model.compact import CompactVariables
from optsched.model.milp import Block

NAME = "stage_prices"


def stage_prices(instance: Instance, v: CompactVariables) -> Block:
    """With F, L, D, S as in ``stages``:

        fill >= sum S F + (S - 1) L,   fill_square >= sum S^2 F + (S - 1)^2 L,
        decode_kv >= sum (S - 1)(L + D)

    At most one of F, L, D is 1 for a request and a batch, and then the left-hand side is that
    or, where S stands for a fill that ends there, its length.
    """
    if not v.strengthened:
        return join(NAME, [])
    size = v.contexts.known[:, None, :-1]
    by_decode = [(per_request(v[x]), 1 - size) for x in ("refill_decodes",) if x in v]
    blocks = []
    if "fill" in v:
        shape = v["fill"].shape
        squares = [(index, -(a**2)) for index, a in by_decode]
        fills = per_request(v["fills"])
        blocks = [
            rows(NAME, shape, (v["fill"], 1), (fills, -size), *by_decode, lower=0),
            rows(NAME, shape, (v["fill_square"], 1), (fills, -(size**2)), *squares, lower=0),
        ]
    if "decode_kv" in v:
        decodes = (per_request(v["stage_decodes"]), 1 - size), *by_decode
        blocks.append(rows(NAME, v["decode_kv"].shape, (v["decode_kv"], 1), *decodes, lower=0))
    return join(NAME, blocks)
