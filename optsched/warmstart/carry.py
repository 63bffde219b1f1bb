"""Chunks of prompts for batches that have tokens to spare, chosen backwards in time.

Under a batch-time law of several pieces, tokens are cheap up to a knot: weights must be loaded
anyhow. So a batch below the ``level`` takes prompt tokens from a later batch above it. Their KV is
held from the one to the other. Backwards in time: when a batch above the level is passed, as many
of its prompt tokens are *carried* on as the batches up to the next such batch can take, each of
them puts some down, and memory counts what is still carried. So the KV of partial fills is what is
needed and no more, some hundred tokens.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from optsched.warmstart.kv_profile import Profile

_AHEAD = 256  # batches looked at for the next one above the level


class Carry:
    """Prompt tokens taken out of batches passed, to be put down in batches to come.

    Parameters
    ----------
    profile : Profile
        Slots run backwards in time; slots already passed never change again.
    level : int
        Tokens of a batch up to which it takes chunks, and above which it gives them.
    """

    def __init__(self, profile: Profile, level: int) -> None:
        self._profile = profile
        self._level = level
        self._fills: dict[int, list[tuple[int, int]]] = {}  # slot -> (request, prompt tokens)
        self._open: deque[list[int]] = deque()  # request, tokens carried, slot of its fill
        self._chunks: list[tuple[int, int, int]] = []
        self.pages = 0

    def add_fill(self, request: int, slot: int, prompt: int) -> None:
        """A fill of ``prompt`` tokens was placed in ``slot``."""
        if prompt > 1:
            self._fills.setdefault(slot, []).append((request, prompt))

    def pass_slot(self, slot: int) -> None:
        """Nothing more is placed in ``slot``: let it take chunks, or give them."""
        if not self._profile.tokens[slot]:
            # Nothing runs: what is left goes back to the batches that it came from.
            self._open.clear()
            self.pages = 0
            return
        if self._open:
            self._put_down(slot)
        fills = self._fills.pop(slot, None)
        if fills:
            self._pick_up(slot, fills)

    def finish(self, slot: int) -> list[tuple[int, int, int]]:
        """Pass all slots from ``slot`` on; all chunks as (request, slot, tokens).

        What is still carried then goes back to where it came from.
        """
        last = int(np.flatnonzero(self._profile.tokens)[-1])
        for later in range(slot, last + 1):
            self.pass_slot(later)
        return self._chunks

    def _put_down(self, slot: int) -> None:
        profile = self._profile
        room = min(
            self._level - int(profile.tokens[slot]),
            profile.fill_tokens - int(profile.prefill[slot]),
        )
        steps = len(self._open)
        if profile.batch_requests is not None:
            steps = profile.batch_requests - int(profile.requests[slot])
        while room > 0 and steps > 0 and self._open:
            piece = self._open[0]
            tokens = min(room, piece[1])
            self._chunks.append((piece[0], slot, tokens))
            profile.tokens[slot] += tokens
            profile.prefill[slot] += tokens
            profile.requests[slot] += 1
            room -= tokens
            steps -= 1
            piece[1] -= tokens
            if not piece[1]:
                self._open.popleft()
        self._count_pages()

    def _pick_up(self, slot: int, fills: list[tuple[int, int]]) -> None:
        profile = self._profile
        spare = int(profile.tokens[slot]) - self._level
        wanted = self._wanted(slot) - sum(piece[1] for piece in self._open)
        tokens = min(spare, wanted)
        room = (profile.pages - int(profile.kv[slot + 1]) - self.pages) * profile.block
        for request, prompt in fills:
            # A piece may take one page more than its tokens fill.
            piece = min(tokens, prompt - 1, room // profile.block * profile.block)
            if piece <= 0:
                continue
            self._open.append([request, piece, slot])
            profile.tokens[slot] -= piece
            profile.prefill[slot] -= piece
            tokens -= piece
            room -= -(-piece // profile.block) * profile.block
        self._count_pages()

    def _wanted(self, slot: int) -> int:
        """Tokens that the slots up to the next one above the level can take.

        As many decodes are expected in each of them as in ``slot``: who ends is replaced.
        """
        profile = self._profile
        decodes = int(profile.tokens[slot] - profile.prefill[slot])
        below = self._level - decodes - profile.prefill[slot + 1 : slot + 1 + _AHEAD]
        above = np.flatnonzero(below < 0)
        upto = int(above[0]) if above.size else below.size
        return int(np.maximum(below[:upto], 0).sum())

    def _count_pages(self) -> None:
        block = self._profile.block
        self.pages = sum(-(-piece[1] // block) for piece in self._open)
