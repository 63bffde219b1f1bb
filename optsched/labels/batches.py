"""The batches that can follow a state.

A state is a tuple with (g, place) of every request; the time of a batch depends on nothing else.

Which actions are tried. Every set of requests may be processed. Of the others, one on the GPU may
be held, evicted or swapped out, and one on the host may stay, come back, or be dropped. Two of
these are only tried when they are needed, which loses nothing:

- An eviction frees memory and takes no time, so it can be put off to the first batch that lacks the
  memory (or, by a policy, to a pause). If none does before the request is processed again, it goes
  on from its cache instead of a refill. That costs no more where no refill is cheaper than going on
  (:func:`put_off`); elsewhere every set of evictions is tried. So of the sets of evictions only
  those are tried that leave no member out without exceeding M.
- KV on the host is dropped only in a batch that swaps something out, to make room there.

Swaps take time, which may be hidden where a batch waits for a return anyway; they are tried always.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from optsched.instance import Instance
from optsched.labels.steps import CALLED, GONE, GPU, HOST, RETURNED, Step, Steps
from optsched.schedule import Kind

State = tuple[tuple[int, int], ...]
Action = tuple[int, Kind, int]  # request, kind, tokens


@dataclass(frozen=True)
class Batch:
    """One batch: its time, who is processed, what is done, and the state after it."""

    time_s: float
    processed: tuple[int, ...]
    actions: tuple[Action, ...]
    after: State


@dataclass(frozen=True)
class _Choice:
    """An action of a request that is not processed: pages held, tokens moved and on the host."""

    kind: Kind | None
    place: int
    pages: int
    moved: int
    host: int


class Batches:
    """Enumerates, and remembers, the batches after every state.

    Parameters
    ----------
    instance : Instance
    steps : tuple of Steps
    policies : frozenset of str
        Of ``no-evict``, ``no-swap``, ``no-hybrid``, ``fcfs`` and handlings.
    """

    def __init__(self, instance: Instance, steps: tuple[Steps, ...], policies: frozenset[str]):
        self._limits, self._cost, self._steps = instance.limits, instance.cost, steps
        self._evicts = "no-evict" not in policies
        self._hybrid = "no-hybrid" not in policies
        self._ordered = "fcfs" in policies
        self._swaps = instance.limits.host_kv_tokens > 0 and "no-swap" not in policies
        wanted = any(handling for each in steps for handling in each.handling)
        self._put_off = not wanted and self._hybrid and put_off(instance, steps)
        self._found: dict[State, tuple[Batch, ...]] = {}

    def after(self, state: State) -> tuple[Batch, ...]:
        """All batches that can follow ``state``."""
        found = self._found.get(state)
        if found is None:
            found = self._found[state] = tuple(self._all(state))
        return found

    def _all(self, state: State) -> Iterator[Batch]:
        alive = [i for i, (g, _) in enumerate(state) if g < self._steps[i].output]
        most = min(self._limits.batch_requests or len(alive), len(alive))
        for size in range(1, most + 1):
            for processed in itertools.combinations(alive, size):
                yield from self._processing(state, alive, processed)

    def _processing(
        self, state: State, alive: list[int], processed: tuple[int, ...]
    ) -> Iterator[Batch]:
        limits, cost = self._limits, self._cost
        if self._ordered and not self._in_order(state, processed):
            return
        tokens = prefill = pages = moved = 0
        decodes = prefills = False
        attention = 0.0
        actions: list[Action] = []
        after = list(state)
        for i in processed:
            g, place = state[i]
            step = self._step(i, g, place)
            if step is None:
                return
            if place == HOST:
                actions.append((i, Kind.SWAP_IN, 0))
                moved += self._steps[i].cached[g]
            actions.append((i, Kind.PROCESS, step.tokens))
            tokens += step.tokens
            pages += step.pages
            attention += step.attention_s
            decodes |= step.decode
            prefills |= not step.decode
            prefill += 0 if step.decode else step.tokens
            after[i] = self._next(i, g + 1)
        if tokens > limits.batch_tokens or prefill > limits.fill_tokens or pages > limits.kv_tokens:
            return
        if decodes and prefills and not self._hybrid:
            return
        time_s = max(a + b * tokens for a, b in cost.pieces) + attention
        time_s += (cost.d0 if decodes else 0.0) + (cost.p0 if prefills else 0.0)
        idle = [i for i in alive if i not in processed]
        for extra, places, more in self._idle(state, idle, limits.kv_tokens - pages, moved):
            result = list(after)
            for i, place in zip(idle, places, strict=True):
                result[i] = (state[i][0], place)
            yield Batch(time_s + cost.swap_tok * more, processed, (*actions, *extra), tuple(result))

    def _step(self, i: int, g: int, place: int) -> Step | None:
        """The next step of request ``i``; None if its call would be handled against a policy."""
        steps = self._steps[i]
        wanted = steps.handling[g] if g else None
        if wanted is not None and place != CALLED:
            handled = {GONE: "discard", GPU: "preserve", HOST: "swap", RETURNED: "swap"}[place]
            if handled != wanted:
                return None
        return steps.fill[g] if place == GONE else steps.on[g]

    def _next(self, i: int, g: int) -> tuple[int, int]:
        steps = self._steps[i]
        if g == steps.output:
            return g, GONE
        return g, CALLED if steps.handling[g] is not None else GPU

    def _in_order(self, state: State, processed: tuple[int, ...]) -> bool:
        """Whether no first token comes before that of a request that arrived earlier."""
        begun = {i for i, (g, _) in enumerate(state) if g} | set(processed)
        return all(
            k in begun
            for i in processed if state[i][0] == 0
            for k, other in enumerate(self._steps) if other.release_s < self._steps[i].release_s
        )  # fmt: skip

    def _idle(
        self, state: State, idle: list[int], room: int, moved: int
    ) -> Iterator[tuple[tuple[Action, ...], tuple[int, ...], int]]:
        """Actions of those not processed that fit into ``room`` pages' tokens."""
        choices = [self._choices(i, *state[i]) for i in idle]
        for picked in itertools.product(*choices):
            pages = sum(choice.pages for choice in picked)
            if pages > room or sum(choice.host for choice in picked) > self._limits.host_kv_tokens:
                continue
            if self._needless(state, idle, picked, room - pages):
                continue
            actions = tuple(
                (i, choice.kind, 0)
                for i, choice in zip(idle, picked, strict=True) if choice.kind is not None
            )  # fmt: skip
            places = tuple(choice.place for choice in picked)
            yield actions, places, moved + sum(choice.moved for choice in picked)

    def _needless(
        self, state: State, idle: list[int], picked: tuple[_Choice, ...], left: int
    ) -> bool:
        """Whether something is evicted that could stay."""
        out = any(choice.kind is Kind.SWAP_OUT for choice in picked)
        for i, choice in zip(idle, picked, strict=True):
            if choice.kind is not Kind.EVICT:
                continue
            g, place = state[i]
            if place == HOST:
                if not out:
                    return True
            elif self._put_off and self._steps[i].pages[g] <= left:
                return True
        return False

    def _choices(self, i: int, g: int, place: int) -> list[_Choice]:
        steps = self._steps[i]
        if place == GONE:
            return [_Choice(None, GONE, 0, 0, 0)]
        tokens, pages = steps.cached[g], steps.pages[g]
        if place == HOST:
            back = RETURNED if steps.handling[g] is not None else GPU
            found = [
                _Choice(None, HOST, 0, 0, tokens),
                _Choice(Kind.SWAP_IN, back, pages, tokens, 0),
            ]
        else:
            found = [_Choice(None, GPU if place == CALLED else place, pages, 0, 0)]
            if self._swaps:
                found.append(_Choice(Kind.SWAP_OUT, HOST, 0, tokens, tokens))
        if self._evicts:
            found.append(_Choice(Kind.EVICT, GONE, 0, 0, 0))
        return found


def put_off(instance: Instance, steps: tuple[Steps, ...]) -> bool:
    """Whether going on from the cache is never dearer than a refill, whatever else is in the batch.

    It processes fewer tokens. If it is a decode it may bring d0 into the batch, and its attention
    may exceed the refill's; slack in tokens makes up for it.
    """
    cost = instance.cost
    beta = min(slope for _, slope in cost.pieces)
    for each in steps:
        for fill, on in zip(each.fill, each.on, strict=True):
            if on is None:
                continue
            gain = beta * (fill.tokens - on.tokens) + fill.attention_s - on.attention_s
            if gain < (cost.d0 if on.decode else 0.0):
                return False
    return True
