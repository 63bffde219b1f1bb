"""Rows of the compact formulation, one family per file.

``RULES`` state the rules of the problem and its policies and bear their names. ``DEFINITIONS`` say
what the columns mean: the kinds of steps and what they leave cached, calls and how they are
handled, what is on the host, the parts of the batch time that are not linear, and the clock: rules
``arrival`` and ``pause`` are among them, as a schedule holds no times that could break them.
``STRENGTHENING`` cuts off fractions only, and exchanges of like requests. Policy ``nonpreemptive``
is no-evict, no-chunk and no-hold together; ``no-swap`` leaves the columns of swapping out.
Each family is a function (instance, variables) -> Block, without rows where it has nothing to say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from optsched.constraints.compact.arrival import arrival
from optsched.constraints.compact.arrival_bounds import arrival_bounds
from optsched.constraints.compact.batch_requests import batch_requests
from optsched.constraints.compact.batch_time import batch_time
from optsched.constraints.compact.batch_tokens import batch_tokens
from optsched.constraints.compact.calls import calls
from optsched.constraints.compact.clock import clock
from optsched.constraints.compact.clock_bounds import clock_bounds
from optsched.constraints.compact.completion import completion
from optsched.constraints.compact.exact_time import exact_time
from optsched.constraints.compact.fcfs import fcfs
from optsched.constraints.compact.first_tokens import first_tokens
from optsched.constraints.compact.fixed_handling import discard, preserve, swap
from optsched.constraints.compact.handling import handling
from optsched.constraints.compact.host import host
from optsched.constraints.compact.host_capacity import host_capacity
from optsched.constraints.compact.kv_capacity import kv_capacity
from optsched.constraints.compact.limits import limits
from optsched.constraints.compact.no_chunk import no_chunk
from optsched.constraints.compact.no_evict import no_evict
from optsched.constraints.compact.no_hold import no_hold
from optsched.constraints.compact.no_hybrid import no_hybrid
from optsched.constraints.compact.packing import packing
from optsched.constraints.compact.pause import pause
from optsched.constraints.compact.pause_bounds import pause_bounds
from optsched.constraints.compact.phases import phases
from optsched.constraints.compact.prefill_tokens import prefill_tokens
from optsched.constraints.compact.progress import progress
from optsched.constraints.compact.residency import residency
from optsched.constraints.compact.skips import skips
from optsched.constraints.compact.split_attention import split_attention
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
    "host_capacity": host_capacity,
    "no-evict": no_evict,
    "no-chunk": no_chunk,
    "no-hybrid": no_hybrid,
    "no-hold": no_hold,
    "fcfs": fcfs,
    "preserve": preserve,
    "discard": discard,
    "swap": swap,
}
DEFINITIONS: Mapping[str, Family] = {
    "steps": steps,
    "batch_time": batch_time,
    "clock": clock,
    "arrival": arrival,
    "calls": calls,
    "pause": pause,
    "handling": handling,
    "host": host,
    "exact_time": exact_time,
    "first_tokens": first_tokens,
    "phases": phases,
    "limits": limits,
    "skips": skips,
}
STRENGTHENING: Mapping[str, Family] = {
    "symmetry": symmetry,
    "stages": stages,
    "stage_prices": stage_prices,
    "packing": packing,
    "clock_bounds": clock_bounds,
    "arrival_bounds": arrival_bounds,
    "split_attention": split_attention,
    "pause_bounds": pause_bounds,
}
FAMILIES: Mapping[str, Family] = {**RULES, **DEFINITIONS, **STRENGTHENING}


def build(variables: CompactVariables, families: Mapping[str, Family] = FAMILIES) -> Milp:
    """The compact formulation, which minimises seconds, or the weight that misses an SLO.

    Parameters
    ----------
    variables : CompactVariables
    families : mapping of name to family
        All of them, unless a test leaves one out.
    """
    columns = variables.columns
    blocks = (family(variables.instance, variables) for family in families.values())
    return Milp(
        name=f"compact:{variables.instance.name}", cost=columns.cost,
        offset=columns.offset,
        lower=columns.lower, upper=columns.upper, integer=columns.integer,
        column_names=columns.names, blocks=tuple(block for block in blocks if block.rows),
    )  # fmt: skip
