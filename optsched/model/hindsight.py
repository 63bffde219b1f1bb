"""Non-preemptive schedules of batches that all take equally long: when, and in what numbers.

The hindsight problem of "Online Scheduling for LLM Inference with KV Cache Constraints" (Jaillet
et al., arXiv 2502.07115): time is cut into rounds, a request that starts after round k fills its
prompt in round k + 1 and makes a token in each of the rounds k + 1 .. k + O. Its KV after these
rounds is I, I + 1, .. I + O - 1. The paper counts one token more in each of them, so that its
problem with prompts of s tokens is this one with I = s + 1.

A schedule is the rounds after which requests start. If none runs after the last arrival and some
wait, all starts from then on may move forward by a round; so some optimum of every objective but
goodput leaves no round after the last arrival empty, and the horizons below hold it.

With arrivals there are also schedules outside the model: a batch that processes a request as it
arrives makes those that run wait for it. Let every request start so much later that it never waits
and ends when it did: it holds no more KV than before at any time. So rounds lose nothing where
only ends count and a fill fits wherever it is moved to.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from optsched.errors import UnsupportedError
from optsched.instance import Instance
from optsched.model.scope import Verdict
from optsched.model.types import RequestType, request_types
from optsched.objective import Objective

IntArray = NDArray[np.int64]

_IMPLIED = frozenset({"nonpreemptive", "no-evict", "no-chunk", "no-hold", "no-swap"})


def applies(
    instance: Instance, policies: Collection[str], objective: Objective = Objective.MEAN_LATENCY
) -> Verdict:
    """Whether the optimum under ``policies`` is that of this model, and if not, why."""
    verdict = covers(instance, policies)
    if not verdict.holds:
        return verdict
    if objective is Objective.GOODPUT:
        return Verdict(False, "rounds do not count goodput")
    fills = int(instance.prompt_tokens.sum())
    if instance.offline or (
        objective is not Objective.MEAN_TTFT and fills <= instance.limits.fill_tokens
    ):
        return verdict
    return Verdict(False, "a batch may wait for an arrival, and what runs with it")


def covers(instance: Instance, policies: Collection[str]) -> Verdict:
    """Whether the model is that of the schedules under ``policies`` in which no batch waits for an
    arrival while a request runs."""
    cost = instance.cost
    if "nonpreemptive" not in policies:
        return Verdict(False, "requests may be interrupted without policy nonpreemptive")
    others = sorted(set(policies) - _IMPLIED)
    if others:
        return Verdict(False, f"rounds know no policy {others[0]}")
    if instance.has_calls:
        return Verdict(False, "requests make calls")
    priced = (cost.d0, cost.d_kv, cost.d_req, cost.p0, cost.p_sq, cost.mixed, cost.p_kv, cost.p_req)
    if any(priced) or any(beta for _, beta in cost.pieces):
        return Verdict(False, "the time of a batch depends on what it processes")
    round_s = max(alpha for alpha, _ in cost.pieces)
    late = np.rint(instance.release_s / round_s) * round_s != instance.release_s
    if late.any():
        request = instance.requests[int(np.argmax(late))]
        return Verdict(False, f"request {request.id!r} arrives within a batch of {round_s:g} s")
    return Verdict(True, f"every batch takes {round_s:g} s and requests are never interrupted")


@dataclass(frozen=True, kw_only=True, eq=False)
class Rounds:
    """An instance in rounds: its request types and when they arrive.

    Parameters
    ----------
    instance : Instance
    round_s : float
        What every batch takes, seconds.
    types : tuple of RequestType
        Requests equal in (I, O, arrival).
    prompt, output, count, release : int arrays, shape ``(types,)``
        I, O, how many, and the round after which they are there.
    """

    instance: Instance
    round_s: float
    types: tuple[RequestType, ...]
    prompt: IntArray
    output: IntArray
    count: IntArray
    release: IntArray

    @cached_property
    def horizon(self) -> int:
        """Rounds after which some optimum has ended: none after the last arrival is empty, so that
        at most sum O follow it."""
        return int(self.release.max() + (self.count * self.output).sum())

    def horizon_within(self, total_rounds: float) -> int:
        """The same for an optimum whose latencies sum to at most ``total_rounds``.

        The k-th request to end does so no earlier than the k-th smallest arrival + O, nor than the
        k smallest of the KV needs summed over rounds take at M tokens per round.
        """
        limits = self.instance.limits
        order = np.repeat(np.arange(len(self.types)), self.count)
        alone = np.sort((self.release + self.output)[order])
        area = np.sort(self.kv_rounds[order]).cumsum()
        ends = np.maximum(alone, -(-area // limits.kv_tokens))
        arrivals = int((self.release * self.count).sum())
        last = int(np.floor(total_rounds + 1e-6)) + arrivals - int(ends[:-1].sum())
        return max(min(self.horizon, last), int(alone[-1]))

    @cached_property
    def kv_rounds(self) -> IntArray:
        """KV tokens in whole pages summed over the rounds of one request, shape ``(types,)``."""
        needs = [self.kv_of(t).sum() for t in range(len(self.types))]
        return np.array(needs, dtype=np.int64)

    def kv_of(self, kind: int) -> IntArray:
        """KV tokens in whole pages in each round of a request of this type, shape ``(O,)``."""
        block = self.instance.limits.block_tokens
        tokens = int(self.prompt[kind]) + np.arange(int(self.output[kind]), dtype=np.int64)
        return np.asarray(block * -(-tokens // block), dtype=np.int64)


def rounds_of(instance: Instance) -> Rounds:
    """The instance in rounds.

    Raises
    ------
    UnsupportedError
        :func:`covers` says no.
    """
    verdict = covers(instance, ("nonpreemptive",))
    if not verdict.holds:
        raise UnsupportedError(
            f"no model in rounds: {verdict.reason}",
            hint="preset 'unit' has batches of one second; arrivals must be whole seconds then",
        )
    round_s = max(alpha for alpha, _ in instance.cost.pieces)
    types = request_types(instance, arrivals=True)

    def column(values: list[int]) -> IntArray:
        return np.array(values, dtype=np.int64)

    return Rounds(
        instance=instance, round_s=round_s, types=types,
        prompt=column([kind.prompt_tokens for kind in types]),
        output=column([kind.output_tokens for kind in types]),
        count=column([kind.count for kind in types]),
        release=column([round(kind.release_s / round_s) for kind in types]),
    )  # fmt: skip
