"""How many batches a schedule of at most a given value can have, or needs to have.

A horizon is rigorous if the schedules within it contain an optimal one, so that an optimum over
them is the optimum over all. Where it comes from, each with its proof:

tokens
    Unchunked, every processed request generates a token and every batch processes one: at most
    sum O batches. Without evictions every token is processed once: at most sum (I + O - 1).
useful tokens
    What a request processes between two of its tokens and loses to an eviction is useless. Leave it
    out: no batch ends later, nobody holds more, and what is left are at most I + k tokens towards
    token k + 1, so K = sum over tokens of I + k in all, in no more than K batches. Between two of
    these in a row may be batches without any. Those are left out as well, unless a request
    generates in the one, was evicted in between and starts its refill in the other: then two of
    them remain. In the first one of those that evicted such a request somebody else processed;
    one token of that is kept, whose KV is no more than was there. The last one, where somebody
    else than that processes a token, evicts it again; if nobody else does, it had KV after it
    anyway, and so have those that remain. Together K + 2 (K - 1) batches. Times are no later, so it
    holds for every objective but goodput with TPOT, and for all at once; not under ``no-hold``,
    which does not let the token that is kept be held. With calls or swapping it is for
    :mod:`optsched.model.calls_horizon` to say.
makespan <= U
    Every inequality of :mod:`optsched.model.makespan_lines` is affine in N, so each with a
    positive slope turns U into a bound on N.
max latency <= U
    The makespan is at most the last arrival plus U, since the last batch finishes a request.
mean latency <= U
    The ends of all n requests sum to at most n U + sum T. The k-th end, k < n, is no earlier than
    :func:`optsched.model.milestones.earliest_ends` says; what is left bounds the last one, which
    is the makespan.
mean TTFT <= U
    In the same way the last first token is in a batch F that ends by some time X; the
    inequalities with only first tokens bound F. What follows F does not matter, and
    :func:`optsched.model.completion_batches.completion_batches` bounds the best completion.
    Unchunked, no more than sum O - max(F, n) tokens, and so batches, are left after F anyway.
goodput
    Let G be the requests that meet their objectives in an optimal schedule. Whether one does is
    settled by its first token, if only its TTFT is limited, or its end, no later than
    T + latency SLO or T + TTFT SLO + (O - 1) TPOT SLO; with no objective, from the start. Let F be
    the last batch that settles a request of G; it ends by the latest of those times, and every
    batch takes at least g(1). The rest is completed as before: G still meets its objectives.
    A TPOT SLO alone sets no time.

Those by a makespan hold for every schedule of at most that value. Useful tokens hold for one that
is no worse by any objective. Mean TTFT and goodput hold for one that further conditions
(``at_most``) could exclude, so they are used without any only.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from optsched.errors import require
from optsched.instance import Instance, Request
from optsched.model.calls_horizon import chunked_batches
from optsched.model.completion_batches import completion_batches
from optsched.model.makespan_lines import Line, makespan_lines
from optsched.model.milestones import earliest_ends
from optsched.objective import Objective

# Relative slack on values, so that a rounding error never cuts off an optimal schedule.
_SLACK = 1e-9


@dataclass(frozen=True, kw_only=True)
class Horizon:
    """How many batches suffice, whether that is proven, and by what argument."""

    batches: int
    rigorous: bool
    reason: str


def batch_horizon(
    instance: Instance,
    objective: Objective,
    cutoff: float,
    *,
    unchunked: bool,
    policies: Collection[str] = (),
    at_most: Mapping[Objective, float] | None = None,
) -> Horizon:
    """The number of batches within which an optimal schedule of value ``cutoff`` or better lies.

    Parameters
    ----------
    instance : Instance
    objective : Objective
        What is optimised.
    cutoff : float
        Value of a known schedule of the class; infinity (goodput: 0) if there is none.
    unchunked : bool
        Whether the class has only schedules whose every fill takes one batch; implied by
        ``no-chunk`` and ``nonpreemptive``.
    policies : collection of str
        Restrictions on the class.
    at_most : mapping
        Further conditions on the schedule: value at most (goodput: at least) this.

    Raises
    ------
    InvalidInputError
        No schedule can have such a value.
    """
    unchunked = unchunked or bool({"no-chunk", "nonpreemptive"} & set(policies))
    conditions = dict(at_most or {})
    conditions[objective] = min(cutoff, conditions.get(objective, cutoff))
    output, final = instance.output_tokens, instance.final_tokens
    found: list[tuple[int, str]] = []
    if unchunked:
        found.append((int(output.sum()), "every batch generates a token"))
    if {"no-evict", "nonpreemptive"} & set(policies):
        found.append((int(final.sum()), "every token is processed once"))
    waits_pay = Objective.GOODPUT in conditions and any(map(paced, instance.requests))
    moves = instance.has_calls or (instance.limits.host_kv_tokens > 0 and "no-swap" not in policies)
    if not waits_pay and moves:
        found += chunked_batches(instance, policies)
    elif not waits_pay and "no-hold" not in policies:
        useful = int((output * instance.prompt_tokens + output * (output - 1) // 2).sum())
        found.append((3 * useful - 2, "a schedule without useless batches is no worse"))
    for name, value in conditions.items():
        latest = latest_end_s(instance, name, value)
        if math.isfinite(latest):
            batches = _most_batches(instance, latest, name.value, value)
            found.append((batches, f"{name.value} at most {value:.6g} s bounds the makespan"))
    if set(conditions) == {objective}:
        found += _until_settled(instance, objective, cutoff, policies, unchunked)
    if found:
        batches, reason = min(found)
        return Horizon(batches=batches, rigorous=True, reason=reason)
    fills = -(-instance.prompt_tokens // instance.limits.fill_tokens)
    return Horizon(
        batches=int((fills + output - 1).sum()), rigorous=False,
        reason=f"{objective.value} at {cutoff:.6g} does not bound the number of batches; "
        "as many as one request after the other needs",
    )  # fmt: skip


def paced(request: Request) -> bool:
    """Whether a later first token may be better for it."""
    return request.tpot_slo_s is not None and request.output_tokens > 1 and request.weight > 0


def latest_end_s(instance: Instance, objective: Objective, value: float) -> float:
    """The largest makespan of any schedule of at most this value, seconds; infinity if none."""
    match objective:
        case Objective.MAKESPAN:
            return value
        case Objective.MAX_LATENCY:
            return float(instance.release_s.max()) + value
        case Objective.MEAN_LATENCY:
            return _last_of(instance, value, first_tokens=False)
        case _:
            return math.inf


def _last_of(instance: Instance, mean_s: float, *, first_tokens: bool) -> float:
    """The latest that the last of n ends can be, if they are ``mean_s`` after arrivals on average,
    seconds; the others are as early as they can be."""
    total = len(instance) * mean_s * (1 + _SLACK) + float(instance.release_s.sum())
    ends = earliest_ends(instance, first_tokens=first_tokens)
    latest = total - float(ends[:-1].sum())
    what = Objective.MEAN_TTFT if first_tokens else Objective.MEAN_LATENCY
    require(
        latest >= ends[-1] * (1 - _SLACK),
        what.value, mean_s, f"at least {float((ends - instance.release_s).mean()):.6g} s, which no "
        "schedule is below",
    )  # fmt: skip
    return latest


def _until_settled(
    instance: Instance,
    objective: Objective,
    cutoff: float,
    policies: Collection[str],
    unchunked: bool,
) -> list[tuple[int, str]]:
    """Horizons of schedules whose rest was replaced once their objective is settled."""
    if objective is Objective.MEAN_TTFT and math.isfinite(cutoff):
        latest = _last_of(instance, cutoff, first_tokens=True)
        settled = _batches_within(makespan_lines(instance, first_tokens=True), latest)
        what = f"first tokens within {latest:.6g} s"
    elif objective is Objective.GOODPUT:
        pairs = zip(instance.requests, instance.release_s.tolist(), strict=True)
        latest = max(_settled_s(request, release) for request, release in pairs)
        if not math.isfinite(latest):
            return []
        settled = math.floor(latest * (1 + _SLACK) / makespan_lines(instance)[-1].slope)
        what = f"objectives settled within {latest:.6g} s"
    else:
        return []
    started = objective is Objective.MEAN_TTFT
    found = []
    if started and unchunked:
        left = int(instance.output_tokens.sum()) - max(settled, len(instance))
        found.append((settled + max(left, 0), f"{what}, then a token in every batch"))
    rest = completion_batches(instance, policies, unchunked=unchunked, started=started)
    if rest is not None:
        found.append((settled + rest, f"{what}, then any completion"))
    return found


def _settled_s(request: Request, release_s: float) -> float:
    """When it is known that a request meets its objectives, if it does; infinity if no time is."""
    ttft, latency = request.ttft_slo_s, request.latency_slo_s
    tpot = request.tpot_slo_s if request.output_tokens > 1 else None
    if request.weight == 0 or (ttft is None and tpot is None and latency is None):
        return 0.0
    until = math.inf if latency is None else latency
    if ttft is not None and tpot is not None:
        until = min(until, ttft + (request.output_tokens - 1) * tpot)
    elif ttft is not None and latency is None:
        until = ttft
    return release_s + until


def least_makespan_s(instance: Instance, batches: int) -> float:
    """A lower bound on the makespan of every schedule of exactly ``batches`` batches, seconds."""
    return max(line.slope * batches + _work(line) for line in makespan_lines(instance))


def most_batches(instance: Instance, makespan_s: float) -> int:
    """The largest number of batches of any schedule that takes at most ``makespan_s``.

    Raises
    ------
    InvalidInputError
        No schedule is that short.
    """
    return _most_batches(instance, makespan_s, "makespan_s", makespan_s)


def _most_batches(instance: Instance, makespan_s: float, what: str, value: float) -> int:
    """As :func:`most_batches`; ``what`` has the ``value`` that allows this makespan."""
    most = _batches_within(makespan_lines(instance), makespan_s)
    require(
        most >= 1 and least_makespan_s(instance, most) <= makespan_s * (1 + _SLACK),
        what, value, "a value that some schedule can have",
    )  # fmt: skip
    return most


def _batches_within(lines: tuple[Line, ...], time_s: float) -> int:
    allowed = time_s * (1 + _SLACK)
    return min(math.floor((allowed - _work(line)) / line.slope) for line in lines if line.slope > 0)


def _work(line: Line) -> float:
    return float(np.sum(line.work)) + line.prefill_s
