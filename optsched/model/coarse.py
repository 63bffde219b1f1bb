"""The coarse program: request types flow through buckets of batches, as a linear program.

Time is cut into buckets of ``stride`` batches and a type's output into groups of ``stride`` tokens
(the last one may be shorter). A request that runs without pause makes one group per bucket; it may
also stay where it is and hold its KV, or be evicted and refilled in a later bucket. Numbers of
requests are fractional, so the program is no bound by itself; its duals price the batches for the
Lagrangian bound, and its starts guide schedulers.

Column families per type, over groups g and buckets u (u >= g + buckets of the first fill):

    start[u], decode[g, u], refill[g, u]   requests that make group g in bucket u
    stay[g, u]                             that keep their KV after u, and make no group in u + 1
    evict[g, u], wait[g, u]                that lose it after u; that are without it after u

and per bucket: batches used, prefill tokens, prompt tokens processed ahead, and time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optsched.instance import Limits
from optsched.model.milp import Block, Milp, block

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class CoarseType:
    """``count`` requests of about ``prompt_tokens`` and ``output_tokens`` each."""

    prompt_tokens: int
    output_tokens: int
    count: int


@dataclass(frozen=True, kw_only=True, eq=False)
class BatchPrices:
    """Prices of one batch in each bucket, all of shape ``(buckets,)`` and >= 0.

    ``memory`` per KV token held, ``tokens`` per token processed (on top of the smallest slope of
    the batch-time law), ``prefill`` per prefill token, ``requests`` per request processed.
    """

    memory: FloatArray
    tokens: FloatArray
    prefill: FloatArray
    requests: FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class CoarseProgram:
    """The program, and where its rows and columns are.

    Parameters
    ----------
    milp : Milp
        Continuous; minimises the time of batches by the law given, plus the excess of refills over
        decodes, in seconds.
    stride : int
        Batches per bucket and tokens per group.
    buckets : int
        Number of buckets.
    starts : tuple of int arrays
        Per type the columns ``start``, from bucket ``first_bucket`` of the type on.
    first_buckets : tuple of int
        Per type the first bucket in which a first token can be made.
    """

    milp: Milp
    stride: int
    buckets: int
    starts: tuple[IntArray, ...]
    first_buckets: tuple[int, ...]

    def prices(self, row_duals: FloatArray) -> BatchPrices:
        """The prices that the duals of the rows per bucket are; negative noise becomes 0."""
        at, found = 0, {}
        for rows in self.milp.blocks:
            if rows.name in _PRICED:
                dual = row_duals[at : at + rows.rows]
                found[rows.name] = np.maximum(0.0, dual if rows.name == "tokens" else -dual)
            at += rows.rows
        nothing = np.zeros(self.buckets)
        return BatchPrices(
            memory=found["kv_capacity"], tokens=found["tokens"],
            prefill=found.get("prefill_tokens", nothing),
            requests=found.get("batch_requests", nothing),
        )  # fmt: skip

    def start_rates(self, point: FloatArray) -> FloatArray:
        """Requests of each type that make their first group in each bucket; (types, buckets)."""
        rates = np.zeros((len(self.starts), self.buckets))
        for row, (columns, first) in enumerate(zip(self.starts, self.first_buckets, strict=True)):
            rates[row, first : first + columns.size] = point[columns]
        return rates


_PRICED = ("kv_capacity", "tokens", "prefill_tokens", "batch_requests")


class _Rows:
    """Entries of one block under construction."""

    def __init__(self) -> None:
        self._parts: list[tuple[IntArray, IntArray, FloatArray]] = []

    def add(
        self, row: IntArray, column: IntArray, value: float | NDArray[np.floating[Any]]
    ) -> None:
        """Entries row by row; the three are broadcast against each other."""
        rows, columns, values = np.broadcast_arrays(row, column, np.asarray(value, dtype=float))
        self._parts.append((rows.ravel(), columns.ravel(), values.ravel()))

    def joined(self) -> tuple[IntArray, IntArray, FloatArray]:
        """All rows, columns and values added so far."""
        rows, columns, values = zip(*self._parts, strict=True)
        return np.concatenate(rows), np.concatenate(columns), np.concatenate(values)


class _Columns:
    """Hands out column numbers."""

    def __init__(self) -> None:
        self.count = 0
        self.names: list[str] = []

    def take(self, name: str, *shape: int) -> IntArray:
        """Numbers of a new family, of this shape."""
        size = int(np.prod(shape))
        numbers = np.arange(self.count, self.count + size, dtype=np.int64).reshape(shape)
        self.names += [f"{name}_{k}" for k in range(size)]
        self.count += size
        return numbers


def coarse_program(
    types: Sequence[CoarseType], limits: Limits, pieces: Sequence[tuple[float, float]],
    refill_s: FloatArray, *, stride: int, least_batches: int, most_batches: int,
) -> CoarseProgram:  # fmt: skip
    """Least time of ``least_batches`` to ``most_batches`` batches that serve all types.

    Parameters
    ----------
    types : sequence of CoarseType
        Each must fit into ``most_batches`` alone.
    limits : Limits
        Of every batch.
    pieces : sequence of (alpha, beta)
        Law of the batch time, seconds and seconds per token; the maximum must not be negative.
    refill_s : float array, shape ``(largest size + 1,)``
        Seconds that a refill to each size costs more than the decode it replaces.
    stride : int
        Batches per bucket.
    """
    buckets = -(-most_batches // stride)
    widths = np.minimum(stride, most_batches - stride * np.arange(buckets))
    sure = np.clip(least_batches - stride * np.arange(buckets), 0, widths)
    columns = _Columns()
    used = columns.take("batches", buckets)
    tokens = columns.take("tokens", buckets)
    prefill = columns.take("prefill", buckets)
    ahead = columns.take("ahead", buckets)
    clock = columns.take("time", buckets)
    flow, memory, token, fill, steps = _Rows(), _Rows(), _Rows(), _Rows(), _Rows()
    each = np.arange(buckets)
    memory.add(each, used, -float(limits.kv_tokens // limits.block_tokens * limits.block_tokens))
    token.add(each, tokens, 1.0)
    token.add(each, prefill, -1.0)
    fill.add(each, prefill, 1.0)
    fill.add(each, ahead, -1.0)
    fill.add(each[1:], ahead[:-1], 1.0)
    if limits.batch_requests is not None:
        steps.add(each, used, -float(limits.batch_requests))
    prices: list[tuple[IntArray, FloatArray]] = [(clock, np.ones(buckets))]
    rows, demand, starts, first_buckets = 0, [], [], []
    for number, kind in enumerate(types):
        first = (-(-kind.prompt_tokens // limits.fill_tokens) - 1) // stride
        groups = -(-kind.output_tokens // stride)
        span = buckets - groups - first + 1
        share = np.full(groups, 1.0)
        share[-1] = (kind.output_tokens - stride * (groups - 1)) / stride
        size = _mean_sizes(kind, stride, groups, limits.block_tokens)
        bucket = first + np.arange(groups)[:, None] + np.arange(span)[None, :]
        start = columns.take(f"start_{number}", span)
        decode = columns.take(f"decode_{number}", groups - 1, span)
        refill = columns.take(f"refill_{number}", groups - 1, span)
        stay = columns.take(f"stay_{number}", groups - 1, span - 1)
        evict = columns.take(f"evict_{number}", groups - 1, span)
        wait = columns.take(f"wait_{number}", groups - 1, span - 1)
        starts.append(start)
        first_buckets.append(first)
        arrivals: list[tuple[slice, IntArray]] = [(slice(0, 1), start[None, :])]
        arrivals += [(slice(1, groups), decode), (slice(1, groups), refill)]

        # Requests after making a group: they run on, stay, or are evicted; and after eviction.
        node = rows + np.arange((groups - 1) * span).reshape(groups - 1, span)
        gone = node + (groups - 1) * span
        rows += 2 * (groups - 1) * span + 1
        for group, column in arrivals:
            inner = node[group]
            flow.add(inner, column[: inner.shape[0]], 1.0)
        flow.add(node[:, 1:], stay, 1.0)
        flow.add(node[:, :-1], stay, -1.0)
        flow.add(node, decode, -1.0)
        flow.add(node, evict, -1.0)
        flow.add(gone, evict, 1.0)
        flow.add(gone, refill, -1.0)
        flow.add(gone[:, 1:], wait, 1.0)
        flow.add(gone[:, :-1], wait, -1.0)
        flow.add(np.array([rows - 1]), start, 1.0)
        demand += [0.0] * (2 * (groups - 1) * span) + [float(kind.count)]

        held = size[:, None] * stride * share[:, None]
        made = stride * share[:, None]
        for group, column in arrivals:
            memory.add(bucket[group], column, held[group])
            token.add(bucket[group], column, -made[group])
            if limits.batch_requests is not None:
                steps.add(bucket[group], column, made[group])
        memory.add(bucket[:-1, 1:], stay, held[:-1])
        # A first fill's last token makes the first token of the group: all I are prefill.
        token.add(bucket[:1], start[None, :], 1.0)
        fill.add(bucket[:1], start[None, :], -float(kind.prompt_tokens))
        again = kind.prompt_tokens + stride * np.arange(1, groups)[:, None]
        fill.add(bucket[1:], refill, -(again - 1.0))
        prices.append((refill, np.broadcast_to(refill_s[again], refill.shape)))

    blocks = [
        block("flow", *flow.joined(), np.array(demand), np.array(demand)),
        block("kv_capacity", *memory.joined(), np.full(buckets, -np.inf), np.zeros(buckets)),
        block("tokens", *token.joined(), np.zeros(buckets), np.full(buckets, np.inf)),
        block("fills", *fill.joined(), np.zeros(buckets), np.zeros(buckets)),
        _per_batch("batch_tokens", tokens, used, limits.batch_tokens),
    ]
    if limits.fill_tokens < limits.batch_tokens:
        blocks.append(_per_batch("prefill_tokens", prefill, used, limits.fill_tokens))
    if limits.batch_requests is not None:
        blocks.append(
            block("batch_requests", *steps.joined(), np.full(buckets, -np.inf), np.zeros(buckets))
        )
    blocks += [
        _piece(f"piece_{k}", alpha, beta, clock, tokens, used)
        for k, (alpha, beta) in enumerate(pieces)
    ]
    objective = np.zeros(columns.count)
    for column, price in prices:
        objective[column] = price
    lower, upper = np.zeros(columns.count), np.full(columns.count, np.inf)
    lower[used], upper[used] = sure, widths
    program = Milp(
        name="coarse", cost=objective, offset=0.0, lower=lower, upper=upper,
        integer=np.zeros(columns.count, dtype=np.bool_), column_names=tuple(columns.names),
        blocks=tuple(blocks),
    )  # fmt: skip
    return CoarseProgram(
        milp=program, stride=stride, buckets=buckets, starts=tuple(starts),
        first_buckets=tuple(first_buckets),
    )  # fmt: skip


def _mean_sizes(kind: CoarseType, stride: int, groups: int, block_tokens: int) -> FloatArray:
    """Mean KV in whole pages over the tokens of each group, shape ``(groups,)``."""
    sizes = kind.prompt_tokens + np.arange(groups * stride)
    pages = block_tokens * -(-sizes // block_tokens)
    whole = pages.reshape(groups, stride).mean(axis=1)
    whole[-1] = pages[stride * (groups - 1) : kind.output_tokens].mean()
    return np.asarray(whole, dtype=np.float64)


def _per_batch(name: str, amount: IntArray, used: IntArray, limit: int) -> Block:
    """amount <= limit * batches, per bucket."""
    each, rows = np.arange(used.size), _Rows()
    rows.add(each, amount, 1.0)
    rows.add(each, used, -float(limit))
    return block(name, *rows.joined(), np.full(used.size, -np.inf), np.zeros(used.size))


def _piece(
    name: str, alpha: float, beta: float, clock: IntArray, tokens: IntArray, used: IntArray
) -> Block:
    """time >= alpha * batches + beta * tokens, per bucket."""
    each, rows = np.arange(used.size), _Rows()
    rows.add(each, clock, 1.0)
    rows.add(each, used, -alpha)
    rows.add(each, tokens, -beta)
    return block(name, *rows.joined(), np.zeros(used.size), np.full(used.size, np.inf))
