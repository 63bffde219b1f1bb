"""B0, unavoidable work: the time that every schedule spends besides a constant per batch.

Let g(n) >= a + b n be a line below the batch-time law (for a one-piece law the law itself). Then

    T >= a N + sum over steps of (b c + attention of the step) + d0 (batches with a decode)
         + p0 (batches with a prefill) + idle and swapping >= 0

and the steps of a request split by the token event that they lead to (the first one at or after
them). Between two events either nothing is lost to an eviction, and the steps process exactly the
``S - cached`` new tokens, or the last eviction is followed by one uninterrupted fill of all S
tokens. The first event has only the latter. So each event costs at least

    first        fill(I)
    others       min( advance(cached, S), fill(S) )

where an uninterrupted fill or advance may be cut into chunks, and its last chunk, if it is one
token, ends as a decode (only where m >= I, so never in the first fill). For a plain generation
step advance is one decode; fill(S - 1) and then a decode costs no less, so a refill need only be
compared as a whole in prefill. The sum of these minima is W, and T >= a N + W.

**Chunks.** With r = p_mc / 2 the steps c at m of an uninterrupted fill from m0 to S satisfy
p_sq c^2 + p_mc m c = r ((m+c)^2 - m^2) + (p_sq - r) c^2, so their squares cost
r (S^2 - m0^2) + (p_sq - r) sum c^2. There are q >= ceil((S - m0) / F) chunks with F = min(C, P):

    p_sq >= r   (p_sq - r) sum c^2 + p_req q >= min over q of (p_sq - r) (S - m0)^2 / q + p_req q
    p_sq <  r   (p_sq - r) sum c^2 >= (p_sq - r) (S - m0) min(S - m0, F)
    p_kv        the j-th chunk from the end starts at m >= max(m0, S - j F)

**Chunk re-reads (L4).** Beyond its knee n* the line lies below g by at least e (n - n*)^+, which is
superadditive, so each chunk c may be charged e (c - n*)^+ for itself: a fill of S tokens then pays
at least phi(S) = min over chunkings of sum p_req + p_kv m + e (c - n*)^+. For q chunks a token in
the chunk that is j-th from the end (from 0) is read again j times; filling chunks of n* from the
last one while p_kv j < e, the rest at e, is the least; and in q that is convex.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optsched.bounds.events import TokenRuns, token_runs
from optsched.bounds.token_time import Line
from optsched.cost import CostModel
from optsched.errors import UnsupportedError
from optsched.instance import Instance, Limits

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class StepLaw:
    """What tokens and steps cost besides a constant per batch.

    Parameters
    ----------
    cost : CostModel
        Source of the attention coefficients.
    fill_tokens : int
        F = min(C, P), the longest prefill step.
    token_s : float
        b, seconds per token.
    knee_tokens, excess_s : int, float
        n* and e: a batch of n tokens takes at least e (n - n*)^+ more than a + b n.
    """

    cost: CostModel
    fill_tokens: int
    token_s: float
    knee_tokens: int = 1
    excess_s: float = 0.0

    def decode_s(self, size: IntArray) -> FloatArray:
        """One decode to ``size`` tokens of KV: b + d_kv (S - 1) + d_req."""
        return self.token_s + self.cost.decode_time(size - 1)

    def fill_s(self, size: IntArray, cached: IntArray) -> FloatArray:
        """Least time of prefill steps from ``cached`` to ``size`` tokens without an eviction."""
        tokens = (size - cached).astype(np.float64)
        half = self.cost.mixed / 2
        squares = half * (size.astype(np.float64) ** 2 - cached.astype(np.float64) ** 2)
        surplus = self.cost.p_sq - half
        chunks = self._chunks_s(size, cached, surplus)
        if self.excess_s > 0:
            own = surplus * tokens * (1 if surplus > 0 else np.minimum(tokens, self.fill_tokens))
            again = np.maximum(chunks, own + self._reread_s(size))
            chunks = np.where(cached == 0, again, chunks)
        time: FloatArray = self.token_s * tokens + squares + chunks
        return time

    def _chunks_s(self, size: IntArray, cached: IntArray, surplus: float) -> FloatArray:
        """Least p_req q + p_kv sum m + (p_sq - p_mc / 2) sum c^2 of chunks of at most F tokens."""
        tokens, F = size - cached, self.fill_tokens
        fewest = -(-tokens // F)
        # All but the first chunk start at S - j F at least, j counted from the end.
        later = fewest - 1
        starts = cached + later * size - F * later * (later + 1) // 2
        reads = self.cost.p_kv * starts
        if surplus <= 0:
            square = surplus * tokens * np.minimum(tokens, F)
            return np.asarray(reads + self.cost.p_req * fewest + square, dtype=np.float64)
        ideal = tokens * np.sqrt(surplus / self.cost.p_req) if self.cost.p_req > 0 else tokens
        count = np.clip(ideal, fewest, tokens)
        time: FloatArray = (
            reads + self.cost.p_req * count + surplus * tokens.astype(float) ** 2 / count
        )
        return time

    def _reread_s(self, size: IntArray) -> FloatArray:
        """phi(S): least p_req q + p_kv sum m + e sum (c - n*)^+ of chunks from 0 to ``size``."""
        knee, excess = self.knee_tokens, self.excess_s
        p_kv, p_req = self.cost.p_kv, self.cost.p_req
        worth = excess - p_req / knee
        useful = worth / p_kv + 1 if p_kv > 0 else float("inf") if worth >= 0 else 0.0
        whole = size // knee
        few = np.maximum(1, np.minimum(whole, np.floor(min(useful, 2.0**40))))

        def at(count: FloatArray) -> FloatArray:
            full = np.minimum(count, whole)
            rest = size - full * knee
            price = np.where(count > full, np.minimum(p_kv * full, excess), excess)
            return np.asarray(
                p_req * count + p_kv * knee * full * (full - 1) / 2 + price * rest, dtype=np.float64
            )

        phi: FloatArray = np.minimum(at(few), at(few + 1))
        return phi


def step_law(cost: CostModel, limits: Limits, line: Line, *, rereads: bool = False) -> StepLaw:
    """Steps under the law a + b n of ``line``, with its excess beyond the knee if ``rereads``."""
    law = StepLaw(cost=cost, fill_tokens=limits.fill_tokens, token_s=line.slope_s)
    if not rereads:
        return law
    return StepLaw(
        cost=cost, fill_tokens=limits.fill_tokens, token_s=line.slope_s,
        knee_tokens=line.knee_tokens, excess_s=line.excess_s,
    )  # fmt: skip


def run_work(runs: TokenRuns, law: StepLaw, decode_share: FloatArray) -> FloatArray:
    """Work of every run's events in seconds, shape ``(runs,)``.

    ``decode_share``, shape ``(largest size + 1,)``, is added to an event of that size if it ends
    as a decode.
    """
    sizes = np.arange(decode_share.size, dtype=np.int64)
    return event_times(runs, law.fill_s, law.decode_s(sizes) + decode_share)


def event_times(
    runs: TokenRuns, fill: Callable[[IntArray, IntArray], FloatArray], decode: FloatArray
) -> FloatArray:
    """Sum over each run's events of the cheapest way to make them, shape ``(runs,)``.

    ``fill(size, cached)`` is the least time of prefill steps from ``cached`` to ``size``,
    ``decode``, shape ``(largest size + 1,)``, that of a decode to each size.
    """
    sizes = np.arange(1, decode.size, dtype=np.int64)
    steps = np.minimum(decode[1:], fill(sizes, np.zeros_like(sizes)))
    total = np.concatenate(([0.0], np.cumsum(steps)))
    last = runs.size + runs.count - 1
    later = total[last] - total[runs.size]
    nothing = np.zeros_like(runs.size)
    filled = fill(runs.size, nothing)
    if runs.first.all():
        return np.asarray(filled + later, dtype=np.float64)
    # A response of R >= 1 tokens, with the token before it: appended, or all refilled; the last
    # token of either may be a decode.
    one_less = np.where(runs.first, runs.size, runs.size - 1)
    appended = np.minimum(
        fill(runs.size, runs.cached),
        np.minimum(fill(one_less, runs.cached), fill(one_less, nothing)) + decode[runs.size],
    )
    best = np.where(runs.first, filled, np.minimum(filled, appended))
    return np.asarray(best + later, dtype=np.float64)


def no_share(runs: TokenRuns) -> FloatArray:
    """A decode share of zero for every size that occurs in ``runs``."""
    return np.zeros(int((runs.size + runs.count).max()))


def work(instance: Instance) -> float:
    """W of a one-piece law, in seconds: every schedule with N batches takes at least
    alpha N + W, whatever it evicts, chunks, mixes, swaps or waits for.

    Raises
    ------
    UnsupportedError
        The law has several pieces, so no single W exists.
    """
    if len(instance.cost.pieces) != 1:
        raise UnsupportedError(
            f"work is defined for one affine piece, the instance has {len(instance.cost.pieces)}",
            hint="lower_bound covers several pieces",
        )
    ((_, beta),) = instance.cost.pieces
    law = StepLaw(cost=instance.cost, fill_tokens=instance.limits.fill_tokens, token_s=beta)
    runs = token_runs(instance)
    return float(run_work(runs, law, no_share(runs)).sum())
