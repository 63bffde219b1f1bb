"""New tokens in two phases, split at the last first token of some requests, in units.

Let Q be the requests that need at least t batches after their first token, and batch L the one
of the last first token of Q. Batches 1 .. L process all prompts of Q; N2 >= max(t, N0 - L) follow.
Of the X new tokens x2 lie in those that follow:

    at most     X - sum of prompts of Q
    at least    if no call appends tokens: the k-th first token of Q lies in batch
                f_k = ceil(sum of the k smallest prompts / F) at the soonest, so decodes of Q
                up to L are at most sum over k of min(longest, (L - f_k)^+)
    N2 >=       (x2 - tokens of others) / d, d decodes of Q fitting into one batch

so for lines a1 + b1 n and a2 + b2 n below g the sum of g is at least a1 L + b1 (X - x2) + a2 N2 +
b2 x2, convex and piecewise linear in x2 with one corner. From L = max(N0, f_last + longest) on only
a1 L changes. What the first line leaves out is charged to the chunks of the prompts of Q.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate, pairwise

from optsched.bounds.verify.counts import first_fill_batches
from optsched.bounds.verify.law import law_of
from optsched.bounds.verify.refuted import hold
from optsched.bounds.verify.steps import steps_of
from optsched.bounds.verify.units import Units
from optsched.bounds.verify.workload import Workload
from optsched.certificate import Line, PhasesTime


@dataclass(frozen=True)
class Split:
    """The split lies in batch ``low`` or a little later; ``candidates`` are the pairs (x2, d N2)
    at the ends and the corner, the least of which counts."""

    low: int
    candidates: tuple[tuple[int, int], ...]


def phases(workload: Workload, argument: PhasesTime, count: int, units: Units) -> int:
    """Least sum of g over the new tokens of all batches, N0 = ``count`` of them or more."""
    law = law_of(workload.cost, workload.limits.batch_tokens, units)
    late = _late(workload, argument.remaining)
    for line in argument.lines:
        hold(law.above(line, units, first=0), "a line is not below the batch-time law")
    total = workload.new_tokens
    scale, splits = _splits(workload, late, argument, count)
    charged = [
        (units.of(a.intercept_s), units.of(a.slope_s), _rereads(late, a, units))
        for a in argument.lines
    ]
    return (
        min(
            max(
                scale * (a1 * split.low + again)
                + min(
                    scale * (b1 * (total - x2) + b2 * x2) + a2 * n2 for x2, n2 in split.candidates
                )
                for a1, b1, again in charged
                for a2, b2, _ in charged
            )
            for split in splits
        )
        // scale
    )


def _late(workload: Workload, remaining: int) -> Workload:
    """Q: the requests that need at least ``remaining`` batches after their first token."""
    chosen = [
        r for r, own in zip(workload.requests, workload.events, strict=True)
        if own[0].after >= remaining
    ]  # fmt: skip
    hold(bool(chosen), f"no request needs {remaining} batches after its first token")
    return Workload(chosen, workload.limits, workload.cost)


def _splits(
    workload: Workload, late: Workload, argument: PhasesTime, count: int
) -> tuple[int, list[Split]]:
    """d (1 if unknown), and the intervals of where the split may be."""
    plain = all(len(own) == 1 for own in workload.events)
    total, prompts = workload.new_tokens, sum(own[0].low for own in late.events)
    rest = sum(s.events - 1 for s in late.stretches) if plain else 0
    others = total - prompts - rest
    longest = max(own[0].after for own in late.events)
    sizes = sorted(own[0].low for own in late.events)
    first_at = [-(-upto // workload.limits.fill_tokens) for upto in accumulate(sizes)]
    sums = list(accumulate(first_at, initial=0))
    fit = workload.cap // -(-(sizes[0] + 1) // workload.limits.block_tokens)
    per_batch = max(1, min(fit, late.most_steps)) if plain else 1

    def decodes_before(batch: int) -> int:
        started, full = bisect_right(first_at, batch), bisect_right(first_at, batch - longest)
        running = started - full
        return full * longest + running * batch - (sums[started] - sums[full])

    start = first_fill_batches(late)
    end = max(start, count, first_at[-1] + longest)
    width = end + 1 - start
    edges = sorted({start + width * i // argument.intervals for i in range(argument.intervals + 1)})
    most = total - prompts
    found = []
    for low, following in pairwise(edges):
        high = following - 1
        needed = per_batch * max(argument.remaining, count - high)
        if plain:
            least = min(most, max(0, rest - decodes_before(high)))
            corner = min(max(others + needed, least), most)
            candidates = [(x2, max(needed, x2 - others)) for x2 in (least, corner, most)]
        else:
            candidates = [(0, needed), (most, needed)]
        found.append(Split(low, tuple(candidates)))
    return per_batch, found


def _rereads(late: Workload, line: Line, units: Units) -> int:
    """What the first fills of Q cost more by the excess of ``line``."""
    steps = steps_of(late.cost, late.limits.fill_tokens, units, token=0, line=line)
    bare = steps.without_excess()
    known: dict[int, int] = {}
    for own in late.events:
        size = own[0].low
        if size not in known:
            known[size] = steps.fill(size) - bare.fill(size)
    return sum(known[own[0].low] for own in late.events)
