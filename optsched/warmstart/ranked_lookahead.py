"""Look-ahead in an order of one's own: the waiting request of the lowest rank that fits to its end.

As in ``lookahead`` a request is admitted iff the exact future KV profile of everything that runs
stays within memory, and one that does not fit is passed over. Here the order is any rank of the
requests, which is what the objectives of the clock need (shortest work first for mean latency,
shortest prompt first for mean TTFT), among those that have arrived. Besides:

- **gates**: requests are admitted only in the first ``fill_slots`` of every ``period`` batches. In
  the others residents decode undisturbed, which pays where fills take longer than outputs.
- **early chunks**: a batch below ``level`` tokens, where tokens are cheap, takes prompt tokens of
  the next request ahead of its admission. Their KV, at most ``spare_tokens``, is kept out of the
  memory that admissions may use.
- **staggering** by ``kappa``, see ``lookahead``.

The queue may be any other than one of fixed ranks, and a *pacer* may limit how long fills may make
a batch (``slo_aware``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from optsched.instance import Instance, IntArray
from optsched.warmstart.groups import Preference, grouped
from optsched.warmstart.kv_profile import Profile
from optsched.warmstart.lookahead import steady_state
from optsched.warmstart.ranked_queue import RankedQueue
from optsched.warmstart.start_times import StartTimes

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class RankOptions:
    """How to admit requests.

    Parameters
    ----------
    rank : float array, shape ``(requests,)``
        Lowest first.
    width : int
        Number of waiting requests looked at.
    period, fill_slots : int
        Requests are admitted in the first ``fill_slots`` of every ``period`` batches, and whenever
        nothing runs.
    level : int or None
        Tokens up to which a batch takes chunks of the next request; None leaves fills whole.
    spare_tokens : int
        KV tokens that early chunks may hold.
    kappa : float or None
        Share of memory that may be filled at once; None does not stagger.
    """

    rank: FloatArray
    width: int = 400
    period: int = 1
    fill_slots: int = 1
    level: int | None = None
    spare_tokens: int = 0
    kappa: float | None = None


class Queue(Protocol):
    """Requests that have arrived and wait, in the order in which they are to be admitted."""

    left: int
    waiting: IntArray

    @property
    def next_arrival_s(self) -> float:
        """When the next request arrives, or will be let in; infinity if all have been."""
        ...

    def arrive(self, now_s: float) -> None:
        """Take in everything that has arrived, and order it as of now."""
        ...

    def take(self, request: int) -> None:
        """Take out a request that waits."""
        ...

    def begin(self, request: int) -> None:
        """A request holds KV already, so it must stay among those that may be admitted."""
        ...


class Pacer(Protocol):
    """Limits the time that fills add to a batch."""

    def allowed_s(self, slot: int, now_s: float, decode_s: float) -> float:
        """How much longer than its decodes alone, ``decode_s``, a batch may take."""
        ...

    def started(self, request: int, first_slot: int, last_slot: int) -> None:
        """A request was admitted that makes tokens in these slots."""
        ...

    def ended(self, slot: int, now_s: float) -> None:
        """A batch ended."""
        ...


def ranked_look_ahead(
    instance: Instance,
    options: RankOptions,
    queue: Queue | None = None,
    pacer: Pacer | None = None,
) -> StartTimes:
    """Start times of all requests, batch after batch, among those that have arrived."""
    own = RankedQueue(instance, options.rank) if queue is None else queue
    return _RankedLookAhead(instance, options, own, pacer).run()


class _RankedLookAhead:
    """Slot j is batch j + 1; slots that process nothing are dropped in the end."""

    def __init__(
        self, instance: Instance, options: RankOptions, queue: Queue, pacer: Pacer | None
    ) -> None:
        self.cost = instance.cost
        self.timed = pacer is not None or not instance.offline
        self.now = 0.0
        self.options = options
        self.prompt, self.output = instance.prompt_tokens, instance.output_tokens
        self.queue = queue
        self.pacer = pacer
        self.profile = Profile(instance.limits)
        self.longest = int(self.output.max())
        self.ages = np.arange(self.longest)
        self.first_token = np.zeros(len(instance), dtype=np.int64)
        self.chunks: list[tuple[int, int, int]] = []
        self.fill_s: dict[int, float] = {}  # attention of the fills of a slot
        self.early: int | None = None  # request that is filled ahead of its admission
        self.filled = 0  # its tokens
        block = self.profile.block
        largest = -(-int(instance.final_tokens.max()) // block)
        spare = options.spare_tokens // block if options.level is not None else 0
        self.spare = max(0, min(spare, self.profile.pages - largest))
        self.pages = self.profile.pages - self.spare
        self.limit: FloatArray | None = None
        if options.kappa is not None:
            steady = steady_state(grouped(instance, Preference.EARLY))
            self.limit = self.pages * (options.kappa + (1 - options.kappa) * steady)

    def run(self) -> StartTimes:
        """Admit until nobody waits."""
        slot, options = 0, self.options
        while self.queue.left:
            self.profile.reach(slot + self.longest + 1)
            idle = not self.profile.tokens[slot]
            if idle and not self.queue.waiting.size:
                self.now = max(self.now, self.queue.next_arrival_s)
            self.queue.arrive(self.now)
            if idle or slot % options.period < options.fill_slots:
                while self.queue.waiting.size and self._admit(slot):
                    pass
            if self.spare:
                self._fill_early(slot)
            if self.timed:
                self.now += self._duration_s(slot)
            if self.pacer is not None:
                self.pacer.ended(slot, self.now)
            slot += 1
        table = np.array(self.chunks, dtype=np.int64).reshape(-1, 3)
        return StartTimes(
            first_token=self.first_token, chunk_request=table[:, 0],
            chunk_batch=table[:, 1], chunk_tokens=table[:, 2],
        )  # fmt: skip

    def _admit(self, slot: int) -> bool:
        """Admit one request to ``slot``; False if nobody fits."""
        profile = self.profile
        free = (self.pages - int(profile.kv[slot])) * profile.block
        room = self._room(slot)
        if free < 1 or room < 1:
            return False
        seen = self.queue.waiting[: self.options.width]
        prompt = self.prompt[seen]
        to_fill = prompt
        if self.early is not None:
            to_fill = np.where(seen == self.early, prompt - self.filled, prompt)
        whole = to_fill <= profile.fill_tokens
        ok = (prompt <= free) & (to_fill <= room) & whole
        if not profile.tokens[slot]:
            # A prompt that exceeds a batch is filled in batches of its own size, alone.
            ok |= ~whole
        if self.pacer is not None and profile.tokens[slot]:
            ok &= self._fill_time_s(slot, to_fill) <= self._allowed_s(slot)
        if not ok.any():
            return False
        ahead = slice(slot, slot + self.longest)
        if self._crowded(slot, ahead):
            return False
        ok &= prompt <= self._largest_prompt(ahead)[self.output[seen] - 1]
        if not ok.any():
            return False
        index = int(ok.argmax())
        if self.early is not None and (ok & (seen == self.early)).any():
            index = int((seen == self.early).argmax())
        self._commit(slot, index)
        return True

    def _allowed_s(self, slot: int) -> float:
        """How much longer than its decodes alone the batch may take."""
        assert self.pacer is not None
        profile = self.profile
        tokens = int(profile.tokens[slot] - profile.prefill[slot])
        decode_s = self._token_s(max(tokens, 1)) + self.cost.d_kv * int(profile.kv[slot])
        return self.pacer.allowed_s(slot, self.now, decode_s)

    def _fill_time_s(self, slot: int, tokens: IntArray) -> FloatArray:
        """By how much the batch would be longer than its decodes with so many more prompt tokens
        of one request."""
        profile, cost = self.profile, self.cost
        decodes = int(profile.tokens[slot] - profile.prefill[slot])
        rest = self._token_s(max(decodes, 1)) - self.fill_s.get(slot, 0.0) - cost.p0
        time = cost.token_time(int(profile.tokens[slot]) + tokens) - rest
        return np.asarray(time + cost.prefill_time(tokens, 0))

    def _token_s(self, tokens: int) -> float:
        return max(alpha + beta * tokens for alpha, beta in self.cost.pieces)

    def _room(self, slot: int) -> int:
        """Prompt tokens that the batch can still take."""
        profile = self.profile
        most = profile.batch_requests
        if most is not None and int(profile.requests[slot]) >= most:
            return 0
        return min(
            profile.batch_tokens - int(profile.tokens[slot]),
            profile.fill_tokens - int(profile.prefill[slot]),
        )

    def _crowded(self, slot: int, ahead: slice) -> bool:
        """Whether staggering forbids to admit anybody."""
        if self.limit is None or not self.profile.tokens[slot]:
            return False
        return bool((self.profile.kv[ahead] > self.limit).any())

    def _largest_prompt(self, ahead: slice) -> IntArray:
        """For each output length O the largest prompt that fits now and to its end; (longest,)."""
        profile = self.profile
        free = (self.pages - profile.kv[ahead]) * profile.block - self.ages
        full = profile.tokens[ahead] >= profile.batch_tokens
        if profile.batch_requests is not None:
            full |= profile.requests[ahead] >= profile.batch_requests
        full[0] = False
        free[full] = 0
        largest: IntArray = np.minimum.accumulate(free)
        return largest

    def _commit(self, slot: int, index: int) -> None:
        profile = self.profile
        request = int(self.queue.waiting[index])
        prompt, output = int(self.prompt[request]), int(self.output[request])
        self.queue.take(request)
        filled = 0
        if request == self.early:
            filled, self.early, self.filled = self.filled, None, 0
        to_fill = prompt - filled
        sizes = np.full(-(-to_fill // profile.fill_tokens), profile.fill_tokens, dtype=np.int64)
        sizes[-1] = to_fill - int(sizes[:-1].sum())
        profile.reach(slot + sizes.size + self.longest + 1)
        tokens = np.ones(sizes.size + output - 1, dtype=np.int64)
        tokens[: sizes.size] = sizes
        level = filled + np.cumsum(tokens)
        profile.add(slot, profile.pages_of(level), tokens, slice(0, sizes.size))
        first = slot + sizes.size - 1
        self.first_token[request] = first
        if self.pacer is not None:
            self.pacer.started(request, first, first + output - 1)
        for k, size in enumerate(sizes.tolist()):
            if k < sizes.size - 1:
                self.chunks.append((request, slot + k, size))
            self._pay(slot + k, size, int(level[k]) - size)

    def _pay(self, slot: int, tokens: int, cached: int) -> None:
        cost = self.cost
        seconds = cost.p_sq * tokens * tokens + cost.mixed * cached * tokens
        seconds += cost.p_kv * cached + cost.p_req
        self.fill_s[slot] = self.fill_s.get(slot, 0.0) + seconds

    def _fill_early(self, slot: int) -> None:
        """Take a chunk of the next request if the batch is below the level."""
        profile, level = self.profile, self.options.level
        assert level is not None
        if self.early is None and self.queue.waiting.size:
            self.early = int(self.queue.waiting[0])
        if self.early is None or not profile.tokens[slot]:
            return
        tokens = min(
            level - int(profile.tokens[slot]), self._room(slot),
            int(self.prompt[self.early]) - 1 - self.filled,
            self.spare * profile.block - self.filled,
        )  # fmt: skip
        if tokens < 1:
            return
        profile.tokens[slot] += tokens
        profile.prefill[slot] += tokens
        profile.requests[slot] += 1
        self.queue.begin(self.early)
        self.chunks.append((self.early, slot, tokens))
        self._pay(slot, tokens, self.filled)
        self.filled += tokens

    def _duration_s(self, slot: int) -> float:
        """Time of the batch."""
        profile, cost = self.profile, self.cost
        tokens, prefill = int(profile.tokens[slot]), int(profile.prefill[slot])
        if not tokens:
            return 0.0
        decodes = tokens - prefill
        seconds = self._token_s(tokens)
        if decodes:
            cached = int(profile.kv[slot]) * profile.block - prefill - decodes
            seconds += cost.d0 + cost.d_kv * cached + cost.d_req * decodes
        if prefill:
            seconds += cost.p0 + self.fill_s.pop(slot)
        return seconds
