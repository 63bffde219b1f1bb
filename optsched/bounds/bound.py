"""The best lower bound on the makespan, and what proves it."""

from __future__ import annotations

import msgspec

from optsched.bounds.arrivals import arrivals
from optsched.bounds.batch_count import BatchCount, counted
from optsched.bounds.events import token_runs
from optsched.bounds.held_calls import HELD, held_calls
from optsched.bounds.path import critical_path
from optsched.bounds.phases import phases
from optsched.bounds.piecewise import (
    Workload,
    best_line,
    chunk_rereads,
    jensen,
    mixtures,
    piece_lines,
)
from optsched.bounds.token_time import lines
from optsched.instance import Instance, Limits, require_feasible

# A part proves the bound if no part named before it is as good up to rounding.
_ROUNDING = 1e-12


class Bound(msgspec.Struct, frozen=True, kw_only=True):
    """A lower bound on the makespan of every schedule of an instance.

    Parameters
    ----------
    value_s : float
        Seconds from the earliest arrival to the end of the last batch, at least.
    proof : str
        Name of the argument that gives it, a key of ``parts``.
    batches : int
        N0: every schedule has at least this many batches.
    batches_proof : str
        What proves N0.
    parts : dict of str to float
        What each argument gives, in seconds.
    """

    value_s: float
    proof: str
    batches: int
    batches_proof: str
    parts: dict[str, float]


def lower_bound(instance: Instance) -> Bound:
    """The best of all bounds; valid for every schedule, with or without evictions, chunks, hybrid
    batches, swapping or waiting, and so for every policy.

    Of calls it uses that responses are processed and held, pauses along the critical path, and that
    a paused request holds KV or pays for its return (B9).

    Doubles are summed in an order of their own, so the value may exceed an exact one by a relative
    1e-12 or so.

    Raises
    ------
    InfeasibleError
        A request cannot run even alone.
    """
    require_feasible(instance)
    runs = token_runs(instance)
    limits = reachable(instance)
    workload = Workload(runs=runs, limits=limits, cost=instance.cost)
    count = counted(runs, limits)
    parts = offline_parts(workload, count)
    parts["critical path"] = critical_path(instance, runs)
    held = held_calls(instance, workload, count.batches)
    if held is not None:
        parts[HELD] = held.value_s
    if not instance.offline:
        parts["B5 arrivals"] = arrivals(workload, instance.release_s, _offline_value)
    best = max(parts.values())
    proof = next(name for name, part in parts.items() if part >= best * (1 - _ROUNDING))
    return Bound(
        value_s=parts[proof],
        proof=proof,
        batches=count.batches,
        batches_proof=count.proof,
        parts=parts,
    )


def reachable(instance: Instance) -> Limits:
    """The limits with no more batch tokens than all requests together ever have.

    A larger C changes nothing, but the law over 0 .. C would lose its digits.
    """
    limits = instance.limits
    most = min(limits.batch_tokens, int(instance.final_tokens.sum()))
    return msgspec.structs.replace(limits, batch_tokens=most)


def offline_parts(workload: Workload, count: BatchCount) -> dict[str, float]:
    """What each bound that ignores arrivals and pauses gives, in seconds, by name."""
    pieces = piece_lines(workload) or lines(workload.law)
    by_counting = max(n for name, n in count.parts.items() if name.startswith("B1"))
    return {
        "B0 work": best_line(workload, pieces, 1),
        "B1 batch count": best_line(workload, pieces, by_counting),
        "B2 packing": best_line(workload, pieces, count.batches),
        "L1 Jensen": jensen(workload, count.batches),
        "L2 mixtures": mixtures(workload, count.batches),
        "L4 chunk re-reads": chunk_rereads(workload, count.batches),
        "L3 phases": phases(workload, count.batches),
    }


def _offline_value(workload: Workload) -> float:
    count = counted(workload.runs, workload.limits)
    return max(offline_parts(workload, count).values())
