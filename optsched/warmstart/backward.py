"""Look-ahead backwards in time: from the last batch to the first.

Seen backwards, a request appears with its largest KV, I + O - 1, and shrinks by one token per
batch until its fill. So whoever fits when it is placed fits for ever, memory stays full to within
one request from the very end on, and the ends of requests line up at the last batch: without
looking for it this gives the shape of the optimum for equal requests, which is a constant start
rate, slowly declining, then one pulse that ends in the last batch (bounds, "Schedules that meet
them"). What is lost is the ramp at the beginning.

A batch that is full of prompt tokens has no room for decodes, and here decodes of later batches
are placed before earlier fills; so fills leave ``decode_room`` tokens of every batch alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from optsched.instance import Instance, IntArray
from optsched.warmstart.carry import Carry
from optsched.warmstart.groups import Groups, Preference, grouped
from optsched.warmstart.kv_profile import Profile
from optsched.warmstart.start_times import StartTimes
from optsched.warmstart.window import Window

BoolArray = NDArray[np.bool_]
_TRIED = 8  # candidates that are looked at exactly before a batch is left as it is


class Gate(Protocol):
    """Which groups may be placed, and which first."""

    def urgency(self, slot: int, group: IntArray) -> NDArray[np.float64]:
        """For each group of the window: below 0 if it must wait, else the largest goes first."""
        ...

    def placed(self, group: int) -> None:
        """A request of ``group`` was placed."""
        ...


@dataclass(frozen=True, kw_only=True)
class Clock:
    """When batches are expected to be processed, seconds.

    Parameters
    ----------
    makespan_s, batch_s : float
        Expected end of the last batch, and mean time of a batch.
    margin_s : float
        A request that starts less than this after its arrival is placed before all others.
    """

    makespan_s: float
    batch_s: float
    margin_s: float

    def time_s(self, slot: int) -> float:
        """Expected time of a slot, counted from the last batch backwards."""
        return self.makespan_s - slot * self.batch_s


@dataclass(frozen=True, kw_only=True)
class BackwardOptions:
    """How to place requests backwards.

    Parameters
    ----------
    preference : Preference
        Who is placed first, that is last in time.
    width : int
        Number of groups looked at.
    decode_room : int
        Tokens of every batch that fills leave to decodes.
    batch_tokens : int or None
        Most tokens of a batch, where that is less than C.
    chunked : bool
        Cut fills to what batches leave; otherwise only those that exceed a batch alone.
    level : int or None
        Tokens up to which batches are filled with chunks of prompts that start later and whose
        batch is above it; None leaves fills whole.
    patience : int
        KV tokens that may stay free before a fill goes into a batch without another one, for laws
        in which a batch with any prefill costs extra.
    clock : Clock or None
        Keeps requests from being placed too early in time for their arrivals; for
        ``Preference.LATE``.
    """

    preference: Preference = Preference.LONG_OUTPUT
    width: int = 400
    decode_room: int = 0
    batch_tokens: int | None = None
    chunked: bool = False
    level: int | None = None
    patience: int = 0
    clock: Clock | None = None


def backward(
    instance: Instance,
    options: BackwardOptions,
    groups: Groups | None = None,
    gate: Gate | None = None,
) -> StartTimes:
    """Start times of all requests, placed from the last batch to the first.

    Arrivals are left to the order of placement: a batch waits for what it processes.
    """
    if groups is None:
        batch_s = options.clock.batch_s if options.clock is not None else 0.0
        groups = grouped(instance, options.preference, batch_s)
    return _Backward(instance, options, groups, gate).run()


class _Backward:
    """Slot j is the (j + 1)-th batch from the end."""

    def __init__(
        self, instance: Instance, options: BackwardOptions, groups: Groups, gate: Gate | None
    ) -> None:
        self.instance = instance
        self.options = options
        self.gate = gate
        limits = instance.limits
        self.profile = Profile(limits)
        self.pages = self.profile.pages
        self.batch_tokens = min(limits.batch_tokens, options.batch_tokens or limits.batch_tokens)
        self.fill_room = max(1, min(limits.fill_tokens, self.batch_tokens - options.decode_room))
        self.window = Window(groups, options.width, latest_first=True)
        self.longest = int(groups.output.max()) + -(-int(groups.prompt.max()) // self.fill_room)
        self.smallest = int(groups.final.min())
        self.last_slot = np.zeros(len(instance), dtype=np.int64)
        self.carry = Carry(self.profile, options.level) if options.level is not None else None
        self.forced: list[tuple[int, int, int]] = []  # request, slot, tokens
        self.release = [float(instance.release_s[m[-1]]) for m in groups.members]

    def run(self) -> StartTimes:
        """Place everything and turn the axis round."""
        slot = 0
        while self.window.left:
            self.profile.reach(slot + self.longest + 1)
            while self.window.left and self._place(slot):
                pass
            if self.carry is not None:
                self.carry.pass_slot(slot)
            slot += 1
        chunks = list(self.forced)
        if self.carry is not None:
            chunks += self.carry.finish(slot)
        table = np.array(chunks, dtype=np.int64).reshape(-1, 3)
        first_token = self.last_slot + self.instance.output_tokens - 1
        return StartTimes(
            first_token=-first_token,
            chunk_request=table[:, 0],
            chunk_batch=-table[:, 1],
            chunk_tokens=table[:, 2],
        )

    def _place(self, slot: int) -> bool:
        """Place one request that ends in ``slot``; False if there is none."""
        profile, window = self.profile, self.window
        held = self.carry.pages if self.carry is not None else 0
        free = (self.pages - int(profile.kv[slot]) - held) * profile.block
        if free < window.smallest_final:
            return False
        for place in self._candidates(slot, free):
            shape = self._shape(slot, int(window.prompt[place]), int(window.output[place]))
            if shape is not None:
                self._commit(slot, place, *shape)
                return True
        return False

    def _candidates(self, slot: int, free: int) -> list[int]:
        """Places in the window of requests that memory and the batch of their fill may admit."""
        window, profile, options = self.window, self.profile, self.options
        fill = slot + window.output - 1
        used = profile.prefill[fill]
        whole = used + window.prompt <= self.fill_room
        cut = used < self.fill_room if options.chunked else used == 0
        ok: BoolArray = (window.final <= free) & (whole | cut)
        if options.clock is not None and self._head_is_urgent(slot, options.clock):
            return [0] if ok[0] else []
        if options.patience:
            if (ok & (used > 0)).any():
                ok &= used > 0
            elif free <= options.patience and self._busy(slot):
                return []
        if self.gate is None:
            return [int(place) for place in np.flatnonzero(ok)[:_TRIED]]
        urgency = self.gate.urgency(slot, window.group)
        if self._busy(slot):
            ok &= urgency >= 0
        order = np.argsort(-urgency, kind="stable")
        return [int(place) for place in order[ok[order]][:_TRIED]]

    def _head_is_urgent(self, slot: int, clock: Clock) -> bool:
        """Whether the first of the window would start soon after its arrival."""
        start_s = clock.time_s(slot + int(self.window.output[0]))
        return start_s < self.release[int(self.window.group[0])] + clock.margin_s

    def _busy(self, slot: int) -> bool:
        """Whether anything is processed in ``slot``; if not, rules of preference do not count."""
        return bool(self.profile.tokens[slot])

    def _shape(self, slot: int, prompt: int, output: int) -> tuple[IntArray, IntArray] | None:
        """KV tokens and tokens processed by slot, from the last token back to the first chunk;
        None if C, P or the limit on requests forbid it. Memory is known to allow it."""
        profile, fill = self.profile, slot + output - 1
        if output > 1 and int(profile.tokens[slot:fill].max()) >= self.batch_tokens:
            return None
        most = profile.batch_requests
        if most is not None and (profile.requests[slot : fill + 1] >= most).any():
            return None
        sizes = self._chunks(fill, prompt)
        if sizes is None:
            return None
        kv = np.arange(prompt + output - 1, prompt - 1, -1)
        tokens = np.ones(output + sizes.size - 1, dtype=np.int64)
        tokens[output - 1 :] = sizes
        return np.concatenate([kv, (prompt - np.cumsum(sizes))[:-1]]), tokens

    def _chunks(self, fill: int, prompt: int) -> IntArray | None:
        """Tokens of the fill in the slots from ``fill`` on; None if it may not end there."""
        profile = self.profile
        room = self._room(slice(fill, fill + 1))
        if prompt <= room[0]:
            return np.array([prompt], dtype=np.int64)
        if room[0] < 1 or not (self.options.chunked or prompt > self.fill_room):
            return None
        slots = 4 * (prompt // self.fill_room) + 16
        profile.reach(fill + slots + 1)
        taken = np.minimum(np.cumsum(self._room(slice(fill, fill + slots))), prompt)
        last = int(np.searchsorted(taken, prompt))
        if last == slots:
            return None
        return np.diff(taken[: last + 1], prepend=0)

    def _room(self, slots: slice) -> IntArray:
        """Prompt tokens that each of the slots can still take."""
        profile = self.profile
        room = np.minimum(
            self.fill_room - profile.prefill[slots], self.batch_tokens - profile.tokens[slots]
        )
        if profile.batch_requests is not None:
            room[profile.requests[slots] >= profile.batch_requests] = 0
        return np.maximum(room, 0)

    def _commit(self, slot: int, place: int, kv: IntArray, tokens: IntArray) -> None:
        window, profile = self.window, self.profile
        prompt, output = int(window.prompt[place]), int(window.output[place])
        group = int(window.group[place])
        request = window.take(place)
        profile.add(slot, profile.pages_of(kv), tokens, slice(output - 1, None))
        self.last_slot[request] = slot
        fill = slot + output - 1
        last_chunk = int(tokens[output - 1])
        for later, size in enumerate(tokens[output:].tolist(), start=1):
            if size:
                self.forced.append((request, fill + later, size))
        if self.carry is not None and last_chunk == prompt:
            self.carry.add_fill(request, fill, prompt)
        if self.gate is not None:
            self.gate.placed(group)
