"""One batch while it is being formed, and the time it takes."""

from __future__ import annotations

from dataclasses import dataclass, field

from optsched.warmstart.state import State


@dataclass(slots=True)
class Batch:
    """What a batch processes.

    Parameters
    ----------
    fills : list of (request, tokens)
        Fill steps.
    tokens, prefill : int
        Tokens in the batch, and those of its fills.
    decodes, decode_kv : int
        Number of decodes that run, and the sum of their m.
    held : list of int
        Decodes left out although others run.
    evicted : bool
        Whether a request was evicted in forming it.
    """

    fills: list[tuple[int, int]] = field(default_factory=list)
    tokens: int = 0
    prefill: int = 0
    decodes: int = 0
    decode_kv: int = 0
    held: list[int] = field(default_factory=list)
    evicted: bool = False

    @property
    def repeats(self) -> bool:
        """Whether it is nothing but every running request decoding."""
        return not (self.fills or self.held or self.evicted)


def token_time(state: State, tokens: int) -> float:
    """max_k (alpha_k + beta_k n), in seconds."""
    return max(alpha + beta * tokens for alpha, beta in state.cost.pieces)


def decode_time(state: State, decodes: int, cached: int) -> float:
    """Attention of ``decodes`` decode steps that read ``cached`` tokens, in seconds."""
    cost = state.cost
    return (cost.d0 + cost.d_kv * cached) + cost.d_req * decodes


def batch_time(state: State, batch: Batch) -> float:
    """Duration of the batch in seconds, by the cost model of ``docs/problem.md``."""
    cost = state.cost
    prefills, squared, mixed, read = len(batch.fills), 0, 0, 0
    for request, tokens in batch.fills:
        cached = state.cached[request]
        squared += tokens * tokens
        mixed += tokens * cached
        read += cached
    seconds = token_time(state, batch.tokens)
    if batch.decodes:
        seconds += decode_time(state, batch.decodes, batch.decode_kv)
    if prefills:
        seconds += cost.p0 + cost.p_sq * squared + cost.mixed * mixed + cost.p_kv * read
        seconds += cost.p_req * prefills
    return seconds
