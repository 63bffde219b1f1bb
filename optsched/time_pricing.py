"""Prices of machine time and memory: the numbers that prove a bound on mean latency (B10).

Any prices >= 0 prove some bound; these records hold what is stored exactly as it is evaluated.
``optsched/bounds/verify/clock/time_prices.py`` says what is proven, and why.
"""

from __future__ import annotations

import msgspec

from optsched.errors import require, require_count

_MOST_CELLS = 2_000_000  # keeps a check of crafted prices short
_MOST_KNOTS = 1_000_000
_MOST_PRICE = 2**40
UNITS_PER_S = 2**24  # of times
MACHINE_PRICE_BITS, MEMORY_PRICE_BITS = 16, 34
_MOST_BUCKETS = 2**18
MOST_MOVES = 3 * 10**8
_MOST_UNITS = 2**42  # of 2^-24 s: three days


class Pace(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a step is charged for in batches that take at least ``from_s``, up to the next pace.

    Parameters
    ----------
    from_s : float
        Least duration of the batch, seconds.
    pieces : tuple of float
        m_k, one per piece of the batch-time law: charge per second of work under that piece.
    memory_s : float
        n, seconds per KV token held.
    """

    from_s: float
    pieces: tuple[float, ...]
    memory_s: float

    def __post_init__(self) -> None:
        for name, value in (
            ("from_s", self.from_s), ("memory_s", self.memory_s),
            *(("pieces", m) for m in self.pieces),
        ):  # fmt: skip
            require(0 <= value <= 1e9, f"pace.{name}", value, "a number from 0 to 1e9")


class TimePrices(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="time-prices"
):
    """Prices per cell of time, and the classes under which requests are followed through it.

    Parameters
    ----------
    cell_s : float
        Length of a cell of time, from the earliest arrival on.
    knots, prices : tuples of int
        Cells, ascending from 0, and the price of a second there in 2 ** -``price_bits``; linear
        in between, rounded down, and nothing after the last knot.
    paces : tuple of Pace
        Ascending ``from_s``; what a step is charged by the duration of its batch.
    finals : tuple of int
        I + O - 1 of the requests that are followed; the others lie between two of them.
    outputs : tuple of int
        O of the requests that are followed; the others are rounded down.
    blocks : tuple of int
        A request is followed in blocks of decodes, which end where so many are left; ascending
        from 0.
    """

    cell_s: float
    knots: tuple[int, ...]
    prices: tuple[int, ...]
    price_bits: int
    paces: tuple[Pace, ...]
    finals: tuple[int, ...]
    outputs: tuple[int, ...]
    blocks: tuple[int, ...]

    def __post_init__(self) -> None:
        require(0 < self.cell_s <= 1e9, "cell_s", self.cell_s, "a number above 0, at most 1e9")
        _require_ascending("knots", self.knots)
        require(self.knots[0] == 0, "knots[0]", self.knots[0], "0")
        require(self.knots[-1] <= _MOST_CELLS, "knots", self.knots[-1], f"<= {_MOST_CELLS}")
        require(
            len(self.prices) == len(self.knots), "prices", len(self.prices),
            f"{len(self.knots)}, one for each knot",
        )  # fmt: skip
        require(min(self.prices) >= 0, "prices", min(self.prices), "whole numbers >= 0")
        require(max(self.prices) <= _MOST_PRICE, "prices", max(self.prices), f"<= {_MOST_PRICE}")
        require_count("price_bits", self.price_bits, 0, 60)
        require_paces(self.paces)
        for name in ("finals", "outputs", "blocks"):
            _require_ascending(name, getattr(self, name))
        require(self.blocks[0] == 0, "blocks[0]", self.blocks[0], "0")
        cells = len(self.finals) * (len(self.outputs) + len(self.blocks)) * self.knots[-1]
        require(cells <= 2 * 10**9, "finals x (outputs + blocks) x cells", cells, "<= 2 * 10^9")


class CallPrices(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="call-prices"
):
    """Prices of machine time and of KV memory per bucket of time, and how requests that may make
    calls are followed through them. Times are whole numbers of 2^-24 s from the earliest arrival.

    Parameters
    ----------
    bucket_bits : int
        A bucket is 2 ** ``bucket_bits`` long.
    machine : tuple of int
        Per bucket the price of a second of the machine, in 2^-16; none after the last.
    memory : tuple of int
        Per bucket the price of a KV token held for a second, in 2^-34.
    paces : tuple of Pace
        Ascending ``from_s``; what a step is charged by the duration of its batch.
    block : int
        Tokens that are followed together; a first token or appended response of at most
        ``apart`` tokens is joined to the block after it.
    apart : int
    milestones : tuple of int
        When each block of each request is expected to end, request after request.
    edges : tuple of int
        Ends are told apart by how much later than expected they are: between which two of these.
    moves : tuple of int
        From block to block the cell between edges changes by a number between two of these.
    """

    bucket_bits: int
    machine: tuple[int, ...]
    memory: tuple[int, ...]
    paces: tuple[Pace, ...]
    block: int
    apart: int
    milestones: tuple[int, ...]
    edges: tuple[int, ...]
    moves: tuple[int, ...]

    def __post_init__(self) -> None:
        require_count("bucket_bits", self.bucket_bits, 4, 40)
        require(
            1 <= len(self.machine) == len(self.memory) <= _MOST_BUCKETS, "memory",
            len(self.memory), f"{len(self.machine)} prices, at most {_MOST_BUCKETS}",
        )  # fmt: skip
        for name in ("machine", "memory"):
            low, high = min(getattr(self, name)), max(getattr(self, name))
            require(0 <= low <= high <= _MOST_PRICE, name, (low, high), f"0 to {_MOST_PRICE}")
        require_paces(self.paces)
        require_count("block", self.block, 1, _MOST_KNOTS)
        require_count("apart", self.apart, 0, _MOST_KNOTS)
        for name, least, most in (("edges", 1, 4000), ("moves", 1, 500)):
            values = getattr(self, name)
            require(least <= len(values) <= most, name, len(values), f"{least} to {most} numbers")
            require(list(values) == sorted(set(values)), name, len(values), "ascending numbers")
            require(max(map(abs, values)) <= _MOST_UNITS, name, values[-1], f"<= {_MOST_UNITS}")
        low, high = min(self.milestones), max(self.milestones)
        require(0 <= low <= high <= _MOST_UNITS, "milestones", (low, high), f"0 to {_MOST_UNITS}")
        cells = len(self.milestones) * (len(self.edges) + 1) * (len(self.moves) + 1)
        require(cells <= MOST_MOVES, "milestones x edges x moves", cells, f"<= {MOST_MOVES}")

    @property
    def memory_prices(self) -> MemoryPrices:
        """What the memory is worth, in seconds."""
        return MemoryPrices(
            bucket_s=2.0**self.bucket_bits / UNITS_PER_S,
            prices=tuple(price / 2**MEMORY_PRICE_BITS for price in self.memory),
        )


class MemoryPrices(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Seconds of mean latency x requests that a KV token is worth per second that it is held, per
    bucket of ``bucket_s`` seconds from the earliest arrival on; nothing after the last."""

    bucket_s: float
    prices: tuple[float, ...]


def require_paces(paces: tuple[Pace, ...]) -> None:
    """Some paces, of ascending duration."""
    require(1 <= len(paces) <= 200, "paces", len(paces), "1 to 200")
    starts = [pace.from_s for pace in paces]
    require(starts == sorted(set(starts)), "paces", starts, "ascending from_s")


def _require_ascending(name: str, values: tuple[int, ...]) -> None:
    require(1 <= len(values) <= _MOST_KNOTS, name, len(values), f"1 to {_MOST_KNOTS} numbers")
    require(values[0] >= 0, name, values[0], "whole numbers >= 0")
    require(list(values) == sorted(set(values)), name, len(values), "ascending whole numbers")
