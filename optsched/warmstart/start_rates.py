"""Start rates: how many requests of each group should have started by when, as a linear program.

Time is cut into buckets of ``stride`` batches. Column x[t, u] is the number of requests of group t
that start in bucket u and run without pause; per bucket they hold at most M and fill at most what
fits, and every group is served in the same proportion theta:

    maximise theta   with   sum over u of x[t, u] = theta * count[t]

The least horizon with theta >= 1 is the least number of batches, but for rounding. Its starts guide
the backward look-ahead, which admits each group no faster (bounds, "LP-guided look-ahead").
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optsched.instance import Instance, IntArray
from optsched.model.milp import Milp, block
from optsched.solvers.interrupted import unless_interrupted
from optsched.solvers.lp import solve_lp
from optsched.warmstart.groups import Groups

FloatArray = NDArray[np.float64]
_BUCKETS = 120
_HORIZONS = 5


@dataclass(frozen=True, kw_only=True, eq=False)
class StartRates:
    """Cumulative placements, backwards in time.

    Parameters
    ----------
    placed_by : float array, shape ``(groups, slots)``
        Requests of each group whose last token is in one of the slots 0 .. j, slot j being the
        (j + 1)-th batch from the end.
    batches : int
        The horizon.
    """

    placed_by: FloatArray
    batches: int


def start_rates(
    instance: Instance, groups: Groups, batches: int, spare_tokens: int, decode_room: int
) -> StartRates | None:
    """Rates of the shortest horizon found, ``batches`` at most; None if none serves everybody.

    Parameters
    ----------
    spare_tokens : int
        KV tokens left free, for what rounding to whole requests loses.
    decode_room : int
        Tokens of every batch that are not for fills.
    """
    best: StartRates | None = None
    horizon, stride = batches, max(1, batches // _BUCKETS)
    for _ in range(_HORIZONS):
        served, rates = _served(instance, groups, horizon, stride, spare_tokens, decode_room)
        if served >= 1 and (best is None or horizon < best.batches):
            best = StartRates(placed_by=rates / served, batches=horizon)
        following = int(horizon / served) if served > 0 else 2 * horizon
        horizon = max(following, horizon + stride) if served < 1 else following
        if best is not None and horizon >= best.batches:
            break
    return best


def _served(
    instance: Instance, groups: Groups, batches: int, stride: int, spare: int, decode_room: int
) -> tuple[float, FloatArray]:
    """theta of a horizon, and the cumulative placements of its solution."""
    buckets = max(1, -(-batches // stride))
    limits = instance.limits
    memory = float(max(limits.kv_tokens - spare, int(instance.final_tokens.max())))
    room = max(1, min(limits.fill_tokens, limits.batch_tokens - decode_room))
    rows, columns, values = [], [], []
    spans, first = [], 0
    for t, (prompt, output) in enumerate(
        zip(groups.prompt.tolist(), groups.output.tolist(), strict=True)
    ):
        length = -(-output // stride)
        starts = np.arange(max(0, buckets - length + 1))
        held = np.zeros(length * stride)
        held[:output] = prompt + np.arange(output)
        column = first + starts
        covered = starts[:, None] + np.arange(length)
        rows += [covered.ravel(), buckets + starts, np.full(starts.size, 2 * buckets + t)]
        columns += [np.repeat(column, length), column, column]
        mean = held.reshape(length, stride).mean(axis=1)
        values += [np.tile(mean, starts.size), np.full(starts.size, float(prompt)),
                   np.ones(starts.size)]  # fmt: skip
        spans.append((first, starts.size))
        first += starts.size
    kinds = np.arange(len(groups))
    rows.append(2 * buckets + kinds)
    columns.append(np.full(kinds.size, first))
    values.append(-groups.size.astype(np.float64))
    upper = np.concatenate(
        [np.full(buckets, memory), np.full(buckets, float(stride * room)), np.zeros(kinds.size)]
    )
    lower = np.where(np.arange(upper.size) < 2 * buckets, -np.inf, 0.0)
    program = Milp(
        name="start-rates",
        cost=np.concatenate([np.zeros(first), [-1.0]]),
        offset=0.0,
        lower=np.zeros(first + 1),
        upper=np.full(first + 1, np.inf),
        integer=np.zeros(first + 1, dtype=np.bool_),
        column_names=tuple(f"x{k}" for k in range(first + 1)),
        blocks=(
            block(
                "rates", np.concatenate(rows), np.concatenate(columns), np.concatenate(values),
                lower, upper,
            ),
        ),
    )  # fmt: skip
    point = unless_interrupted(solve_lp(program)).point
    if point is None:
        return 0.0, np.zeros((kinds.size, 1))
    rates = np.zeros((kinds.size, buckets * stride))
    for t, (start, count) in enumerate(spans):
        # Backwards, the last start of a group is its first placement, in the last bucket.
        by_end = np.maximum(point[start : start + count], 0.0)[::-1]
        rates[t, : count * stride] = np.repeat(by_end / stride, stride)
    return float(point[-1]), np.cumsum(rates, axis=1)


class RateGate:
    """Places requests backwards no faster than the rates; who is most behind goes first.

    Parameters
    ----------
    rates : StartRates
    ahead : float
        Requests of a group that may be placed ahead of its rate.
    """

    def __init__(self, rates: StartRates, ahead: float) -> None:
        self._rates = rates.placed_by
        self._ahead = ahead
        self._placed = np.zeros(len(rates.placed_by))

    def urgency(self, slot: int, group: IntArray) -> FloatArray:
        """Requests of each group that are due and not placed, less one."""
        if slot >= self._rates.shape[1]:
            return np.zeros(group.size)
        due = self._rates[group, slot] + self._ahead
        return np.asarray(due - self._placed[group] - 1.0)

    def placed(self, group: int) -> None:
        """Count a request of ``group``."""
        self._placed[group] += 1
