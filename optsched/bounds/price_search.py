"""Search for prices of batches, for one choice of what chunks are charged.

Which numbers of batches matter depends on the goal: with more than some n, or with fewer than some
other, a schedule is known to take longer than the goal without pricing memory (``horizons``). The
range between is priced by the duals of coarse programs, one for each part of it: a program for
many numbers of batches at once may use fractions of the last batches, so halving the range of
the weakest part proves more.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from fractions import Fraction

import msgspec
import numpy as np

from optsched.bounds.coarsening import bucket_stride, coarse_types, path_stride, prompt_cells
from optsched.bounds.exact_lagrangian import beyond_value, ground, horizon_value, largest_value
from optsched.bounds.horizons import beyond
from optsched.bounds.path_dp import SAFE
from optsched.instance import Instance
from optsched.model.coarse import BatchPrices, coarse_program
from optsched.pricing import BatchPricing, PricedBatches
from optsched.solvers.interrupted import unless_interrupted
from optsched.solvers.lp import solve_lp
from optsched.solvers.outcome import SolverOptions, Termination

_WIDENINGS = 3
_FIRST_GOAL, _ABOVE = 1.03, 1.004  # the goal over what is proved, or over the program's value
_WORTH_HALVING = Fraction(100_002, 100_000)
_WORTH_PRICING = 1.00001
_FLAT_BITS = 50
_FIRST_BITS, _MOST_BITS = 30, 60


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is proved, and by which prices."""

    value: Fraction
    pricing: BatchPricing


@dataclass(frozen=True, kw_only=True)
class _Part:
    """A horizon with its value, for schedules of ``least`` to its ``most_batches`` batches;
    ``estimate_s`` is the value of the coarse program."""

    least: int
    horizon: PricedBatches
    value: Fraction
    estimate_s: float


class PriceSearch:
    """Prices on finer and finer buckets; keeps the best found.

    ``promised_s`` is the largest value of coarse programs for all numbers of batches.
    """

    def __init__(
        self, instance: Instance, knee_tokens: int, excess_s: float, least: int,
        target_s: float | None, deadline: float | None,
    ) -> None:  # fmt: skip
        grounds = [
            (base, counted)
            for counted in ((True, False) if instance.cost.d0 else (False,))
            if (base := ground(
                instance, counted=counted, knee_tokens=knee_tokens, excess_s=excess_s
            )) is not None
        ]  # fmt: skip
        self.base, counted = max(grounds, key=lambda pair: pair[0].work)
        self._least, self._target_s, self._deadline = least, target_s, deadline
        self._second = self.base.units.per_second
        self._beyond = beyond(self.base)
        self._types = coarse_types(self.base.requests)
        self._refill_s = np.array([excess / self._second for excess in self.base.refill])
        slope_s = self._beyond.best_slope(least)
        self._cells = prompt_cells(self.base.requests)
        self.best = Found(
            value=beyond_value(self.base, slope_s, least),
            pricing=BatchPricing(
                cells=self._cells, counted=counted, knee_tokens=knee_tokens, excess_s=excess_s,
                beyond_slope_s=slope_s, horizons=(),
            ),
        )  # fmt: skip
        self._unpriced_s = float(self.best.value)
        self._goal_s = self._unpriced_s * _FIRST_GOAL
        self.promised_s = self._unpriced_s

    @property
    def done(self) -> bool:
        """Whether the target is reached or time is up."""
        late = self._deadline is not None and time.monotonic() >= self._deadline
        return late or (self._target_s is not None and self.best.value >= self._target_s)

    def run(self, nodes: int, halvings: int) -> None:
        """Coarse programs of at most ``nodes`` nodes, for ranges of batch numbers halved so often;
        again with a wider range while that is what limits the bound."""
        for _ in range(_WIDENINGS):
            if self.done:
                return
            if self._target_s is not None:
                self._goal_s = min(self._goal_s, self._target_s)
            estimate_s = self._cover(self._goal_s, nodes, halvings)
            self.promised_s = max(self.promised_s, estimate_s or 0.0)
            if estimate_s is None or estimate_s <= self._unpriced_s * _WORTH_PRICING:
                return
            reached, self._goal_s = self._goal_s, estimate_s * _ABOVE
            if estimate_s <= reached:
                return

    def _cover(self, goal_s: float, nodes: int, halvings: int) -> float | None:
        """Cover all numbers of batches that could be below ``goal_s``; the least value of the
        coarse programs, None if one was not solved."""
        flat_to, slope_s = self._beyond.flat_horizon(goal_s)
        enough = self._beyond.horizon(goal_s)
        if enough is None:
            return None
        most = max(enough, self._least, flat_to + 1)
        flat = [_flat(flat_to, slope_s, self._block)] if flat_to >= self._least else []
        part = self._priced(max(self._least, flat_to + 1), most, nodes)
        parts = []
        if part is not None:
            parts = [part]
            self._keep(flat, parts, most)
        for _ in range(halvings):
            weakest = min(parts, key=lambda p: p.value, default=None)
            if weakest is None or self.done or weakest.least == weakest.horizon.most_batches:
                break
            middle = (weakest.least + weakest.horizon.most_batches) // 2
            ends = ((weakest.least, middle), (middle + 1, weakest.horizon.most_batches))
            halves = [self._priced(low, high, nodes) for low, high in ends]
            solved = [half for half in halves if half is not None]
            if len(solved) < len(halves):
                break
            parts = [p for p in parts if p is not weakest] + solved
            self._keep(flat, parts, most)
            if min(half.value for half in solved) <= weakest.value * _WORTH_HALVING:
                break
        return min((p.estimate_s for p in parts), default=None)

    def _keep(self, flat: list[PricedBatches], parts: list[_Part], most: int) -> None:
        """Keep what these horizons prove together if it is the best so far."""
        slope_s = self._beyond.best_slope(most + 1)
        values = [p.value for p in parts] + [beyond_value(self.base, slope_s, most + 1)]
        values += [horizon_value(self.base, h, self._cells, self._least) for h in flat]
        if min(values) > self.best.value:
            ordered = sorted(parts, key=lambda p: p.least)
            horizons = (*flat, *(p.horizon for p in ordered))
            pricing = msgspec.structs.replace(
                self.best.pricing, beyond_slope_s=slope_s, horizons=horizons
            )  # fmt: skip
            self.best = Found(value=min(values), pricing=pricing)

    def _priced(self, least: int, most: int, nodes: int) -> _Part | None:
        """Prices for schedules of ``least`` to ``most`` batches; None if time runs out."""
        limits = self.base.instance.limits
        stride = bucket_stride(self._types, limits.block_tokens, most, nodes)
        program = coarse_program(
            self._types, limits, self._pieces(), self._refill_s, stride=stride,
            least_batches=least, most_batches=most,
        )  # fmt: skip
        left = None if self._deadline is None else max(self._deadline - time.monotonic(), 0.01)
        answer = unless_interrupted(solve_lp(program.milp, SolverOptions(time_limit_s=left)))
        if answer.termination is not Termination.FINISHED or answer.row_duals is None:
            return None
        assert answer.value is not None
        horizon = self._stored(program.prices(answer.row_duals), stride, most)
        return _Part(
            least=least, horizon=horizon,
            value=horizon_value(self.base, horizon, self._cells, least),
            estimate_s=answer.value + self.base.work / self._second,
        )  # fmt: skip

    def _pieces(self) -> list[tuple[float, float]]:
        """The law less b and the excess, as affine pieces."""
        base, second = self.base, self._second
        (n, before), *rest = base.corners
        found = [] if rest else [(before / second, 0.0)]
        for m, after in rest:
            slope = (after - before) / (m - n)
            found.append(((before - slope * n) / second, slope / second))
            n, before = m, after
        return found

    @property
    def _block(self) -> int:
        return self.base.instance.limits.block_tokens

    def _stored(self, prices: BatchPrices, bucket: int, most: int) -> PricedBatches:
        """Prices as whole numbers of the finest unit that keeps evaluations within 64 bits."""
        stride = path_stride(self.base.requests, self._cells, self._block, bucket, most)
        columns = (prices.memory, prices.tokens, prices.prefill, prices.requests)

        def at(bits: int) -> PricedBatches:
            memory, tokens, prefill, requests = (
                tuple(np.rint(np.ldexp(column, bits)).astype(np.int64).tolist())
                for column in columns
            )
            return PricedBatches(
                most_batches=most, bucket_batches=bucket, stride=stride, unit_bits=bits,
                memory=memory, tokens=tokens, prefill=prefill, requests=requests,
            )  # fmt: skip

        bits, refill = _FIRST_BITS, max(self.base.refill)
        needed = largest_value(
            self.base, at(bits), (refill << bits) // self.base.units.per_second + 1
        )
        bits += SAFE.bit_length() - 3 - max(needed.bit_length(), 1)
        return at(min(bits, _MOST_BITS))


def _flat(most: int, slope_s: float, block: int) -> PricedBatches:
    """Every token at the same price, nothing else priced."""
    bucket = -(-most // block) * block
    return PricedBatches(
        most_batches=most, bucket_batches=bucket, stride=bucket, unit_bits=_FLAT_BITS, memory=(0,),
        tokens=(round(slope_s * 2**_FLAT_BITS),), prefill=(0,), requests=(0,),
    )  # fmt: skip
