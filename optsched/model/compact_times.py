"""What a schedule gives the clock columns of the compact formulation."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from optsched.errors import UnsupportedError
from optsched.instance import Instance
from optsched.model.compact_clock import (
    AFTER_FIRST,
    UNTIL_FINISH,
    UNTIL_FIRST,
    BoolArray,
    Clock,
    Goal,
    objectives_s,
)
from optsched.model.compact_values import Values
from optsched.model.contexts import Calls, calls_of
from optsched.model.milp import FloatArray, IntArray
from optsched.objective import Objective


def batch_seconds(
    index: Mapping[str, IntArray], durations: Mapping[str, float], point: FloatArray
) -> FloatArray:
    """How long every batch takes, from the columns that say so; shape ``(batches,)``."""
    total: FloatArray = np.zeros(index["used"].size)
    for name, duration in durations.items():
        units = point[index[name]]
        total = total + duration * (units.sum(axis=0) if units.ndim > 1 else units)
    return total


def clock_values(
    instance: Instance, clock: Clock, found: Values, takes_s: FloatArray
) -> tuple[Values, Mapping[Objective, float]]:
    """Arrays of the names and shapes of :mod:`optsched.model.compact_clock_columns`, and the value
    of every objective.

    Every batch starts at the end of the one before or at the latest arrival or call return of what
    it processes.
    ``takes_s``, shape ``(batches,)``, is how long each takes.
    """
    runs = clock.classes.astype(int) @ (found["tokens"] > 0) > 0
    arrived = np.maximum.accumulate(runs, axis=1)
    begun = found["known"] > instance.prompt_tokens[:, None]
    done = found["done"] > 0
    alive = {UNTIL_FINISH: ~done, UNTIL_FIRST: ~begun, AFTER_FIRST: begun & ~done}
    alive = {name: here[:, :-1] for name, here in alive.items()}
    returns = _returns(calls_of(instance), found)
    true_end, _ = _ends(np.unique(instance.release_s)[1:], arrived, returns, takes_s)
    times = {name: (here * np.diff(true_end)).sum(axis=1) for name, here in alive.items()}
    meets = _meets(instance, times)
    end, at_once = _ends(clock.arrivals_s, arrived, returns, takes_s)
    lengths = {name: here * np.diff(end) / clock.unit_s for name, here in alive.items()}
    first = np.diff(arrived.astype(int), axis=1, prepend=0)  # 1 in the batch where it is first 1
    across = {f"{name}_skips": first @ here.T for name, here in alive.items()}
    latency = times[UNTIL_FINISH] - instance.release_s
    alpha, beta = np.array(instance.cost.pieces).T[:, :, None]
    tokens = found["tokens"].sum(axis=0)
    largest = (alpha + beta * tokens).argmax(axis=0)
    weight = instance.weights
    columns: Values = {
        "end": end / clock.unit_s, "arrived": arrived, "begun": begun, "at_once": at_once,
        "start": (end[1:] - takes_s) / clock.unit_s,
        "worst": np.array([latency.max() / clock.unit_s]), "misses": ~meets,
        "piece": (np.arange(alpha.size)[:, None] == largest) & (tokens > 0),
        **lengths, **across,
    }  # fmt: skip
    return columns, {
        Objective.MAKESPAN: float(true_end[-1]),
        Objective.MEAN_LATENCY: float(latency.mean()),
        Objective.MEAN_TTFT: float((times[UNTIL_FIRST] - instance.release_s).mean()),
        Objective.MAX_LATENCY: float(latency.max()),
        Objective.GOODPUT: float(weight @ meets),
    }


def _returns(calls: Calls, found: Values) -> dict[int, list[tuple[int, float]]]:
    """By batch from 0: the calls that it resumes from, each with the batch that made it and how
    long it takes, seconds."""
    returns: dict[int, list[tuple[int, float]]] = {}
    for made, resumed, duration_s in zip(
        found["made_batch"].tolist(), found["resumed_batch"].tolist(), calls.duration_s.tolist(),
        strict=True,
    ):  # fmt: skip
        returns.setdefault(resumed, []).append((made, duration_s))
    return returns


def _ends(
    arrivals_s: FloatArray,
    arrived: BoolArray,
    returns: Mapping[int, list[tuple[int, float]]],
    takes_s: FloatArray,
) -> tuple[FloatArray, BoolArray]:
    """The end at every boundary, and whether each batch starts right at the end of the last."""
    earliest = (arrivals_s[:, None] * arrived).max(axis=0, initial=0.0)
    end, at_once = np.zeros(takes_s.size + 1), np.zeros(takes_s.size, dtype=bool)
    for j, duration in enumerate(takes_s.tolist()):
        back = (end[made + 1] + waits_s for made, waits_s in returns.get(j, ()))
        start = max(float(earliest[j]), *back, 0.0)
        at_once[j] = end[j] >= start
        end[j + 1] = max(end[j], start) + duration
    return end, at_once


def _meets(instance: Instance, times: Mapping[str, FloatArray]) -> BoolArray:
    """Whether each request meets all its service-level objectives, shape ``(requests,)``."""
    gaps = np.maximum(instance.output_tokens - 1, 1)
    several = instance.output_tokens > 1
    met: BoolArray = (
        (times[UNTIL_FINISH] - instance.release_s <= objectives_s(instance, "latency_slo_s"))
        & (times[UNTIL_FIRST] - instance.release_s <= objectives_s(instance, "ttft_slo_s"))
        & (~several | (times[AFTER_FIRST] / gaps <= objectives_s(instance, "tpot_slo_s")))
    )
    return met


def require_within(
    instance: Instance,
    clock: Clock,
    goal: Goal,
    worth: Mapping[Objective, float],
) -> None:
    """Raise :class:`UnsupportedError` for a schedule that the program cuts off: one that is worse
    than its cutoff or breaks a limit on an objective."""
    for objective, limit in goal.limits().items():
        value, worse = worth[objective], -1 if objective.maximised else 1
        if worse * (value - limit) > clock.allowance(instance, objective, limit):
            raise UnsupportedError(
                f"the schedule's {objective.value} is {value:.6g} {objective.unit}, expected at "
                f"{'least' if objective.maximised else 'most'} {limit:.6g}"
            )
