"""Token events: the sizes at which every schedule must generate a request's tokens.

A token of a request is generated in a batch after which the request holds S tokens, S being its
prompt, the tokens generated before, and the responses of the calls made before. S grows by one per
token and by 1 + R across a call that appends R tokens, so events form stretches of
consecutive sizes. Evictions, chunks and swapping change nothing of this.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate

from optsched.instance import Request


@dataclass(frozen=True, slots=True)
class Stretch:
    """Events of one request at sizes ``low`` .. ``high``, each one token after the other.

    Parameters
    ----------
    low, high : int
        KV tokens after the first and the last event.
    before : int
        KV tokens after the event before the stretch; 0 if it starts with the first token.
    earliest : int
        The first event lies in batch ``earliest`` at the soonest, batches counted from 1.
    after : int
        At least this many batches follow the one of the first event.
    """

    low: int
    high: int
    before: int
    earliest: int
    after: int

    @property
    def new(self) -> int:
        """Tokens up to the first event that no earlier event needed."""
        return self.low - self.before

    @property
    def events(self) -> int:
        """Number of events."""
        return self.high - self.low + 1


def stretches(request: Request, fill_tokens: int) -> list[Stretch]:
    """The events of ``request``, of whose prefill a batch processes at most ``fill_tokens``.

    New tokens up to the first event of a stretch need ceil(new / fill_tokens) batches (the last of
    an appended response may be a decode, which is one more step), each further event one.
    """
    bounds, low, made, before = [], request.prompt_tokens, 0, 0
    for call in request.calls:
        if call.response_tokens > 0:
            high = low + (call.after_tokens - made) - 1
            bounds.append((low, high, before))
            made, before, low = call.after_tokens, high, high + 1 + call.response_tokens
    bounds.append((low, low + (request.output_tokens - made) - 1, before))
    leads = [-((before - low) // fill_tokens) for low, _, before in bounds]
    ends = list(
        accumulate(lead + high - low for lead, (low, high, _) in zip(leads, bounds, strict=True))
    )
    found = []
    for lead, end, (low, high, before) in zip(leads, ends, bounds, strict=True):
        earliest = end - (high - low)
        assert lead >= 1
        found.append(Stretch(low, high, before, earliest, ends[-1] - earliest))
    return found


def inner(events: Iterable[Stretch], head: int, tail: int) -> Iterator[tuple[int, int]]:
    """Sizes (low, high) of the events that no schedule has in its first ``head`` nor in its last
    ``tail`` batches."""
    for s in events:
        low = s.low + max(0, head + 1 - s.earliest)
        high = min(s.high, s.low + s.after - tail)
        if low <= high:
            yield low, high


def pages_of(size: int, block_tokens: int) -> int:
    """Pages that ``size`` tokens take."""
    return -(-size // block_tokens)


def total_pages(low: int, high: int, block_tokens: int) -> int:
    """Pages of one event of each size from ``low`` to ``high``, in closed form."""

    def upto(size: int) -> int:
        # Size x takes 1 page and one more for each of the whole pages below it: (x - 1) // b.
        full, rest = divmod(size, block_tokens)
        return size + block_tokens * (full * (full - 1) // 2) + rest * full

    return upto(high) - upto(low - 1)


class EventCounts:
    """How many events have a size up to any given one, in closed form.

    Parameters
    ----------
    ranges : iterable of (low, high)
        One event of each size from ``low`` to ``high``.
    """

    def __init__(self, ranges: Iterable[tuple[int, int]]) -> None:
        kept = list(ranges)
        self._lows = sorted(low for low, _ in kept)
        self._highs = sorted(high for _, high in kept)
        self._low_sums = list(accumulate(self._lows, initial=0))
        self._high_sums = list(accumulate(self._highs, initial=0))

    def upto(self, size: int) -> int:
        """Number of events of at most ``size`` tokens."""
        # Each range that has begun has given size - low + 1, less size - high since it ended.
        begun, ended = bisect_right(self._lows, size), bisect_left(self._highs, size)
        given = begun * (size + 1) - self._low_sums[begun]
        return given - (ended * size - self._high_sums[ended])

    def between(self, least_pages: int, most_pages: int, block_tokens: int) -> int:
        """Number of events that take at least and at most so many pages."""
        if most_pages < least_pages:
            return 0
        return self.upto(most_pages * block_tokens) - self.upto((least_pages - 1) * block_tokens)
