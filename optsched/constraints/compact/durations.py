"""How long batches take, as terms of rows, in units of the clock."""

from __future__ import annotations

from optsched.constraints.compact.rows import Term, over_requests
from optsched.model.compact import CompactVariables
from optsched.model.compact_clock import Clock


def need_clock(v: CompactVariables) -> Clock:
    """The clock of variables that have one."""
    assert v.clock is not None
    return v.clock


def batch_time_terms(v: CompactVariables, sign: float) -> list[Term]:
    """``sign`` times the time of every batch, shape ``(batches,)`` and axes to sum over."""
    unit = need_clock(v).unit_s
    return [
        (v[name] if v[name].ndim == 1 else over_requests(v[name]), sign * duration / unit)
        for name, duration in v.columns.durations.items()
    ]


def attention_terms(v: CompactVariables, sign: float, *, swaps: bool = True) -> list[Term]:
    """``sign`` times what the steps of each request, and its swaps if asked for, add to a batch,
    ``(requests, batches)``, without the time of their tokens."""
    unit = need_clock(v).unit_s
    return [
        (v[name], sign * duration / unit)
        for name, duration in v.columns.durations.items()
        if v[name].ndim == 2 and name != "tokens" and (swaps or name != "moved")
    ]


def lines(v: CompactVariables) -> list[tuple[float, float]]:
    """Per affine piece: what a batch takes, and what each token adds, at least; in units."""
    cost, unit = v.instance.cost, need_clock(v).unit_s
    setup = min(cost.d0, cost.p0)
    return [((alpha + setup) / unit, beta / unit) for alpha, beta in cost.pieces]
