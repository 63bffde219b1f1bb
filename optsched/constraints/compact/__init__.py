"""Rows of the compact formulation, one family per file.

``RULES`` state the rules of the problem and its policies and bear their names. ``DEFINITIONS`` say
what the columns mean: the kinds of steps and what they leave cached, and the parts of the batch
time that are not linear. ``STRENGTHENING`` cuts off fractions only, and exchanges of like requests.
Each family is a function (instance, variables) -> Block, without rows where it has nothing to say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from optsched.constraints.compact.batch_requests import batch_requests
from optsched.constraints.compact.batch_time import batch_time
from optsched.constraints.compact.batch_tokens import batch_tokens
from optsched.constraints.compact.completion import completion
from optsched.constraints.compact.kv_capacity import kv_capacity
from optsched.constraints.compact.no_chunk import no_chunk
from optsched.constraints.compact.no_evict import no_evict
from optsched.constraints.compact.no_hold import no_hold
from optsched.constraints.compact.no_hybrid import no_hybrid
from optsched.constraints.compact.packing import packing
from optsched.constraints.compact.prefill_tokens import prefill_tokens
from optsched.constraints.compact.progress import progress
from optsched.constraints.compact.residency import residency
from optsched.constraints.compact.stage_prices import stage_prices
from optsched.constraints.compact.stages import stages
from optsched.constraints.compact.steps import steps
from optsched.constraints.compact.symmetry import symmetry
from optsched.instance import Instance
from optsched.model.compact import CompactVariables
from optsched.model.milp import Block, Milp

Family = Callable[[Instance, CompactVariables], Block]

RULES: Mapping[str, Family] = {
    "progress": progress,
    "completion": completion,
    "residency": residency,
    "kv_capacity": kv_capacity,
    "batch_tokens": batch_tokens,
    "prefill_tokens": prefill_tokens,
    "batch_requests": batch_requests,
    "no-evict": no_evict,
    "no-chunk": no_chunk,
    "no-hybrid": no_hybrid,
    "no-hold": no_hold,
}
DEFINITIONS: Mapping[str, Family] = {"steps": steps, "batch_time": batch_time}
STRENGTHENING: Mapping[str, Family] = {
    "symmetry": symmetry,
    "stages": stages,
    "stage_prices": stage_prices,
    "packing": packing,
}
FAMILIES: Mapping[str, Family] = {**RULES, **DEFINITIONS, **STRENGTHENING}


def build(variables: CompactVariables, families: Mapping[str, Family] = FAMILIES) -> Milp:
    """The compact formulation of the offline makespan, in seconds.

    Parameters
    ----------
    variables : CompactVariables
    families : mapping of name to family
        All of them, unless a test leaves one out.
    """
    columns = variables.columns
    blocks = (family(variables.instance, variables) for family in families.values())
    return Milp(
        name=f"compact:{variables.instance.name}", cost=columns.cost, offset=0.0,
        lower=columns.lower, upper=columns.upper, integer=columns.integer,
        column_names=columns.names, blocks=tuple(block for block in blocks if block.rows),
    )  # fmt: skip
