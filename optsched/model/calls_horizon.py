"""How many batches an optimal schedule of chunked fills needs when requests make calls.

For every objective but goodput with TPOT: each argument turns a schedule into one in which no batch
ends later, batch by batch, so no token comes later. A pause is no obstacle: a batch that processes
a part of what it processed before waits for no other call, and a call returns no later. There is no
swapping here: a swap may be made in good time in a batch that is otherwise useless. Nor are there
policies on the handling of calls, as requests are evicted in pauses, nor ``no-hold``.

useful tokens
    As in :mod:`optsched.model.horizon`: what a request processes towards its token k + 1 and loses
    to an eviction is left out, which leaves at most S_k tokens, the responses of calls included, so
    K = sum S_k in all and no more than K batches with any. Two further batches remain between two
    of these in a row only if a request generates token k in the one, was evicted in between and
    starts its refill in the other. For every k >= 1 of a request that happens at most once: at most
    K + 2 min(K - 1, sum (O - 1)) batches.

merged batches
    With one affine piece, alpha >= 0, p_mc >= 2 p_sq, M <= min(C, P) and no limit on requests. Take
    a schedule as above of fewest batches. A batch b that generates nothing is put into the next one
    b' unless

    - b' processes a request for the first time since its arrival or since a call: b' starts at the
      end of b otherwise, so that their union ends no later. It takes no longer than both, holds
      what b' held, and processes no more tokens than that, hence than C and P;
    - b' processes what b evicted. Evictions are made as early as possible, so that request was
      processed in the batch before b: it generated its token k there, once for every k >= 1, or b
      follows two batches that remain above, also once for every such k;
    - the request's chunk in b leaves one token, which is a decode in b', and would be dearer as
      part of a prefill: once for every k >= 1, and never if
      3 p_sq + p_mc (S - 2) <= d_kv (S - 1) + d_req for every S.

    With sum O batches that generate: sum O + late arrivals + calls + 3 sum (O - 1), and sum (O - 1)
    more if decodes may be cheaper. Without evictions (``no-evict``) the term of 3 is not there. Not
    under ``no-hybrid``, which may forbid the union.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from optsched.handling import required_handling
from optsched.instance import Instance, Request
from optsched.model.contexts import contexts


def chunked_batches(instance: Instance, policies: Collection[str]) -> list[tuple[int, str]]:
    """Horizons, each with the reason why no schedule with more batches is better; there are none
    where requests can be swapped or a policy stands in the way."""
    swaps = instance.limits.host_kv_tokens > 0 and "no-swap" not in policies
    handled = any(
        handling is not None and request.calls
        for handling, request in zip(
            required_handling(instance, policies), instance.requests, strict=True
        )
    )
    if swaps or handled or {"no-hold", "nonpreemptive"} & set(policies):
        return []
    known = contexts(instance).known
    output = instance.output_tokens.tolist()
    tokens = sum(int(sizes[:o].sum()) for sizes, o in zip(known, output, strict=True))
    further = sum(output) - len(output)
    found = [
        (tokens + 2 * min(tokens - 1, further), "a schedule without useless batches is no worse")
    ]
    if _merges(instance) and "no-hybrid" not in policies:
        calls = sum(len(request.calls) for request in instance.requests)
        batches = sum(output) + int((instance.release_s > 0).sum()) + calls
        batches += 0 if "no-evict" in policies else 3 * further
        batches += 0 if _decodes_are_dear(instance) else further
        found.append((batches, "batches that generate nothing can be merged"))
    return found


def _merges(instance: Instance) -> bool:
    """Whether two batches together take no longer than one after the other, and may be one."""
    limits, cost = instance.limits, instance.cost
    return (
        len(cost.pieces) == 1
        and cost.pieces[0][0] >= 0
        and cost.mixed >= 2 * cost.p_sq
        and limits.kv_tokens <= limits.fill_tokens
        and (limits.batch_requests is None or limits.batch_requests >= len(instance))
    )


def _decodes_are_dear(instance: Instance) -> bool:
    """Whether a last token costs no more as part of a prefill than as a decode."""
    cost = instance.cost
    size = np.arange(2, int(instance.final_tokens.max()) + 1, dtype=np.float64)
    attention = 3 * cost.p_sq + cost.mixed * (size - 2)
    return bool((attention <= cost.decode_time(size - 1)).all())


def completion_alone(
    instance: Instance, policies: Collection[str], *, unchunked: bool
) -> int | None:
    """The most batches that complete any state of a schedule with calls or swapping, one request
    after another; None if that is not known.

    The first batch evicts all others, wherever their KV is. Then each request in turn, in order of
    arrival, is filled from what it has, or from nothing, and goes on to its end; its calls are
    waited for. So ``fcfs``, ``no-hybrid`` and ``no-swap`` hold, but not ``no-evict`` nor what fixes
    the handling of the calls that were under way.
    """
    if {"no-evict", "no-hold", "nonpreemptive"} & set(policies):
        return None
    if any(required_handling(instance, policies)):
        return None
    most = instance.limits.fill_tokens
    if unchunked and int(instance.final_tokens.max()) > most:
        return None
    known = contexts(instance).known
    return sum(_alone(r, known[i], most) for i, r in enumerate(instance.requests))


def _alone(request: Request, known: np.ndarray, most: int) -> int:
    """Batches of a request by itself, from whatever number of tokens it has generated."""
    response = {call.after_tokens: call.response_tokens for call in request.calls}
    longest = rest = 0
    for k in reversed(range(request.output_tokens)):
        refill, append = -(-int(known[k]) // most), -(-(1 + response.get(k, 0)) // most)
        longest, rest = max(longest, refill + rest), append + rest
    return longest
