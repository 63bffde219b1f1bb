"""Look-ahead for goodput: who can still meet its service-level objectives is served first.

Under more load than the machine can carry, serving in order of arrival makes everybody late. Here
a request whose objectives can no longer be met waits until all have arrived (or nothing else is
there to do), so that it takes nothing from those that can. Those are served by their slack, the
least first, or by the machine time that a unit of weight costs, the cheapest first, and the dearest
may be given up from the start. Fills may lengthen a batch as far as every running request can still
meet its TPOT and latency.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optsched.instance import Instance, IntArray
from optsched.warmstart.ranked_lookahead import RankOptions, ranked_look_ahead
from optsched.warmstart.ranked_queue import ArrivalOrder
from optsched.warmstart.start_times import StartTimes

FloatArray = NDArray[np.float64]
_LATE = 400  # late requests looked at


@dataclass(frozen=True, kw_only=True, eq=False)
class SloOptions:
    """How to serve requests.

    Parameters
    ----------
    work_s : float array, shape ``(requests,)``
        Machine time of each request.
    by_slack : bool
        Least slack first; otherwise the least work per weight.
    given_up : float
        Work per weight, seconds, from which on requests are given up.
    """

    work_s: FloatArray
    by_slack: bool
    given_up: float = np.inf


def slo_aware(instance: Instance, options: SloOptions, rank: RankOptions) -> StartTimes:
    """Start times of all requests; of ``rank`` all but the rank itself holds."""
    targets = Targets(instance)
    return ranked_look_ahead(
        instance, rank, SloQueue(instance, targets, options), SloPacer(targets)
    )


class Targets:
    """Objectives on the schedule's clock.

    Attributes
    ----------
    first_s : float array, shape ``(requests,)``
        When the batch of the first token must end at the latest for TTFT; infinity if given none.
    end_s, tpot_s : float arrays, shape ``(requests,)``
        When the last token must be there for latency, and seconds per token after the first.
    fill_s, decode_s : float arrays, shape ``(requests,)``
        Least time of the fill, and of all decodes.
    """

    def __init__(self, instance: Instance) -> None:
        def given(name: str) -> FloatArray:
            values = (getattr(request, name) for request in instance.requests)
            return np.array([np.inf if value is None else value for value in values])

        cost, prompt = instance.cost, instance.prompt_tokens
        release = instance.release_s
        self.steps: IntArray = instance.output_tokens - 1
        self.first_s: FloatArray = release + given("ttft_slo_s")
        self.end_s: FloatArray = release + given("latency_slo_s")
        self.tpot_s: FloatArray = np.where(self.steps > 0, given("tpot_slo_s"), np.inf)
        self.fill_s: FloatArray = cost.token_time(prompt) + cost.prefill_time(prompt, 0) + cost.p0
        one = float(cost.token_time(1)) + cost.d0 + cost.decode_time(prompt)
        self.decode_s: FloatArray = self.steps * one

    def latest_fill_end_s(self) -> FloatArray:
        """When the fill must end at the latest."""
        return np.minimum(self.first_s, self.end_s - self.decode_s)

    def possible(self) -> NDArray[np.bool_]:
        """Whether a decode alone in its batch is fast enough."""
        return self.decode_s <= self.tpot_s * np.maximum(self.steps, 1)


class SloQueue:
    """Requests that can still meet their objectives, in order; the others last and late.

    Attributes
    ----------
    waiting : int array
        Those that may be admitted now, in order.
    left : int
        Requests that wait or are still to arrive.
    """

    def __init__(self, instance: Instance, targets: Targets, options: SloOptions) -> None:
        weight = instance.weights
        price = options.work_s / np.maximum(weight, 1e-12)
        wanted = targets.possible() & (price < options.given_up)
        self._latest_start: FloatArray = np.where(
            wanted, targets.latest_fill_end_s() - targets.fill_s, -np.inf
        )
        self._key = self._latest_start if options.by_slack else price
        self._work = options.work_s
        self._arrivals = ArrivalOrder(instance.release_s)
        self._begun: int | None = None
        self._hopeful: list[int] = []
        self._late: list[tuple[float, int]] = []  # work and request, ascending
        self.waiting: IntArray = np.zeros(0, dtype=np.int64)
        self.left = len(instance)

    @property
    def next_arrival_s(self) -> float:
        """When the next request arrives; infinity if all have."""
        return self._arrivals.next_s

    def arrive(self, now_s: float) -> None:
        """Take in what has arrived and put off what is late."""
        new = self._arrivals.until(now_s).tolist()
        self._hopeful += new
        changed = bool(new)
        if self._hopeful and min(self._latest_start[self._hopeful]) < now_s:
            late = [
                r for r in self._hopeful if self._latest_start[r] < now_s and r != self._begun
            ]  # fmt: skip
            for r in late:
                insort(self._late, (float(self._work[r]), r))
                self._hopeful.remove(r)
            changed = True
        if changed:
            self._order()

    def take(self, request: int) -> None:
        """Take out a request that waits."""
        self.left -= 1
        if request == self._begun:
            self._begun = None
        if request in self._hopeful:
            self._hopeful.remove(request)
        else:
            del self._late[bisect_left(self._late, (float(self._work[request]), request))]
        self._order()

    def begin(self, request: int) -> None:
        """A request holds KV already: it is not put off any more, however late it is."""
        self._begun = request

    def _order(self) -> None:
        self._hopeful.sort(key=lambda r: (self._key[r], r))
        chosen = self._hopeful
        if self.next_arrival_s == float("inf"):
            chosen = chosen + [r for _, r in self._late[:_LATE]]
        self.waiting = np.array(chosen, dtype=np.int64)


class SloPacer:
    """How much longer a batch may take before a running request misses its objectives."""

    def __init__(self, targets: Targets) -> None:
        self._targets = targets
        self._starting: list[tuple[int, int, int]] = []  # request, first slot, last slot
        self._last: IntArray = np.zeros(0, dtype=np.int64)
        self._deadline: FloatArray = np.zeros(0)

    def allowed_s(self, slot: int, now_s: float, decode_s: float) -> float:
        """Least slack of the running requests that can still meet their objectives."""
        if not self._last.size:
            return float("inf")
        slack = self._deadline - now_s - (self._last - slot + 1) * decode_s
        met = slack >= 0
        return float(slack[met].min()) if met.any() else float("inf")

    def started(self, request: int, first_slot: int, last_slot: int) -> None:
        """Remember a request until its first token is there."""
        if last_slot > first_slot:
            self._starting.append((request, first_slot, last_slot))

    def ended(self, slot: int, now_s: float) -> None:
        """From its first token on a request has a deadline for the last one."""
        running = self._last > slot
        started = [s for s in self._starting if s[1] <= slot]
        if started:
            self._starting = [s for s in self._starting if s[1] > slot]
        elif running.all():
            return
        targets = self._targets
        request = np.array([s[0] for s in started], dtype=np.int64)
        on_time = targets.first_s[request] >= now_s
        end = np.minimum(
            now_s + targets.tpot_s[request] * targets.steps[request], targets.end_s[request]
        )
        last = np.array([s[2] for s in started], dtype=np.int64)
        kept = on_time & (end < np.inf)
        self._last = np.concatenate([self._last[running], last[kept]])
        self._deadline = np.concatenate([self._deadline[running], end[kept]])
