"""Bounds in seconds from a batch count: one line (B0, B1, B2), L1 Jensen, L2 mixtures, L4.

**One line.** For any line a + b n <= g(n) with a >= 0 (``token_time``) a schedule takes at least

    T >= a N0 + W(b) + D + p0 Np

with N0 batches (B1, B2), W(b) the unavoidable work at b per token (B0) and Np batches with a
prefill. For a one-piece law the line is the law; for several pieces each piece is one, and so is
every mixture (L2). With chunk re-reads (L4) W also charges what a line leaves out beyond its knee.

**D, set-up of decodes.** A plain generation step that is not a decode ends a refill in prefill.

    counted   if every such refill costs at least d0 more than the decode it replaces:
              D = d0 Nd, Nd = batches that the events of all generation steps need; turning u of
              them into refills saves at most u of Nd (each lowers the count by at most 1)
    shared    always: the decodes of a batch hold at most floor(M / b) pages, so charging d0 p / cap
              to each decode of p pages charges a batch at most d0; W takes the smaller of a
              decode with this charge and a refill

**L1 (Jensen).** Assign to each batch the x_j new tokens (those that no schedule can avoid: I for
the first event, S - cached for the others) among its n_j. g is convex with slopes >= s, its first
slope, so sum g(n_j) >= sum g(x_j) + s sum (n_j - x_j), and sum x_j = X. The sum over N >= N0
batches is least if they are balanced: T >= W(s) - s X + min over N >= N0 of balanced(X, N) + ...
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optsched.bounds.batch_count import event_batches, prefill_batches
from optsched.bounds.events import TokenRuns
from optsched.bounds.token_time import Line, TokenLaw, lines, token_law
from optsched.bounds.work import StepLaw, no_share, run_work, step_law
from optsched.cost import CostModel
from optsched.instance import Limits

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Workload:
    """What the bounds in seconds look at: token events, limits, and the batch-time law."""

    runs: TokenRuns
    limits: Limits
    cost: CostModel

    @property
    def law(self) -> TokenLaw:
        """The convex time of a batch's tokens."""
        return token_law(self.cost, self.limits.batch_tokens)

    @property
    def new_tokens(self) -> int:
        """X = sum of I + O - 1 + responses: tokens that every schedule processes at least once."""
        return int((self.runs.size - self.runs.cached + self.runs.count - 1).sum())


def piece_lines(workload: Workload) -> tuple[Line, ...]:
    """The pieces of the law themselves, those with an intercept >= 0."""
    return tuple(
        Line(
            intercept_s=alpha, slope_s=beta, knee_tokens=workload.limits.batch_tokens, excess_s=0.0
        )
        for alpha, beta in workload.cost.pieces
        if alpha >= 0
    )


def best_line(
    workload: Workload, candidates: tuple[Line, ...], batches: int, *, rereads: bool = False
) -> float:
    """Largest a N0 + W + D + p0 Np over ``candidates`` with N0 = ``batches``, in seconds."""
    return max(
        (
            line.intercept_s * batches
            + work_and_decodes(
                workload, step_law(workload.cost, workload.limits, line, rereads=rereads)
            )
            for line in candidates
        ),
        default=0.0,
    ) + prefill_setups(workload)


def jensen(workload: Workload, batches: int) -> float:
    """L1 with N0 = ``batches``, in seconds."""
    balanced = float(workload.law.least(workload.new_tokens, batches))
    return attention_and_setups(workload) + balanced


def attention_and_setups(workload: Workload) -> float:
    """W(s) - s X + D + p0 Np with s the first slope of the law: what L1 adds to the time of the
    new tokens, in seconds."""
    slope = float(workload.law.slopes_s[0])
    steps = StepLaw(
        cost=workload.cost, fill_tokens=workload.limits.fill_tokens, token_s=slope
    )  # fmt: skip
    own = work_and_decodes(workload, steps) - slope * workload.new_tokens
    return own + prefill_setups(workload)


def mixtures(workload: Workload, batches: int) -> float:
    """L2 with N0 = ``batches``, in seconds: the best of all lines below the law."""
    return best_line(workload, lines(workload.law), batches)


def chunk_rereads(workload: Workload, batches: int) -> float:
    """L4 with N0 = ``batches``, in seconds: L2 with the excess beyond the knee."""
    return best_line(workload, lines(workload.law), batches, rereads=True)


def work_and_decodes(workload: Workload, steps: StepLaw) -> float:
    """W + D in seconds: the larger of the two ways to charge d0, if both hold."""
    runs, limits, d0 = workload.runs, workload.limits, workload.cost.d0
    if d0 == 0:
        return float(run_work(runs, steps, no_share(runs)).sum())
    shared = float(run_work(runs, steps, decode_share(workload)).sum())
    decodes = runs.decodes()
    if not decodes.events:
        return shared
    sizes = np.arange(int(decodes.size.min()), no_share(runs).size, dtype=np.int64)
    dearer = steps.fill_s(sizes, np.zeros_like(sizes)) - steps.decode_s(sizes)
    if dearer.min() < d0:
        return shared
    counted = float(run_work(runs, steps, no_share(runs)).sum())
    return max(shared, counted + d0 * event_batches(decodes, limits))


def decode_share(workload: Workload) -> FloatArray:
    """d0 p / cap for each size in tokens, p its pages: the part of a batch's d0 that a decode to
    that size pays; shape ``(largest size + 1,)``."""
    block = workload.limits.block_tokens
    sizes = np.arange(no_share(workload.runs).size, dtype=np.int64)
    share: FloatArray = (
        workload.cost.d0 * (-(-sizes // block)) / (workload.limits.kv_tokens // block)
    )
    return share


def prefill_setups(workload: Workload) -> float:
    """p0 Np in seconds."""
    if workload.cost.p0 == 0:
        return 0.0
    return workload.cost.p0 * prefill_batches(workload.runs, workload.limits)
