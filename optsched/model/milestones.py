"""When, at the earliest, the k-th request of a schedule has its first token or is finished.

Both are sums over what k requests need at the least, whichever they are. The k-th request to
finish does so in a batch j for which

- k requests have had memory: the k smallest areas, sum over g of the pages of what is known with g
  tokens generated, fit in j M;
- their tokens were processed: the k smallest I + O - 1 + responses fit in j C, the k smallest I in
  j min(C, P);
- the k smallest O fit in j ``batch_requests``, and j is at least the k-th smallest O;

and j batches that generate the tokens of k requests take at least slope j + the k smallest works
(:mod:`optsched.model.makespan_lines`). It also ends no earlier than the k-th smallest arrival plus
time alone, which is work and, until the end, its calls, as it is not processed in a pause. And of
any k requests all but n - n' are among the n' that arrive at T or later, which take at least so
long after T, among themselves. First tokens likewise, with one token for each request. This is the
preemptive shortest-first relaxation of a single machine, in batches (Schrage 1968); it holds for
every schedule, chunked or not.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optsched.instance import Instance
from optsched.model.contexts import contexts
from optsched.model.makespan_lines import makespan_lines

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_MOST_ARRIVALS = 100


def earliest_ends(instance: Instance, *, first_tokens: bool = False) -> FloatArray:
    """Entry k - 1: when k requests are finished (have a first token) at the earliest, seconds on
    the clock whose 0 is the earliest arrival; shape ``(requests,)``, nondecreasing."""
    work = [(line.slope, line.work) for line in makespan_lines(instance, first_tokens=first_tokens)]
    work = [(slope, of_requests) for slope, of_requests in work if slope >= 0]
    outputs = np.ones_like(instance.output_tokens) if first_tokens else instance.output_tokens
    alone: FloatArray = np.zeros(len(instance))
    for slope, of_requests in work:
        alone = np.maximum(alone, slope * outputs + of_requests)
    if not first_tokens:
        alone = alone + [sum(call.duration_s for call in r.calls) for r in instance.requests]
    ends = np.sort(instance.release_s + alone)
    for arrival in _some(np.unique(instance.release_s)):
        late = instance.release_s >= arrival
        batches = _batches(instance, late, first_tokens=first_tokens)
        tail = slice(len(instance) - batches.size, None)
        for slope, of_requests in work:
            together = slope * batches + np.cumsum(np.sort(of_requests[late]))
            ends[tail] = np.maximum(ends[tail], arrival + together)
    return ends


def _some(arrivals_s: FloatArray) -> list[float]:
    """All arrivals if they are few; each is an argument by itself."""
    step = -(-arrivals_s.size // _MOST_ARRIVALS)
    return [float(arrival) for arrival in arrivals_s[::step]]


def earliest_batches(instance: Instance, *, first_tokens: bool = False) -> IntArray:
    """Entry k - 1: the first batch after which k requests can be finished (have a first token)."""
    every = np.ones(len(instance), dtype=np.bool_)
    return _batches(instance, every, first_tokens=first_tokens)


def _batches(instance: Instance, chosen: NDArray[np.bool_], *, first_tokens: bool) -> IntArray:
    """:func:`earliest_batches` of the chosen requests among themselves, shape ``(chosen,)``."""
    limits = instance.limits
    prompt, output = instance.prompt_tokens[chosen], instance.output_tokens[chosen]
    final = instance.final_tokens[chosen]
    if first_tokens:
        output, final = np.ones_like(output), prompt
    needs = [
        (_areas(instance, contexts(instance).known[chosen], output), limits.kv_tokens),
        (final, limits.batch_tokens),
        (prompt, limits.fill_tokens),
    ]
    if limits.batch_requests is not None:
        needs.append((output, limits.batch_requests))
    batches = np.sort(output)
    for need, capacity in needs:
        batches = np.maximum(batches, -(-np.cumsum(np.sort(need)) // capacity))
    return batches


def _areas(instance: Instance, known: IntArray, output: IntArray) -> IntArray:
    """Per request, the KV of its token events in whole pages, summed."""
    block = instance.limits.block_tokens
    areas = [
        int((block * -(-sizes[:o] // block)).sum())
        for sizes, o in zip(known, output.tolist(), strict=True)
    ]
    return np.array(areas, dtype=np.int64)
