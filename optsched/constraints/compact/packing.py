"""Strengthening: few large requests fit, however much memory their fractions leave."""

from __future__ import annotations

import numpy as np

from optsched.constraints.compact.rows import join, over_requests, rows
from optsched.instance import Instance
from optsched.model.compact import CompactVariables
from optsched.model.compact_batches import stage_tokens
from optsched.model.compact_packing import Packing, packings
from optsched.model.milp import Block, IntArray

NAME = "packing"
_FUNCTIONS = 4


def packing(instance: Instance, v: CompactVariables) -> Block:
    """sum f(s) over what is cached after a batch <= f(M) y, for a few dual feasible functions f.

    Sizes s in pages: I + k - 1 of a resident request (with the responses of earlier calls) that is
    not on the host, I + O - 1 of one that finishes in the batch (done' - done); partial fills are
    left out. ``exact.md``'s rounding rows, with functions
    that dominate rounding down.
    """
    if not v.strengthened:
        return join(NAME, [])
    block = instance.limits.block_tokens
    resident, done, used = v["resident"][:, :, 1:], v["done"], v["used"]
    held = -(-v.contexts.resident[:, :-1, None] // block)
    final = -(-instance.final_tokens[:, None] // block)
    blocks = []
    for f in _different(instance):
        stays, ends = (
            over_requests(np.broadcast_to(f(size), index.shape))
            for size, index in ((held, resident), (final, done[:, 1:]))
        )
        started = over_requests(done[:, :-1]), -ends
        ended = over_requests(done[:, 1:]), ends
        kept = [(over_requests(resident), stays)]
        if v.swapping:
            kept.append((over_requests(v["stage_away"][:, :, 1:]), -stays))
        blocks.append(rows(NAME, used.shape, (used, -f.most), *kept, ended, started, upper=0))
    return join(NAME, blocks)


def _different(instance: Instance) -> list[Packing]:
    """The functions that show most batches for the sizes at generation, no two alike on them."""
    block = instance.limits.block_tokens
    sizes: IntArray = -(-stage_tokens(instance) // block)
    found: dict[tuple[float, ...], Packing] = {}
    for f in packings(sizes, instance.limits.kv_tokens // block):
        found.setdefault(tuple((f(sizes) / f.most).tolist()), f)
    # Proportional to size: the row of kv_capacity itself.
    area = tuple((sizes / (instance.limits.kv_tokens // block)).tolist())
    return [f for shape, f in found.items() if shape != area][:_FUNCTIONS]
