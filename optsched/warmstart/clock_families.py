"""Families of schedules for the objectives of the clock, with every setting that is tried."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from optsched.instance import Instance
from optsched.schedule import Schedule
from optsched.warmstart.groups import kv_area
from optsched.warmstart.ranked_lookahead import RankOptions, ranked_look_ahead
from optsched.warmstart.settings import knots
from optsched.warmstart.slo_aware import SloOptions, slo_aware

FloatArray = NDArray[np.float64]
_LARGE = 4000  # requests, from which on a schedule takes seconds
_SMALL = 40  # up to which gates and staggering make little difference
_GATES = ((16, 1), (20, 2), (4, 1), (24, 16), (12, 8))  # period, batches of it with fills
_SHORT = 64  # tokens of an output, for which a gate may wait
_KAPPAS = (0.0, 0.3, 0.7)
_SPARE = 1000  # KV tokens that early chunks may hold
_KEPT = (0.75, 0.85, 1.0)  # share of requests that are not given up, cheapest first
_FEW_KEPT = (0.75,)


def machine_time_s(instance: Instance) -> FloatArray:
    """Work of each request and its share of the constant per batch by the KV that it holds.

    The processing time of bound B6, under the steepest piece of the law that has a constant.
    """
    cost, limits = instance.cost, instance.limits
    prompt = instance.prompt_tokens.astype(np.float64)
    steps = (instance.output_tokens - 1).astype(np.float64)
    area = kv_area(instance.prompt_tokens, instance.output_tokens).astype(np.float64)
    constant, slope = max(cost.pieces, key=lambda piece: (piece[0] >= 0, piece[1]))
    fill = cost.p_sq * prompt * prompt + cost.p_req
    decodes = cost.d_kv * (area - prompt - steps) + cost.d_req * steps
    return slope * (prompt + steps) + fill + decodes + max(constant, 0.0) * area / limits.kv_tokens


def shortest_work(instance: Instance) -> Iterator[Schedule]:
    """Least machine time first."""
    yield from _ranked(instance, machine_time_s(instance))


def shortest_prompt(instance: Instance) -> Iterator[Schedule]:
    """Shortest prompt first."""
    yield from _ranked(instance, instance.prompt_tokens.astype(np.float64))


def for_service_levels(instance: Instance) -> Iterator[Schedule]:
    """By slack and by machine time per weight, with the dearest requests given up or not."""
    work, base = machine_time_s(instance), _base(instance, None)
    weight = instance.weights
    price = work / np.maximum(weight, 1e-12)
    shares = _FEW_KEPT if len(instance) > _LARGE else _KEPT
    for share in shares:
        given_up = np.inf if share == 1.0 else float(np.quantile(price, share)) * (1 + 1e-9)
        for by_slack in (False, True) if len(instance) <= _LARGE else (False,):
            options = SloOptions(work_s=work, by_slack=by_slack, given_up=given_up)
            yield slo_aware(instance, options, base).schedule(instance)


def _ranked(instance: Instance, rank: FloatArray) -> Iterator[Schedule]:
    base = _base(instance, rank)
    yield ranked_look_ahead(instance, base).schedule(instance)
    if len(instance) > _LARGE:
        return
    gates = [(1, 1), *(_GATES if len(instance) > _SMALL else _GATES[:1])]
    longest = int(instance.output_tokens.max())
    if len(instance) > _SMALL and longest < _SHORT:
        gates.append((longest + 2, 2))  # everybody ends before the next fills
    kappas = (None, *_KAPPAS) if len(instance) > _SMALL else (None,)
    for period, slots in gates:
        for kappa in kappas:
            for width in (1, base.width):
                options = replace(base, period=period, fill_slots=slots, kappa=kappa, width=width)
                yield ranked_look_ahead(instance, options).schedule(instance)


def _base(instance: Instance, rank: FloatArray | None) -> RankOptions:
    """Early chunks up to the first knot of the law, where it has one."""
    if rank is None:
        rank = np.zeros(len(instance))
    levels = [k for k in knots(instance.cost) if k < instance.limits.batch_tokens]
    if not levels:
        return RankOptions(rank=rank)
    return RankOptions(rank=rank, level=levels[-1], spare_tokens=_SPARE)
