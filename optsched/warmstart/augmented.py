"""Online schedulers of requests with calls: first come first served, and what to do with the KV.

One loop for all: take arrivals and returns, decide about the KV of paused requests, form a batch in
the order of the queue, process it. A request in the queue takes the chunk that the batch's tokens
leave; a running one that lacks memory evicts from the end of the queue (paused requests first), a
waiting one does not, and nobody behind it is admitted. If that leaves a batch empty, the head of
the queue evicts until it fits, so there is always progress.

``vllm-discard``: every call ends the request, whose return is a new one at the end of the queue.
``infercept`` (Abhyankar et al., ICML 2024): by original arrival; in every batch each paused request
has the waste of preserving, T C, and of discarding, t(C) (C + others), with T the time since its
call, C its tokens and t the time of a batch of C tokens. The swap budget, the tokens whose copy one
batch's time hides, goes to those whose smaller waste is largest; the rest take the smaller one.
That a swap must also waste less than both (2 swap_tok C KV in use) is ours: without it short calls
would be swapped whenever the budget allows. ``infercept-known`` knows the duration of each call.

``mars``: handling by the least of the same three wastes when the call is made, with its predicted
duration; the queue by the area under the request's predicted memory curve over its remaining life,
the smallest first; a request passed over more than 100 times in a row goes first from then on.
Lengths are predicted by bins, calls by the mean of their class. Rank and handling are those of the
phase that a request is in, so each call that returns re-ranks it. ``mars-true`` knows all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from optsched.cost import CostModel
from optsched.handling import HANDLINGS
from optsched.instance import Instance, require_feasible
from optsched.schedule import Kind, Schedule, from_steps
from optsched.warmstart.predict import CLAIRVOYANT, MARS, Predictors, predict

PRESERVE, DISCARD, SWAP = HANDLINGS


@dataclass(frozen=True, kw_only=True)
class AugmentedRule:
    """One scheduler.

    Parameters
    ----------
    name, summary : str
        As the command line shows them.
    handling : str or None
        One of :data:`~optsched.handling.HANDLINGS` for every call (a swap that finds no room on the
        host preserves); None takes the least waste.
    known : bool
        Whether the duration of a call is known when it is made.
    returns_last : bool
        Whether a request whose KV was discarded for a call queues again behind all others.
    batch_tokens : int or None
        Tokens per batch, if less than C.
    most_requests : int or None
        Requests processed per batch, if less than the instance's limit.
    predictors : Predictors or None
        Order and handle requests by what these predict of them.
    starvation : int or None
        A request that more batches than this have passed over goes first.
    swap_budget : float
        Where the least waste is taken batch by batch: tokens swapped in one, as a multiple of those
        whose copy takes as long as the last batch.
    """

    name: str
    summary: str
    handling: str | None
    known: bool = False
    returns_last: bool = False
    batch_tokens: int | None = None
    most_requests: int | None = None
    predictors: Predictors | None = None
    starvation: int | None = None
    swap_budget: float = 1.0

    def __call__(self, instance: Instance, /) -> Schedule:
        """The schedule of this rule.

        Raises
        ------
        InfeasibleError
            A request cannot run even alone.
        """
        require_feasible(instance)
        return _Run(instance, self).schedule()


class _Run:
    """State of one run; lists are by request."""

    def __init__(self, instance: Instance, rule: AugmentedRule) -> None:
        self.rule, self.cost, self.limits = rule, instance.cost, instance.limits
        requests = instance.requests
        self.requests = requests
        self._pages = self.limits.pages
        self._batch_tokens = min(
            self.limits.batch_tokens, rule.batch_tokens or self.limits.batch_tokens
        )
        self.release = [float(t) for t in instance.release_s]
        self.turn = [(t, i) for i, t in enumerate(self.release)]  # place in the queue
        self.known = [r.prompt_tokens for r in requests]
        self.cached = [0] * len(requests)
        self.host = [0] * len(requests)
        self.made = [0] * len(requests)
        self.calls = [list(r.calls) for r in requests]
        self.coming = sorted(range(len(requests)), key=lambda i: (self.release[i], i))
        self.queue: list[int] = []
        self.paused: dict[int, tuple[float, float]] = {}  # when the call was made, and returns
        self.discards: set[int] = set()  # paused requests whose KV was discarded
        self.now, self.batch, self.last_s = 0.0, 1, 0.0
        self.left = len(requests)
        self.passed = [0] * len(requests)  # batches that passed it over
        self.life = None if rule.predictors is None else Life(instance, rule.predictors)
        self.phase = [0] * len(requests)
        self.planned: dict[int, str] = {}  # handling of paused requests, by prediction
        self.steps: list[tuple[int, int, int, int]] = []

    def schedule(self) -> Schedule:
        """Run to the end."""
        while self.left:
            self._take()
            if not self.queue:
                returns = [until for _, until in self.paused.values()]
                arrivals = [self.release[self.coming[0]]] if self.coming else []
                self.now = min(returns + arrivals)
                continue
            self._process(self._form())
        return from_steps(self.steps)

    def _take(self) -> None:
        """Arrivals and returns up to now."""
        while self.coming and self.release[self.coming[0]] <= self.now:
            self.queue.append(self.coming.pop(0))
        for i in [i for i, (_, until) in self.paused.items() if until <= self.now]:
            _, until = self.paused.pop(i)
            self.known[i] += self.calls[i].pop(0).response_tokens
            if self.rule.returns_last and i in self.discards:
                self.turn[i] = (until, i)
            self.discards.discard(i)
            self.queue.append(i)
        self.queue.sort(key=self._key)

    def _key(self, i: int) -> tuple[bool, float, tuple[float, int]]:
        """Place in the queue, lowest first."""
        rank = 0.0 if self.life is None else self.life.area(i, self.phase[i])
        return not self._starved(i), rank, self.turn[i]

    def _starved(self, i: int) -> bool:
        return self.rule.starvation is not None and self.passed[i] > self.rule.starvation

    def _form(self) -> dict[int, int]:
        """Tokens of each request in the next batch; evictions and swaps are noted."""
        limits, rule = self.limits, self.rule
        used = sum(self._pages(m) for m in self.cached)
        moved: set[int] = set()  # evicted or swapped out in this batch
        used -= self._handle(used, moved)
        chosen: dict[int, int] = {}
        tokens_left = self._batch_tokens
        fill_left = limits.fill_tokens
        most = min(limits.batch_requests or self.left, rule.most_requests or self.left)
        for i in self.queue:
            if not tokens_left or len(chosen) == most:
                break
            if i in moved:
                continue
            m = self.cached[i] or self.host[i]
            rest = self.known[i] - m
            decode = rest == 1 and m >= self.requests[i].prompt_tokens
            c = 1 if decode else min(rest, tokens_left, fill_left)
            if not c:
                continue
            running = self.cached[i] > 0
            # To be admitted a request must find room for all that it knows.
            goal = self._pages(m + c if running else self.known[i])
            need = goal - self._pages(self.cached[i])
            first = not chosen and not any(self.cached[k] for k in self.queue if k not in moved)
            if used + need > limits.kv_tokens and (running or first):
                used = self._make_room(i, used, need, chosen, moved)
            if used + need > limits.kv_tokens:
                if running:
                    continue
                break
            chosen[i] = c
            used += self._pages(m + c) - self._pages(self.cached[i])
            tokens_left -= c
            fill_left -= 0 if decode else c
        return chosen or self._forced(used, moved)

    def _forced(self, used: int, moved: set[int]) -> dict[int, int]:
        """The first of the queue that may act, whoever has to give way to it."""
        i = next(k for k in self.queue if k not in moved)
        m = self.cached[i] or self.host[i]
        c = min(self.known[i] - m, self.limits.fill_tokens, self._batch_tokens)
        need = self._pages(m + c) - self._pages(self.cached[i])
        used = self._make_room(i, used, need, {}, moved)
        assert used + need <= self.limits.kv_tokens
        return {i: c}

    def _make_room(
        self, i: int, used: int, need: int, chosen: dict[int, int], moved: set[int]
    ) -> int:
        """KV in use after evictions for ``i``: of paused requests, then from the queue's end."""
        behind = [k for k in reversed(self.queue) if self._key(k) > self._key(i) or not chosen]
        paused = sorted(self.paused, key=self._key, reverse=True)
        for k in (*paused, *behind):
            if used + need <= self.limits.kv_tokens:
                break
            if k != i and k not in chosen and k not in moved and self.cached[k]:
                used -= self._leave(k, DISCARD, moved)
        return used

    def _leave(self, i: int, handling: str, moved: set[int]) -> int:
        """KV of ``i`` leaves the GPU in this batch; the pages' tokens that this frees."""
        tokens = self.cached[i]
        self.steps.append((i, Kind.EVICT if handling == DISCARD else Kind.SWAP_OUT, self.batch, 0))
        if handling == SWAP:
            self.host[i] = tokens
        elif i in self.paused:
            self.discards.add(i)
        self.cached[i] = 0
        moved.add(i)
        return self._pages(tokens)

    def _handle(self, used: int, moved: set[int]) -> int:
        """Decide about the KV of paused requests; the pages' tokens that this frees."""
        rule = self.rule
        resident = [i for i in self.paused if self.cached[i]]
        host_left = self.limits.host_kv_tokens - sum(self.host)
        freed = 0
        if rule.handling is not None or self.life is not None:
            for i in resident:
                handling = rule.handling or self.planned[i]
                swaps = handling == SWAP
                if handling != PRESERVE and (not swaps or self.cached[i] <= host_left):
                    host_left -= self.cached[i] if swaps else 0
                    freed += self._leave(i, handling, moved)
            return freed
        budget = rule.swap_budget * self.last_s / max(self.cost.swap_tok, 1e-12)
        wasted = []
        for i in resident:
            made, until = self.paused[i]
            tokens = self.cached[i]
            preserve = (until - made if rule.known else self.now - made) * tokens
            discard = _fill_s(self.cost, tokens) * used
            wasted.append((min(preserve, discard), discard < preserve, i))
        for least, drops, i in sorted(wasted, key=lambda entry: (-entry[0], entry[2])):
            tokens = self.cached[i]
            swap = 2 * self.cost.swap_tok * tokens * used
            if swap < least and tokens <= min(budget, host_left):
                budget, host_left = budget - tokens, host_left - tokens
                freed += self._leave(i, SWAP, moved)
            elif drops:
                freed += self._leave(i, DISCARD, moved)
        return freed

    def _least_waste(self, i: int, duration_s: float) -> str:
        """The handling of least waste for a call of ``duration_s``."""
        tokens, used = self.cached[i], sum(map(self._pages, self.cached))
        waste = {
            PRESERVE: duration_s * tokens,
            DISCARD: _fill_s(self.cost, tokens) * used,
            SWAP: 2 * self.cost.swap_tok * tokens * used,
        }
        if tokens > self.limits.host_kv_tokens - sum(self.host):
            del waste[SWAP]
        return min(waste, key=waste.__getitem__)

    def _process(self, chosen: dict[int, int]) -> None:
        """Process the batch and move its requests on."""
        cost = self.cost
        tokens, attention, decodes, prefills = 0, 0.0, False, False
        swapped = sum(
            self.host[i] for i, kind, j, _ in self.steps[-len(self.requests) :]
            if j == self.batch and kind == Kind.SWAP_OUT
        )  # fmt: skip
        for i, c in chosen.items():
            if self.host[i]:
                self.steps.append((i, Kind.SWAP_IN, self.batch, 0))
                swapped += self.host[i]
                self.cached[i], self.host[i] = self.host[i], 0
            self.steps.append((i, Kind.PROCESS, self.batch, c))
            m = self.cached[i]
            decode = c == 1 and m == self.known[i] - 1 and m >= self.requests[i].prompt_tokens
            decodes, prefills = decodes or decode, prefills or not decode
            if decode:
                attention += cost.d_kv * m + cost.d_req
            else:
                attention += c * (cost.p_sq * c + cost.mixed * m) + cost.p_kv * m + cost.p_req
            tokens += c
            self.cached[i] = m + c
        self.last_s = max(a + b * tokens for a, b in cost.pieces) + attention
        self.last_s += (cost.d0 if decodes else 0.0) + (cost.p0 if prefills else 0.0)
        self.last_s += cost.swap_tok * swapped
        self.now += self.last_s
        for i in self.queue:
            # Who has starved stays ahead, or would be evicted as soon as it is served.
            if not self._starved(i):
                self.passed[i] = 0 if i in chosen else self.passed[i] + 1
        for i in chosen:
            if self.cached[i] == self.known[i]:
                self._generated(i)
        self.batch += 1

    def _generated(self, i: int) -> None:
        """A token is there: the request goes on, makes a call, or ends."""
        self.made[i] += 1
        self.known[i] += 1
        if self.made[i] == self.requests[i].output_tokens:
            self.queue.remove(i)
            self.cached[i] = 0
            self.left -= 1
        elif self.calls[i] and self.calls[i][0].after_tokens == self.made[i]:
            self.queue.remove(i)
            self.paused[i] = (self.now, self.now + self.calls[i][0].duration_s)
            if self.life is not None:
                self.planned[i] = self._least_waste(i, self.life.duration_s(i, self.phase[i]))
            self.phase[i] += 1


def _fill_s(cost: CostModel, tokens: float) -> float:
    """t(C): time of a batch that fills ``tokens``."""
    return float(cost.token_time(tokens) + cost.prefill_time(tokens, 0))


class Life:
    """The predicted remaining life of every request, phase by phase (MARS)."""

    def __init__(self, instance: Instance, predictors: Predictors) -> None:
        cost, phases = instance.cost, predict(instance, predictors)
        self._start: list[int] = phases.start.tolist()
        self._duration: list[float] = phases.duration_s.tolist()
        step_s = float(cost.token_time(1))
        self._area: list[float] = [0.0] * len(self._duration)
        for i, request in enumerate(instance.requests):
            begin, end = self._start[i], self._start[i + 1]
            context, areas = float(request.prompt_tokens), []
            for k in range(begin, end):
                tokens = float(phases.output_tokens[k])
                area = step_s * tokens * (context + tokens / 2)
                context += tokens
                # Held while that is cheaper than to fill it again.
                area += context * min(self._duration[k], _fill_s(cost, context))
                context += float(phases.response_tokens[k])
                areas.append(area)
            for k in range(end - 1, begin - 1, -1):
                later = self._area[k + 1] if k + 1 < end else 0.0
                self._area[k] = areas[k - begin] + later

    def area(self, i: int, phase: int) -> float:
        """Token-seconds that request ``i`` will hold from ``phase`` on."""
        return self._area[self._start[i] + phase]

    def duration_s(self, i: int, phase: int) -> float:
        """Predicted duration of the call that ends ``phase``."""
        return self._duration[self._start[i] + phase]


AUGMENTED: dict[str, AugmentedRule] = {
    rule.name: rule
    for rule in (
        AugmentedRule(
            name="vllm-discard", handling=DISCARD, returns_last=True,
            summary="FCFS, a call ends the request and its return is a new one",
        ),
        AugmentedRule(
            name="fcfs-preserve", handling=PRESERVE, summary="FCFS, KV is held during calls"
        ),
        AugmentedRule(
            name="fcfs-swap", handling=SWAP, summary="FCFS, KV is swapped out during calls"
        ),
        AugmentedRule(
            name="infercept", handling=None,
            summary="FCFS, least waste of preserve, discard and swap, by the time since the call",
        ),
        AugmentedRule(
            name="infercept-known", handling=None, known=True,
            summary="infercept with the duration of every call known (clairvoyant)",
        ),
        AugmentedRule(
            name="mars", handling=None, predictors=MARS, starvation=100,
            summary="smallest predicted memory curve first, least waste by prediction",
        ),
        AugmentedRule(
            name="mars-true", handling=None, predictors=CLAIRVOYANT, starvation=100,
            summary="mars with the true lengths, durations and responses (clairvoyant)",
        ),
    )
}  # fmt: skip
