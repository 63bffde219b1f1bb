"""What a request pays of the batches that it is in, in floating point.

``optsched/bounds/verify/clock/charges.py`` has the argument: a line's intercept is shared by what
a batch has only so much of, so that the charges of a batch's steps are at most its duration.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import msgspec
import numpy as np
from numpy.typing import NDArray

from optsched.bounds.bound import reachable
from optsched.bounds.events import TokenRuns, token_runs
from optsched.bounds.piecewise import Workload, piece_lines
from optsched.bounds.time_arguments import exact_line
from optsched.bounds.token_time import Line as FloatLine
from optsched.bounds.token_time import lines
from optsched.bounds.work import StepLaw, event_times, step_law
from optsched.clock_certificate import Shares
from optsched.cost import CostModel
from optsched.instance import Instance, Limits
from optsched.line import Line

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Charges:
    """Seconds per request up to its ``first`` token and in ``whole``, shape ``(requests,)``, and
    per group of requests done together a ``setup_s``."""

    first: FloatArray
    whole: FloatArray
    setup_s: float


@dataclass(frozen=True)
class Charging:
    """Charges of the requests of ``instance``."""

    instance: Instance

    @cached_property
    def runs(self) -> TokenRuns:
        """The token events of all requests."""
        return token_runs(self.instance)

    @cached_property
    def lines(self) -> tuple[Line, ...]:
        """Lines exactly below the law, steepest first; of two that are the same up to rounding only
        one, a piece of the law before others."""
        limits, cost = reachable(self.instance), self.instance.cost
        workload = Workload(runs=self.runs, limits=limits, cost=cost)
        found: dict[tuple[float, float], Line] = {}
        for line in (*piece_lines(workload), *lines(workload.law)):
            near = (_rounded(line.intercept_s), _rounded(line.slope_s))
            exact = exact_line(line, cost, self.instance.limits.batch_tokens)
            if near not in found or exact.excess_s > found[near].excess_s + 1e-9 * exact.slope_s:
                found[near] = exact
        return tuple(sorted(found.values(), key=lambda line: -line.slope_s))

    @cached_property
    def corners(self) -> tuple[Shares, ...]:
        """All of the intercept shared by one thing."""
        found = [Shares(memory=1), Shares(tokens=1), Shares(prefill=1)]
        if self.instance.limits.batch_requests is not None:
            found.append(Shares(requests=1))
        return tuple(found)

    def __call__(self, line: Line, shares: Shares, *, prefill_groups: bool = False) -> Charges:
        """Charges under ``line``; ``prefill_groups`` if groups end with first tokens."""
        limits, cost, runs = self.instance.limits, self.instance.cost, self.runs
        part = line.intercept_s / shares.parts
        cap = limits.kv_tokens // limits.block_tokens
        grouped_p0 = cost.p0 * shares.setups / shares.parts if prefill_groups else 0.0
        page = part * shares.memory / cap
        token = line.slope_s + part * shares.tokens / limits.batch_tokens
        prefill = (part * shares.prefill + cost.p0 - grouped_p0) / limits.fill_tokens
        request = part * shares.requests / (limits.batch_requests or 1)
        steps = steps_under(
            msgspec.structs.replace(cost, p_req=cost.p_req + request, d_req=cost.d_req + request),
            limits, line,
        )  # fmt: skip
        decodes = replace(steps, token_s=token)
        fills = replace(steps, token_s=token + prefill)
        sizes = np.arange(int((runs.size + runs.count).max()), dtype=np.int64)
        pages = -(-sizes // limits.block_tokens)
        decode = decodes.decode_s(sizes) + (page + cost.d0 / cap) * pages

        def fill(size: IntArray, cached: IntArray) -> FloatArray:
            return fills.fill_s(size, cached) + page * -(-size // limits.block_tokens)

        prompts = self.instance.prompt_tokens
        return Charges(
            first=fill(prompts, np.zeros_like(prompts)),
            whole=np.bincount(runs.request, event_times(runs, fill, decode)).astype(np.float64),
            setup_s=part * shares.setups + grouped_p0,
        )


def steps_under(cost: CostModel, limits: Limits, line: Line) -> StepLaw:
    """Steps under ``line``, chunks with its excess beyond the knee."""
    under = FloatLine(
        intercept_s=line.intercept_s, slope_s=line.slope_s, knee_tokens=line.knee_tokens,
        excess_s=line.excess_s,
    )  # fmt: skip
    return step_law(cost, limits, under, rereads=True)


def _rounded(value_s: float) -> float:
    return float(f"{value_s:.9g}")
