"""Look-ahead: admit a request iff everything that runs then fits in memory to its end.

The rule of MC-SF (Jaillet et al., "Online Scheduling for LLM Inference with KV Cache
Constraints"), with two additions. A request that does not fit is passed over for one that does
(backfilling). And a *staggered* look-ahead also keeps the profile before each admission below

    M (kappa + (1 - kappa) E(u))       u batches from now,

E(u) the share of memory that requests running in a steady state still hold u batches later (bounds,
"Schedules that meet them"): without it equal requests run in synchronous waves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optsched.instance import Instance, IntArray
from optsched.warmstart.groups import Groups, Preference, grouped
from optsched.warmstart.kv_profile import Profile
from optsched.warmstart.start_times import StartTimes
from optsched.warmstart.window import Window

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class LookAheadOptions:
    """How to admit requests.

    Parameters
    ----------
    preference : Preference
        Who is admitted first of those that fit.
    width : int
        Number of groups looked at.
    kappa : float or None
        Share of memory that may be filled at once; None does not stagger.
    """

    preference: Preference = Preference.EARLY
    width: int = 400
    kappa: float | None = None


def look_ahead(instance: Instance, options: LookAheadOptions) -> StartTimes:
    """Start times of all requests, batch after batch, among those that have arrived."""
    return _LookAhead(instance, options).run()


def steady_state(groups: Groups) -> FloatArray:
    """E(u): KV that is still held u batches later, over the KV of a steady state; E(0) = 1.

    In a steady state requests start at a constant rate, so at any time one of each age runs and
    E(u) is proportional to sum over k >= u of (I + k), summed over all requests.
    """
    longest = int(groups.output.max())
    held = np.zeros(longest)
    for prompt, output, count in zip(
        groups.prompt.tolist(), groups.output.tolist(), groups.size.tolist(), strict=True
    ):
        held[:output] += count * np.cumsum(np.arange(prompt + output - 1, prompt - 1, -1.0))[::-1]
    return np.asarray(held / held[0])


class _LookAhead:
    """Slot j is batch j + 1."""

    def __init__(self, instance: Instance, options: LookAheadOptions) -> None:
        self.instance = instance
        self.options = options
        self.groups = grouped(instance, options.preference)
        self.profile = Profile(instance.limits)
        self.window = Window(self.groups, options.width)
        self.release = np.array([instance.release_s[m[0]] for m in self.groups.members])
        self.longest = int(self.groups.output.max())
        self.first_token = np.zeros(len(instance), dtype=np.int64)
        self.chunks: list[tuple[int, int, int]] = []
        self.ages = np.arange(self.longest)
        self.limit: FloatArray | None = None
        if options.kappa is not None:
            share = options.kappa + (1 - options.kappa) * steady_state(self.groups)
            self.limit = self.profile.pages * share

    def run(self) -> StartTimes:
        """Admit until nobody waits."""
        slot, now = 0, 0.0
        while self.window.left:
            self.profile.reach(slot + self.longest + 1)
            if not self.profile.tokens[slot]:
                now = max(now, float(self.release[self.window.group].min()))
            while self.window.left and self._admit(slot, now):
                pass
            if not self.instance.offline:
                now += self._duration_s(slot)
            slot += 1
        table = np.array(self.chunks, dtype=np.int64).reshape(-1, 3)
        return StartTimes(
            first_token=self.first_token,
            chunk_request=table[:, 0],
            chunk_batch=table[:, 1],
            chunk_tokens=table[:, 2],
        )

    def _admit(self, slot: int, now: float) -> bool:
        """Admit one request to ``slot``; False if nobody fits."""
        profile, window = self.profile, self.window
        running = bool(profile.tokens[slot])
        free = (profile.pages - int(profile.kv[slot])) * profile.block
        room = min(
            profile.batch_tokens - int(profile.tokens[slot]),
            profile.fill_tokens - int(profile.prefill[slot]),
        )
        if free < 1 or room < 1:
            return False
        most = profile.batch_requests
        if most is not None and int(profile.requests[slot]) >= most:
            return False
        ahead = slice(slot, slot + self.longest)
        if running and self.limit is not None and (profile.kv[ahead] > self.limit).any():
            return False
        fits = self._largest_prompt(ahead)[window.output - 1]
        whole = window.prompt <= profile.fill_tokens
        ok = (window.prompt <= fits) & (window.prompt <= room) & whole
        # A prompt that exceeds a batch is filled in batches of its own size, alone.
        ok |= ~whole & (not running)
        if not self.instance.offline:
            ok &= self.release[window.group] <= now
        if not ok.any():
            return False
        self._commit(slot, int(ok.argmax()))
        return True

    def _largest_prompt(self, ahead: slice) -> IntArray:
        """For each output length O the largest prompt that fits now and to its end; (longest,).

        A request with k tokens made holds b ceil((I + k) / b), so it fits iff I + k is at most the
        free tokens, in whole pages, for every k < O. From k = 1 on it also needs a token, and a
        request, of every batch.
        """
        profile = self.profile
        free = (profile.pages - profile.kv[ahead]) * profile.block - self.ages
        full = profile.tokens[ahead] >= profile.batch_tokens
        if profile.batch_requests is not None:
            full |= profile.requests[ahead] >= profile.batch_requests
        full[0] = False
        largest: IntArray = np.minimum.accumulate(np.where(full, 0, free))
        return largest

    def _commit(self, slot: int, place: int) -> None:
        profile, window = self.profile, self.window
        prompt, output = int(window.prompt[place]), int(window.output[place])
        request = window.take(place)
        sizes = np.full(-(-prompt // profile.fill_tokens), profile.fill_tokens, dtype=np.int64)
        sizes[-1] = prompt - int(sizes[:-1].sum())
        profile.reach(slot + sizes.size + self.longest + 1)
        tokens = np.ones(sizes.size + output - 1, dtype=np.int64)
        tokens[: sizes.size] = sizes
        profile.add(slot, profile.pages_of(np.cumsum(tokens)), tokens, slice(0, sizes.size))
        self.first_token[request] = slot + sizes.size - 1
        self.chunks += [(request, slot + k, int(size)) for k, size in enumerate(sizes[:-1])]

    def _duration_s(self, slot: int) -> float:
        """Time of the batch, with the attention of its fills as if each began and ended here."""
        profile, cost = self.profile, self.instance.cost
        tokens, prefill = int(profile.tokens[slot]), int(profile.prefill[slot])
        if not tokens:
            return 0.0
        decodes = tokens - prefill
        fills = int(profile.requests[slot]) - decodes
        seconds = max(alpha + beta * tokens for alpha, beta in cost.pieces)
        if decodes:
            cached = int(profile.kv[slot]) * profile.block - prefill - decodes
            seconds += cost.d0 + cost.d_kv * cached + cost.d_req * decodes
        if fills:
            seconds += cost.p0 + cost.p_req * fills + cost.p_sq * prefill * prefill / fills
        return seconds
