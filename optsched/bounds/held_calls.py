"""B9, calls: KV that is kept during a call takes memory, KV that is not has to come back.

Let a + b n be a line below the batch-time law. With the handling h of every call, every schedule
of N batches takes at least

    work      a N + p0 Np + sum over events of w(h)
    memory    sum over events of p(S) / cap (a + the least time of a batch with its last step)
              + sum over preserved calls of p(m) / cap * duration

since N >= N0 (B1, B2), and since T cap is at least the integral over time of the pages in use: of
each event during its batch, of a preserved call while it runs; those of one request do not overlap.
For any 0 <= theta <= 1 the mean (1 - theta) work + theta memory is a bound, and as h is the
schedule's choice for each event on its own,

    T >= (1 - theta) (a N0 + p0 Np) + theta a sum p(S) / cap + sum over events of the least over h

The steps from the event before a call, of m tokens, to the one after it, of S, either lose the KV
(a whole refill of S), or copy it to the host and back (2 swap_tok m on top of the append), or
neither; only then it is held all the time. The bound is concave in theta.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optsched.bounds.piecewise import Workload, best_line, piece_lines, prefill_setups
from optsched.bounds.token_time import Line, lines
from optsched.bounds.work import StepLaw, step_law
from optsched.certificate import HELD_PARTS
from optsched.instance import Instance, Limits

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
HELD = "B9 held calls"
MOST_EVENTS = 1_000_000
_LINES = 3  # are tried: those with which work alone gives most


@dataclass(frozen=True, kw_only=True)
class HeldCalls:
    """The bound, and the choices that prove it: a line, and theta in parts of HELD_PARTS."""

    value_s: float
    line: Line
    memory_parts: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Events:
    """Token events one by one; columns of shape ``(events,)``: KV tokens after the event before
    (0 for the first), after this one, and the duration of the call between them (-1 for none)."""

    before: IntArray
    size: IntArray
    call_s: FloatArray


def held_calls(instance: Instance, workload: Workload, batches: int) -> HeldCalls | None:
    """B9 with N0 = ``batches``; None without calls, or with more than MOST_EVENTS tokens."""
    if not instance.has_calls or int(instance.output_tokens.sum()) > MOST_EVENTS:
        return None
    events = events_of(instance)
    setups_s = prefill_setups(workload)
    candidates = (*piece_lines(workload), *lines(workload.law))
    promising = sorted(candidates, key=lambda line: -best_line(workload, (line,), batches))
    found = []
    for line in promising[:_LINES]:
        value = _bound_of(events, line, workload.limits, workload, batches, setups_s)
        theta = _highest(value)
        found.append(HeldCalls(value_s=value(theta), line=line, memory_parts=theta))
    return max(found, key=lambda each: each.value_s, default=None)


def events_of(instance: Instance) -> Events:
    """The token events of all requests."""
    before, size, call_s = [], [], []
    for request in instance.requests:
        new = np.ones(request.output_tokens, dtype=np.int64)
        new[0] = request.prompt_tokens
        waits = np.full(request.output_tokens, -1.0)
        for call in request.calls:
            new[call.after_tokens] += call.response_tokens
            waits[call.after_tokens] = call.duration_s
        sizes = np.cumsum(new)
        size.append(sizes)
        before.append(sizes - new)
        call_s.append(waits)
    return Events(
        before=np.concatenate(before), size=np.concatenate(size), call_s=np.concatenate(call_s)
    )  # fmt: skip


def _bound_of(
    events: Events, line: Line, limits: Limits, workload: Workload, batches: int, setups_s: float
) -> Callable[[int], float]:
    """The bound under ``line`` as a function of theta in parts."""
    steps = step_law(workload.cost, limits, line)
    cap = limits.kv_tokens // limits.block_tokens
    share = -(-events.size // limits.block_tokens) / cap
    once_s = line.slope_s  # a batch takes this for the one token that it has at least
    refill_s, append_s, decode_s = _ways(events, steps)
    plain = (events.call_s < 0) & (events.before > 0)
    called = events.call_s >= 0
    kept = events.before[called]
    held_s = -(-kept // limits.block_tokens) / cap * events.call_s[called]
    copied_s = 2 * workload.cost.swap_tok * kept
    fits = kept <= limits.host_kv_tokens

    def value(theta: int) -> float:
        memory = theta / HELD_PARTS
        work = 1 - memory
        best = work * refill_s + memory * share * once_s
        decoded = work * decode_s + memory * share * decode_s
        best[plain] = np.minimum(best, decoded)[plain]
        appended = work * append_s[called] + memory * share[called] * once_s
        stays = appended + memory * held_s
        comes_back = np.where(fits, appended + work * copied_s, stays)
        best[called] = np.minimum(best[called], np.minimum(stays, comes_back))
        fixed = work * (line.intercept_s * batches + setups_s)
        return fixed + memory * line.intercept_s * float(share.sum()) + float(best.sum())

    return value


def _ways(events: Events, steps: StepLaw) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Least time of the steps to each event if all KV is lost, if none is, and of a decode to it.

    The last token of either may be a decode, but for the first event.
    """
    before, size = events.before, events.size
    nothing = np.zeros_like(size)
    less = np.maximum(size - 1, 1)
    decode_s = steps.decode_s(size)
    refill_s = steps.fill_s(size, nothing)
    later = before > 0
    ends_s = steps.fill_s(less, nothing) + decode_s
    refill_s = np.where(later, np.minimum(refill_s, ends_s), refill_s)
    # An append of one token is a decode.
    one = size - before == 1
    start = np.where(one, nothing, before)
    ends_s = steps.fill_s(less, start) + decode_s
    append_s = np.minimum(steps.fill_s(size, start), ends_s)
    return refill_s, np.where(one, decode_s, append_s), decode_s


def _highest(value: Callable[[int], float]) -> int:
    """Where a concave function of 0 .. HELD_PARTS is largest."""
    low, high = 0, HELD_PARTS
    while low < high:
        middle = (low + high) // 2
        if value(middle) < value(middle + 1):
            low = middle + 1
        else:
            high = middle
    return low
