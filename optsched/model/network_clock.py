"""Columns of the clock: when batches start and end, and what objectives make of that.

Times of columns are in microseconds, so that a solver's tolerance of 1e-6 is far below a batch
time. With a = the least duration of any batch, and batches in the slots of
:mod:`optsched.model.network_slots`,

    rest_j     duration of batch j beyond a y_j
    over_m     how long after T_m, the start of interval m, the batch before it ends
    end_j      end of batch j:  T_m + over_m + durations of the interval's batches up to j

and per objective

    mean latency, mean TTFT    unary u_qj: 1 if at least q requests are unfinished (have no first
                               token) before batch j. With tau_qj = u_qj - u_q at the start of the
                               next interval, 1 in the interval in which it drops to 0,
                               share_qj = rest_j tau_qj, carried_qm = over_m tau_q(first slot of m)
    max latency                longest; late_mj: 1 if a request of one of the first m arrivals is
                               unfinished before batch j
    goodput                    see :mod:`optsched.model.network_goodput`

Offline there is one interval, the makespan needs none of these, and the max latency is the
makespan.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optsched.instance import Instance
from optsched.model.batch_durations import least_duration_s, most_beyond_s
from optsched.model.milestones import earliest_batches
from optsched.model.network_columns import Allocation, Columns
from optsched.model.network_goodput import Goodput, goodput_columns
from optsched.model.network_slots import Slots
from optsched.model.types import RequestType
from optsched.objective import Objective

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

MICROSECONDS = 1e6
_MEANS = {Objective.MEAN_LATENCY: False, Objective.MEAN_TTFT: True}


@dataclass(frozen=True, kw_only=True, eq=False)
class Count:
    """How many requests have not passed a milestone, in unary.

    ``first_tokens`` says that the milestone is the first token, not the end. ``unary`` and
    ``share`` have shape ``(requests, slots)``, ``carried`` ``(requests, levels - 1)``.
    """

    first_tokens: bool
    unary: Columns
    share: Columns
    carried: Columns


@dataclass(frozen=True, kw_only=True, eq=False)
class Clock:
    """Columns of the clock; groups that the program does not need are empty.

    Parameters
    ----------
    base_s : float
        a, seconds.
    beyond_s : float array, shape ``(requests + 1,)``
        The most that ``rest`` can be in a batch of at most q requests, seconds.
    latest_s : float array, shape ``(slots,)``
        An upper bound on the end of each batch, seconds.
    rest, end : Columns, shape ``(slots,)``
    over : Columns, shape ``(levels - 1,)``
        From interval 1 on; at most the longest batch.
    late, prefix : Columns, shape ``(levels - 1, slots)``
        ``prefix`` is 1 if all requests of the first m arrivals have a first token after batch j;
        only for ``fcfs``.
    left : Columns, shape ``(types, slots)``
        Unfinished requests of each type before batch j.
    counts : dict
        By objective, for the two means.
    longest : Columns, shape ``(1,)``
    goodput : Goodput or None
    """

    base_s: float
    beyond_s: FloatArray
    latest_s: FloatArray
    rest: Columns
    end: Columns
    over: Columns
    late: Columns
    prefix: Columns
    left: Columns
    counts: dict[Objective, Count]
    longest: Columns
    goodput: Goodput | None


def clock_columns(
    instance: Instance,
    types: tuple[RequestType, ...],
    slots: Slots,
    new: Allocation,
    *,
    objectives: Collection[Objective],
    policies: Collection[str],
) -> Clock:
    """The columns that these objectives need."""
    count, levels = slots.count, slots.levels
    online = levels > 1
    means = [name for name in _MEANS if name in objectives]
    judged = Objective.GOODPUT in objectives
    longest = online and Objective.MAX_LATENCY in objectives
    paced = judged and any(kind.tpot_slo_s < np.inf for kind in types)
    base, beyond = least_duration_s(instance), most_beyond_s(instance, types)
    latest = _latest_ends_s(slots, base + float(beyond[-1]))
    requests = np.array([kind.count for kind in types], dtype=np.float64)

    def times(label: str, needed: bool, size: int, most_s: float) -> Columns:
        return new.add(label, size if needed else 0, upper=MICROSECONDS * most_s)

    def flags(label: str, needed: bool) -> Columns:
        shape = (levels - 1 if needed else 0, count)
        return new.add(label, shape, upper=1.0, integer=True)

    return Clock(
        base_s=base,
        beyond_s=beyond,
        latest_s=latest,
        rest=times("rest_us", online or bool(means) or judged, count, float(beyond[-1])),
        end=times("end_us", longest or judged, count, float(latest[-1])),
        over=times("over_us", online, levels - 1, base + float(beyond[-1])),
        late=flags("late", longest),
        prefix=flags("prefix", online and "fcfs" in policies),
        left=new.add(
            "left", (len(types) if longest or paced else 0, count),
            upper=requests[:, None] if longest or paced else 0.0,
        ),
        counts={name: _count(instance, types, slots, new, name, base, beyond) for name in means},
        longest=new.add("longest_us", 1 if longest else 0),
        goodput=goodput_columns(types, slots, new, base, len(instance.cost.pieces))
        if judged else None,
    )  # fmt: skip


def _latest_ends_s(slots: Slots, longest_s: float) -> FloatArray:
    """A batch ends at most one batch after the last moment at which it can start."""
    place = np.arange(slots.count) - slots.first[slots.interval]
    following = np.append(slots.arrivals_s[1:], np.inf)[slots.interval]
    last = slots.arrivals_s[-1] + (place + 1) * longest_s
    latest: FloatArray = np.minimum(following, last) + longest_s
    return latest


def _count(
    instance: Instance,
    types: tuple[RequestType, ...],
    slots: Slots,
    new: Allocation,
    objective: Objective,
    base_s: float,
    beyond_s: FloatArray,
) -> Count:
    """Columns of one mean."""
    first_tokens = _MEANS[objective]
    label = "untokened" if first_tokens else "unfinished"
    shape = len(instance), slots.count
    passed = most_passed(instance, types, slots, first_tokens=first_tokens)
    certain = np.arange(1, len(instance) + 1)[:, None] <= len(instance) - passed
    longest = MICROSECONDS * float(beyond_s[-1])
    return Count(
        first_tokens=first_tokens,
        unary=new.add(label, shape, lower=certain.astype(np.float64), upper=1.0, integer=True),
        share=new.add(f"{label}_share_us", shape, upper=longest),
        carried=new.add(
            f"{label}_carried_us", (len(instance), slots.levels - 1),
            upper=longest + MICROSECONDS * base_s,
        ),
    )  # fmt: skip


def most_passed(
    instance: Instance, types: tuple[RequestType, ...], slots: Slots, *, first_tokens: bool
) -> IntArray:
    """Per slot, the most requests that can have passed the milestone before it, ``(slots,)``.

    The k-th passes it after :func:`optsched.model.milestones.earliest_batches` [k - 1] batches at
    the earliest, and a request not before it has had as many slots as it has tokens.
    """
    slot = np.arange(slots.count)
    together = np.searchsorted(
        earliest_batches(instance, first_tokens=first_tokens), slot, side="right"
    )
    tokens = np.array([1 if first_tokens else kind.output_tokens for kind in types])
    earliest = slots.first[:-1] + tokens[:, None]  # (types, levels)
    alone = (slots.supply[:, :, None] * (earliest[:, :, None] <= slot)).sum(axis=(0, 1))
    passed: IntArray = np.minimum(together, alone)
    return passed
