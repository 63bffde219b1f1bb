"""Over which schedules an optimum of the network formulation holds, and why.

Two claims are decided here from the coefficients and limits alone:
that chunking cannot help, so that the unchunked optimum is the optimum over all schedules; and
that the chunked network formulation loses nothing and prices every chunk right. Where neither
holds, the chunked program of :func:`chunk_relaxation` still bounds every schedule.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from optsched.instance import Instance
from optsched.model.horizon import paced
from optsched.model.types import request_types
from optsched.objective import Objective

FloatArray = NDArray[np.float64]


class Verdict(NamedTuple):
    """Whether a claim holds, and the reason in words for the ``scope`` of a result."""

    holds: bool
    reason: str


def chunking_is_pointless(
    instance: Instance,
    policies: Collection[str] = (),
    objective: Objective = Objective.MAKESPAN,
) -> Verdict:
    """Whether some optimal schedule fills every request in one batch.

    Proof. Postpone all chunks of a fill to the batch that completes it. What a batch processes it
    also caches, so M <= min(C, P) keeps the limits; memory only falls; with one piece tokens cost
    the same wherever they are, and with p_mc >= 2 p_sq and p0 = 0 one fill costs no more than
    its chunks. A refill whose last token was alone, hence a decode, costs no more as a whole if
    p_sq (2S-1) <= d_kv (S-1) + d_req. A batch that is left empty is dropped, which needs
    alpha >= 0; a request evicted in it that would be refilled in the very next batch decodes
    there instead, which costs no more if no refill is cheaper than its decode and d0 <= alpha.

    So the work up to the end of any batch is no more than it was, and offline no batch ends later,
    while every token is generated in the batch that generated it before. Hence makespan, mean and
    max latency, mean TTFT and the TTFT and latency of every request are no worse, all at once; but
    first token and end may move by different amounts, so nothing is claimed for a TPOT SLO. With
    arrivals the work that is postponed may have been done while there was nothing else to do.
    """
    limits, cost = instance.limits, instance.cost
    if "no-chunk" in policies:
        return Verdict(True, "policy no-chunk forbids to split fills")
    if "nonpreemptive" in policies:
        return Verdict(True, "policy nonpreemptive fills every request in one batch")
    if not _offline(instance):
        return Verdict(False, "with arrivals or calls a chunk can use time that is idle")
    if limits.host_kv_tokens and "no-swap" not in policies:
        return Verdict(False, "with swapping a batch of chunks can be one to swap in")
    if objective is Objective.GOODPUT and any(map(paced, instance.requests)):
        return Verdict(False, "a TPOT SLO: chunks can delay a first token more than the end")
    if limits.kv_tokens > limits.fill_tokens:
        return Verdict(
            False, f"M = {limits.kv_tokens} exceeds min(C, P) = {limits.fill_tokens}, which "
            "then limits what a batch prefills",
        )  # fmt: skip
    if len(cost.pieces) > 1:
        return Verdict(False, "with several affine pieces chunks can even out the batches")
    if cost.p0 > 0:
        return Verdict(False, "p0 > 0: a chunk may change which batches have prefills")
    if cost.pieces[0][0] < 0:
        return Verdict(False, "alpha < 0: more batches are cheaper")
    if cost.mixed < 2 * cost.p_sq:
        return Verdict(False, "p_mc < 2 p_sq: a chunked fill has cheaper attention than a whole")
    if "no-hold" in policies:
        return Verdict(False, "policy no-hold: a partial fill cannot be postponed past a pause")
    size = _refill_sizes(instance)
    if "no-evict" not in policies and size.size:
        if "no-hybrid" in policies:
            return Verdict(
                False, "policy no-hybrid: the last token of a refill may have to be a decode"
            )
        if (cost.p_sq * (2 * size - 1) > cost.decode_time(size - 1)).any():
            return Verdict(
                False, "some refill is cheaper with its last token decoded alone: "
                "p_sq (2S-1) > d_kv (S-1) + d_req",
            )  # fmt: skip
        if not _refills_are_dearer(instance, cost.pieces[0][0]):
            return Verdict(False, "some refill is cheaper than the decode that it replaces")
    return Verdict(
        True, "one affine piece, M <= min(C, P): postponing every chunk to the batch that "
        "completes the fill costs nothing",
    )  # fmt: skip


def chunking_is_exact(
    instance: Instance,
    policies: Collection[str] = (),
    objective: Objective = Objective.MAKESPAN,
) -> Verdict:
    """Whether the chunked network formulation contains an optimal schedule and prices it right.

    The conditions are those of the exchange in :mod:`optsched.model.partial_fills`.
    """
    limits, cost = instance.limits, instance.cost
    covered = _chunks_are_covered(instance, objective)
    if not covered.holds:
        return covered
    if "no-hold" in policies:
        return Verdict(False, "policy no-hold: requests that are filled early must hold")
    if cost.p_kv > 0 or cost.p_req > 0:
        return Verdict(False, "p_kv or p_req > 0: chunks have a price of their own")
    if not cost.telescopes:
        return Verdict(False, "p_mc is not 2 p_sq: attention depends on how a fill is chunked")
    if limits.block_tokens > 1:
        return Verdict(False, "pages of several tokens: partial fills do not add up")
    if limits.batch_requests is not None and limits.batch_requests < len(instance):
        return Verdict(False, "batch_requests can limit the chunks in a batch")
    size = _refill_sizes(instance)
    if "no-evict" not in policies and size.size:
        if "no-hybrid" in policies:
            return Verdict(
                False, "policy no-hybrid: the last token of a refill may have to be a decode"
            )
        alone = cost.decode_time(size - 1)
        if cost.d0 > 0 or (alone > cost.p_sq * (2 * size - 1)).any():
            return Verdict(
                False, "the last token of a refill is dearer alone, as a decode, than in a chunk"
            )
        if not _refills_are_dearer(instance, 0.0):
            return Verdict(False, "some refill is cheaper than the decode that it replaces")
    return Verdict(
        True, "p_kv = p_req = 0, p_mc = 2 p_sq and pages of one token: one partial fill per "
        "class suffices and its chunks cost nothing",
    )  # fmt: skip


def chunk_relaxation(instance: Instance) -> Instance:
    """An instance whose chunked network optimum is at most the makespan of any schedule (offline
    also its max latency).

    Pages of one token, no ``batch_requests``, p_kv = 0, p_sq = min(p_sq, p_mc / 2) and
    p_mc = 2 p_sq. p0 and p_req stay: the exchange keeps which batches prefill, and the program
    charges p_req once per fill. A schedule of it is one of ``instance`` to be checked and timed
    again, since pages and ``batch_requests`` are missing; if it is valid and its makespan equals
    the bound, it is optimal over all schedules. Valid where :func:`relaxation_is_valid` says so.
    """
    square = min(instance.cost.p_sq, instance.cost.mixed / 2)
    cost = msgspec.structs.replace(
        instance.cost, p_kv=0.0, p_sq=square, p_mc=2 * square, preset=None
    )
    limits = msgspec.structs.replace(instance.limits, block_tokens=1, batch_requests=None)
    return msgspec.structs.replace(instance, cost=cost, limits=limits)


def relaxation_is_valid(
    instance: Instance,
    policies: Collection[str] = (),
    objective: Objective = Objective.MAKESPAN,
) -> Verdict:
    """Whether the chunked program of :func:`chunk_relaxation` bounds every schedule.

    ``no-hold``, ``no-chunk`` and ``nonpreemptive`` must be left out of its policies (fewer
    restrictions, still a bound); then only an evicted partial fill can break the exchange.
    """
    covered = _chunks_are_covered(instance, objective)
    if not covered.holds:
        return covered
    if "no-evict" not in policies and not _refills_are_dearer(chunk_relaxation(instance), 0.0):
        return Verdict(False, "some refill is cheaper than the decode that it replaces")
    return Verdict(True, "one partial fill per class suffices where chunks cost nothing")


def _chunks_are_covered(instance: Instance, objective: Objective) -> Verdict:
    """The network charges a fill in the batch that completes it, whenever its chunks were
    processed: right in total, offline, but not for what happens in between."""
    if not _offline(instance):
        return Verdict(False, "the network formulation chunks offline requests without calls only")
    if objective not in (Objective.MAKESPAN, Objective.MAX_LATENCY):
        return Verdict(
            False, f"for {objective.value} it matters when in a fill its chunks are processed, "
            "which the network formulation does not say",
        )  # fmt: skip
    return Verdict(True, "")


def _offline(instance: Instance) -> bool:
    return instance.offline and not any(request.calls for request in instance.requests)


def _refill_sizes(instance: Instance) -> FloatArray:
    """S = I + g for g = 1 .. O-1 of every type."""
    sizes = [
        kind.prompt_tokens + np.arange(1, kind.output_tokens, dtype=np.float64)
        for kind in request_types(instance)
    ]
    return np.concatenate(sizes)


def _refills_are_dearer(instance: Instance, saved_s: float) -> bool:
    """Whether every refill costs at least its decode, and its decode's d0 beyond ``saved_s``."""
    cost, size = instance.cost, _refill_sizes(instance)
    beta = min(slope for _, slope in cost.pieces)
    refill = beta * (size - 1) + cost.p_sq * size * size + cost.p_req
    return bool((refill - cost.decode_time(size - 1) >= max(0.0, cost.d0 - saved_s)).all())
