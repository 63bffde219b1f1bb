"""Levelled batches: as many tokens in every batch as suit the batch-time law, held KV permitting.

Where memory does not bind, tokens are all that counts, and a law of several pieces is cheapest if
every batch has its n* tokens (bounds, L1). A request may be held between two of its decodes, so
whoever is resident can fill a batch up, as on identical machines with preemption (McNaughton's
wrap-around rule): the batches are full to the end unless some request is left with more decodes
than there are batches.

Placed backwards in time, from the last batch to the first: a request appears with its largest KV,
I + O - 1, and every token taken back frees memory, so nothing placed can get stuck. Per batch:

    requests are opened, the longest outputs first, while memory has room for them;
    those whose decodes left are as many as the batches left are not held any longer;
    fills take the rest, in chunks that are not too small to be worth another read of the prompt;
    where decodes leave less than that, some are held until the prompts at hand are filled.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import islice

import numpy as np

from optsched.errors import require
from optsched.instance import Instance, IntArray
from optsched.schedule import MOST, Kind, Schedule
from optsched.warmstart.groups import Preference, grouped

_WIDTH = 100  # unopened requests that are looked at for one that fits


@dataclass(frozen=True, kw_only=True)
class LevelOptions:
    """How to level.

    Parameters
    ----------
    batch_tokens : int
        Tokens of a batch.
    fill_tokens : int
        Tokens that decodes leave to fills while prompts wait to be filled.
    least_chunk : int
        No shorter chunk of a prompt, but for its rest.
    floor_tokens, reserve_tokens : int
        So many prompt tokens are kept back for batches that have fewer than ``floor_tokens``.
    preference : Preference
        Who ends last.
    batch_s : float
        Expected time of a batch, for ``Preference.LATE``.
    """

    batch_tokens: int
    fill_tokens: int
    least_chunk: int = 1
    floor_tokens: int = 0
    reserve_tokens: int = 0
    preference: Preference = Preference.LONG_OUTPUT
    batch_s: float = 0.0

    def __post_init__(self) -> None:
        require(
            self.reserve_tokens == 0 or self.floor_tokens > 0, "reserve_tokens",
            self.reserve_tokens, "0 without floor_tokens, as nothing would ever take it",
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True, eq=False)
class Openings:
    """When requests end, in the order of placement, that is backwards in time.

    Parameters
    ----------
    order : int array, shape ``(requests,)``
        Positions in the instance, the last to end first.
    slots : int array, shape ``(requests,)``
        Ascending: the k-th request of the order ends so many batches before the last one, or
        earlier.
    """

    order: IntArray
    slots: IntArray


def levelled(
    instance: Instance, options: LevelOptions, openings: Openings | None = None
) -> Schedule:
    """The schedule; arrivals are left to the order of placement.

    Without ``openings`` requests are placed by preference, as soon as memory has room.
    """
    if openings is None:
        groups = grouped(instance, options.preference, options.batch_s)
        order = [r for m in groups.members for r in reversed(m)]
        return _Levelled(instance, options, order, [0] * len(order)).run()
    slots = openings.slots.tolist()
    return _Levelled(instance, options, openings.order.tolist(), slots).run()


class _Levelled:
    """Slot j is the (j + 1)-th batch from the end."""

    def __init__(
        self, instance: Instance, options: LevelOptions, order: list[int], opens: list[int]
    ) -> None:
        limits = instance.limits
        self.block = limits.block_tokens
        self.pages = limits.kv_tokens // self.block
        self.most = min(options.batch_tokens, limits.batch_tokens)
        self.steps = limits.batch_requests or len(instance)
        self.fill_most = min(limits.fill_tokens, self.most)
        self.share = max(1, min(options.fill_tokens, self.fill_most))
        self.least = max(1, min(options.least_chunk, self.share))
        self.prompt: list[int] = instance.prompt_tokens.tolist()
        self.output: list[int] = instance.output_tokens.tolist()
        self.floor, self.reserve = options.floor_tokens, options.reserve_tokens
        self.unopened = deque(order)
        self.due = dict(zip(order, opens, strict=True))
        # Without so much free memory, and before that slot, nobody can be opened.
        self.needed, self.next_due = 0, 0
        self.left = int(instance.final_tokens.sum())  # tokens to be placed
        self.used = 0  # pages
        # Of equals the first to arrive, wherever in the list.
        self.rank: list[int] = np.argsort(np.argsort(instance.release_s, kind="stable")).tolist()
        self.running: list[tuple[int, int, int]] = []  # heap: slot after its decodes, rank, request
        self.since: dict[int, int] = {}  # slot from which a request runs
        self.held: list[tuple[int, int, int]] = []  # heap: -decodes left, rank, request
        self.shrinks = [0] * self.block  # running requests by (size + slot) mod b
        self.pending: deque[list[int]] = deque()  # request, prompt tokens to be placed
        self.waiting = 0  # tokens of the prompts pending
        self.filling = False
        self.runs: list[tuple[int, int, int, int]] = []  # request, slot, batches, tokens

    def run(self) -> Schedule:
        """Place everything and turn the axis round."""
        slot = 0
        while self.left:
            self._slot(slot)
            slot += 1
        request, first, batches, tokens = np.array(self.runs, dtype=np.int64).T
        return Schedule(
            request=request, kind=np.full(request.size, int(Kind.PROCESS)),
            first_batch=slot - first - batches + 1, batches=batches, tokens=tokens,
        ).merged()  # fmt: skip

    def _slot(self, slot: int) -> None:
        while self.running and self.running[0][0] == slot:
            request = heappop(self.running)[2]
            self._stop(request, slot, self.prompt[request])
            self._wait(request)
        self._open(slot)
        most = self._most_decodes()
        while len(self.running) > most:
            self._hold(slot)
        while self.held and len(self.running) < most:
            self._resume(slot)
        self._release_urgent(slot)
        freed = self._fill(slot)
        decodes = len(self.running)
        self.left -= decodes
        self.used -= freed + self.shrinks[(slot + 1) % self.block]

    def _most_decodes(self) -> int:
        """Decodes of this batch at most: all of it, unless prompts are to be filled first."""
        available = len(self.running) + len(self.held)
        if not self.pending:
            self.filling = False
        elif available < self.most and self.most - available < self.least:
            self.filling = True
        elif available <= self.most - self.share:
            self.filling = False
        room = self.most - self.share if self.filling else self.most
        return min(room, self.steps)

    def _open(self, slot: int) -> None:
        """Open requests while memory has room and this batch may process their last token."""
        while len(self.running) < min(self.most, self.steps):
            place = self._place(slot)
            if place is None:
                return
            self._opened(place, slot)

    def _place(self, slot: int) -> int | None:
        """Place of the first unopened request that memory has room for, among the first few."""
        free = (self.pages - self.used) * self.block
        idle = not (self.running or self.held or self.pending)
        if free < self.needed and slot < self.next_due and not idle:
            return None
        self.needed = self.next_due = MOST
        for place, request in enumerate(islice(self.unopened, _WIDTH)):
            if self.due[request] > slot and not idle:
                self.next_due = self.due[request]
                break
            final = self.prompt[request] + self.output[request] - 1
            if final <= free:
                self.needed = 0
                return place
            self.needed = min(self.needed, final)
        return None

    def _opened(self, place: int, slot: int) -> None:
        request = self.unopened[place]
        del self.unopened[place]
        final = self.prompt[request] + self.output[request] - 1
        self.used += -(-final // self.block)
        if self.output[request] > 1:
            self._start(request, slot, self.output[request] - 1, final)
        else:
            self._wait(request)

    def _wait(self, request: int) -> None:
        """All that is left of ``request`` is its prompt."""
        self.pending.append([request, self.prompt[request]])
        self.waiting += self.prompt[request]

    def _start(self, request: int, slot: int, decodes: int, size: int) -> None:
        heappush(self.running, (slot + decodes, self.rank[request], request))
        self.since[request] = slot
        self.shrinks[(size + slot) % self.block] += 1

    def _stop(self, request: int, slot: int, size: int) -> None:
        """Record the decodes of the slots since it runs; it is left with ``size`` tokens."""
        since = self.since.pop(request)
        self.shrinks[(size + slot) % self.block] -= 1
        if slot > since:
            self.runs.append((request, since, slot - since, 1))

    def _hold(self, slot: int) -> None:
        """Hold the running request with the fewest decodes left."""
        end, _, request = heappop(self.running)
        self._stop(request, slot, self.prompt[request] + end - slot)
        heappush(self.held, (slot - end, self.rank[request], request))

    def _resume(self, slot: int) -> None:
        """Let the held request with the most decodes left run."""
        decodes, _, request = heappop(self.held)
        self._start(request, slot, -decodes, self.prompt[request] - decodes)

    def _release_urgent(self, slot: int) -> None:
        """Requests with as many decodes left as there are batches run in place of others."""
        batches = self.left // self.most
        while self.running:
            held = -self.held[0][0] if self.held else 0
            unopened = self.output[self.unopened[0]] - 1 if self.unopened else 0
            decodes = max(held, unopened)
            if decodes + 1 < batches or self.running[0][0] - slot >= decodes:
                return
            if held >= unopened:
                self._hold(slot)
                self._resume(slot)
            elif self._place(slot) == 0:
                self._opened(0, slot)
                self._hold(slot)
            else:
                return

    def _fill(self, slot: int) -> int:
        """Take back chunks of prompts; the pages that they free after this slot."""
        wanted = max(self.waiting - self.reserve, self.floor - len(self.running))
        room = min(self.most - len(self.running), self.fill_most)
        if self.unopened or self.held or self.running:
            room = min(room, wanted)
        steps, freed = self.steps - len(self.running), 0
        while self.pending and room > 0 and steps > 0:
            piece = self.pending[0]
            tokens = min(room, piece[1])
            if tokens < min(self.least, piece[1]) and self.running:
                break
            self.runs.append((piece[0], slot, 1, tokens))
            freed -= -(-(piece[1] - tokens) // self.block) - -(-piece[1] // self.block)
            piece[1] -= tokens
            self.left -= tokens
            self.waiting -= tokens
            room -= tokens
            steps -= 1
            if not piece[1]:
                self.pending.popleft()
        return freed
