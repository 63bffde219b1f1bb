"""What arguments look at: requests, limits, and events, in plain Python numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from optsched.bounds.verify.events import Stretch, stretches
from optsched.cost import CostModel
from optsched.instance import Limits, Request


@dataclass(frozen=True)
class Workload:
    """Requests that are there from the start, on a machine with ``limits`` and ``cost``."""

    requests: Sequence[Request]
    limits: Limits
    cost: CostModel

    @cached_property
    def events(self) -> list[list[Stretch]]:
        """The token events of each request."""
        return [stretches(r, self.limits.fill_tokens) for r in self.requests]

    @cached_property
    def stretches(self) -> list[Stretch]:
        """The token events of all requests."""
        return [s for own in self.events for s in own]

    @property
    def cap(self) -> int:
        """floor(M / b): pages of the KV cache."""
        return self.limits.kv_tokens // self.limits.block_tokens

    @property
    def new_tokens(self) -> int:
        """X: tokens that every schedule processes at least once."""
        return sum(s.new + s.events - 1 for s in self.stretches)

    @property
    def most_steps(self) -> int:
        """Events that a batch can have: one per request, each a step of at least one token."""
        most = min(len(self.requests), self.limits.batch_tokens)
        own = self.limits.batch_requests
        return most if own is None else min(most, own)
