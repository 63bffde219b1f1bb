"""Rule: what one scheduler does, as data that one loop reads.

The vocabulary is that of InferMax's unified scheduler (Kim et al., "Optimizing LLM Inference for
Database Systems: Cost-Aware Scheduling for Concurrent Requests", Algorithm 1 and Table 1): groups
of requests visited in turn, hybrid or pure batches, whole or chunked fills, a prefill budget, the
KV memory that a request must find free when it is admitted, and who is evicted.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto


class Group(Enum):
    """Requests that a batch considers together."""

    DECODES = auto()
    """Running requests whose next token is one decode step away."""
    FILLS = auto()
    """Running requests with a first fill or refill under way."""
    WAITING = auto()
    """Requests without KV: new ones and evicted ones."""


class Order(Enum):
    """How requests are ordered inside a group; ties go by arrival."""

    ARRIVAL = auto()
    PROMPT = auto()
    """Short prompts first."""
    OUTPUT = auto()
    """Short outputs first: clairvoyant."""
    ADMISSION = auto()
    """As admitted last: an evicted request that returns is the youngest."""
    CACHED = auto()
    """Most KV first, so that the request with the least is evicted first."""


class Reserve(Enum):
    """KV memory that a waiting request must find free, and what it holds once admitted."""

    FILL = auto()
    """Finds and holds the whole fill; grows by decoding."""
    FINAL = auto()
    """Finds and holds I + O - 1, so nothing is ever evicted: clairvoyant."""
    CHUNK = auto()
    """Finds and holds only what each batch computes."""
    EXPECTED = auto()
    """Finds the length that finished requests of its size reached, holds the fill."""
    PROFILE = auto()
    """Finds that memory suffices at every future completion, holds the fill: clairvoyant."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One scheduler.

    Parameters
    ----------
    name, summary : str
        As the command line shows them.
    groups : tuple of Group
        Which requests a batch considers, first to last.
    ranked : bool
        Ignore ``groups``: running and waiting requests form one group in ``queue`` order, and a
        waiting request may evict running ones behind it.
    hybrid : bool
        Whether prefills and decodes may share a batch.
    chunked : bool
        Whether a fill may be cut to what C and P leave; otherwise only a fill that exceeds
        min(C, P) is cut, into pieces of that size.
    prefill_tokens : int or None
        P of the rule; the smaller of it and the instance's limit holds.
    prefill_apart : bool
        Whether P counts prefill tokens only; otherwise the whole batch, decodes included, when a
        prefill is added.
    queue : Order
        Order of waiting requests. Under ARRIVAL an evicted request goes to the front.
    residents : Order
        Order of running requests; they are evicted from its end.
    reserve : Reserve
        What admission asks for.
    fills_evict : bool
        Whether a running fill may lack memory, and then evicts like a decode.
    admits_after_eviction : bool
        Whether waiting requests are considered in a batch that evicted.
    """

    name: str
    summary: str
    groups: tuple[Group, ...]
    ranked: bool = False
    hybrid: bool = True
    chunked: bool = True
    prefill_tokens: int | None = None
    prefill_apart: bool = False
    queue: Order = Order.ARRIVAL
    residents: Order = Order.ARRIVAL
    reserve: Reserve = Reserve.FILL
    fills_evict: bool = False
    admits_after_eviction: bool = True

    @property
    def clairvoyant(self) -> bool:
        """Whether the rule uses output lengths, which no real scheduler knows."""
        return Order.OUTPUT in (self.queue, self.residents) or self.reserve in (
            Reserve.FINAL,
            Reserve.PROFILE,
        )

    @property
    def evicts(self) -> bool:
        """Whether the rule can run out of KV memory."""
        return self.reserve not in (Reserve.FINAL, Reserve.PROFILE)
