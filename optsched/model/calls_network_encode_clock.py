"""The clock's columns at the point of a schedule, read off its arcs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from optsched.errors import UnsupportedError
from optsched.model.calls_network_prices import alone_s
from optsched.model.network_clock import MICROSECONDS

if TYPE_CHECKING:
    from optsched.model.calls_network import CallsNetworkVariables

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


def set_clock(variables: CallsNetworkVariables, point: FloatArray) -> None:
    """Fill in the columns of ``point`` that its arcs and used batches determine.

    Raises
    ------
    UnsupportedError
        The schedule ends later than any that matters.
    """
    arcs, clock, instance = variables.arcs, variables.clock, variables.instance
    taken = point[: len(arcs)] > 0
    generated = np.flatnonzero(taken & arcs.generates)
    # Batch that generates every token, by request.
    when: list[IntArray] = []
    for i, stages in enumerate(variables.stages):
        mine = generated[arcs.request[generated] == i]
        batch = np.zeros(len(stages), dtype=np.int64)
        batch[arcs.stage[mine]] = arcs.batch[mine]
        when.append(batch)
    _set_phases(variables, point, taken)
    start, end = _times(variables, taken, when, point)
    if (end > clock.end.upper).any():
        raise UnsupportedError(
            "the schedule is worse than the one whose value limits the program",
            hint="build the program with its value as the cutoff",
        )
    point[clock.start.numbers], point[clock.end.numbers] = start, end
    every = np.arange(1, variables.most + 1)
    for (i, token), row in clock.row_of_token.items():
        point[clock.made.numbers[row]] = every >= when[i][token - 1]
    spent = np.zeros((len(instance), variables.most))
    np.add.at(
        spent, (arcs.request[generated], arcs.batch[generated] - 1),
        MICROSECONDS * alone_s(instance, arcs)[generated],
    )  # fmt: skip
    point[clock.spent.numbers] = np.cumsum(spent, axis=1)[clock.chained]
    _set_passings(variables, point, when, end)


def _set_phases(
    variables: CallsNetworkVariables, point: FloatArray, taken: NDArray[np.bool_]
) -> None:
    arcs = variables.arcs
    steps = taken & arcs.generates
    for columns, mine in (
        (variables.any_decode, steps & ~arcs.prefill),
        (variables.any_prefill, steps & arcs.prefill),
    ):
        if columns.size:
            point[columns[arcs.batch[mine] - 1]] = 1.0


def _times(
    variables: CallsNetworkVariables, taken: NDArray[np.bool_], when: list[IntArray],
    point: FloatArray,
) -> tuple[FloatArray, FloatArray]:  # fmt: skip
    """Start and end of every batch, microseconds; the end of the last one after it."""
    arcs, instance, most = variables.arcs, variables.instance, variables.most
    cost, batches = instance.cost, int(point[variables.used].sum())
    tokens, seconds = np.zeros(most), np.zeros(most)
    busy = np.flatnonzero(taken)
    np.add.at(tokens, arcs.batch[busy] - 1, arcs.tokens[busy].astype(np.float64))
    np.add.at(seconds, arcs.batch[busy] - 1, arcs.attention_s[busy])
    for prefill, setup in ((False, cost.d0), (True, cost.p0)):
        mine = taken & arcs.generates & (arcs.prefill == prefill)
        seconds[np.unique(arcs.batch[mine]) - 1] += setup
    seconds += cost.token_time(tokens)
    start, end = np.zeros(most), np.zeros(most)
    now = 0.0
    for j in range(1, batches + 1):
        begin = now
        for i, stages in enumerate(variables.stages):
            for token in np.flatnonzero(when[i] == j).tolist():
                begin = max(begin, float(instance.release_s[i]))
                if token and stages.pause_s[token]:
                    returns = end[when[i][token - 1] - 1] + stages.pause_s[token]
                    begin = max(begin, float(returns))
        start[j - 1] = begin
        now = end[j - 1] = begin + float(seconds[j - 1])
    start[batches:] = end[batches:] = now
    return MICROSECONDS * start, MICROSECONDS * end


def _set_passings(
    variables: CallsNetworkVariables, point: FloatArray, when: list[IntArray], end: FloatArray
) -> None:
    clock, instance = variables.clock, variables.instance
    first, last = (np.array([end[batch[k] - 1] for batch in when]) for k in (0, -1))
    release = MICROSECONDS * instance.release_s
    for first_tokens, columns in clock.passed.items():
        point[columns.numbers] = first if first_tokens else last
    if len(clock.longest):
        point[clock.longest.numbers] = (last - release).max()
    if len(clock.met):
        for i, request in enumerate(instance.requests):
            limits = (first[i], request.ttft_slo_s), (last[i], request.latency_slo_s)
            point[clock.met.numbers[i]] = all(
                time - release[i] <= MICROSECONDS * slo + 1e-6
                for time, slo in limits
                if slo is not None
            )
