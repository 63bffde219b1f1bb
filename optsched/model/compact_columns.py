"""The columns of the compact formulation: which there are, their bounds and their costs.

Indices: i request, j batch, k tokens generated. Batches and the boundaries before them count from
0 here, so boundary j is before batch j and boundary J is the end. Entries of an index array that
have no column are -1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optsched.instance import Instance
from optsched.model.compact_batches import least_batches
from optsched.model.milp import FloatArray, IntArray

_MOST_CHORDS = 8  # of more values, a square takes fewer rows with binary digits


@dataclass(frozen=True, kw_only=True, eq=False)
class Columns:
    """Index arrays by name and, per column, bounds, cost (seconds), integrality and name."""

    index: dict[str, IntArray]
    lower: FloatArray
    upper: FloatArray
    cost: FloatArray
    integer: NDArray[np.bool_]
    names: tuple[str, ...]


class _Builder:
    def __init__(self) -> None:
        self.index: dict[str, IntArray] = {}
        self.parts: list[tuple[FloatArray, FloatArray, FloatArray, NDArray[np.bool_]]] = []
        self.names: list[str] = []

    def add(
        self, name: str, shape: tuple[int, ...], *, lower: ArrayLike = 0.0, upper: ArrayLike = 1.0,
        cost: float = 0.0, integer: bool = True, where: NDArray[np.bool_] | None = None,
    ) -> None:  # fmt: skip
        """Columns ``name`` of an index array of ``shape``, where ``where`` says so."""
        mask = np.ones(shape, bool) if where is None else np.broadcast_to(where, shape)
        count = int(mask.sum())
        index = np.full(shape, -1, dtype=np.int64)
        index[mask] = len(self.names) + np.arange(count)
        self.index[name] = index
        low, high = (np.broadcast_to(np.asarray(x, float), shape)[mask] for x in (lower, upper))
        self.parts.append((low, high, np.full(count, cost), np.full(count, integer)))
        self.names += [f"{name}_{'_'.join(map(str, at))}" for at in np.argwhere(mask).tolist()]

    def columns(self) -> Columns:
        lower, upper, cost, integer = (np.concatenate(a) for a in zip(*self.parts, strict=True))
        return Columns(
            index=self.index, lower=lower, upper=upper, cost=cost, integer=integer,
            names=tuple(self.names),
        )  # fmt: skip


def build_columns(
    instance: Instance, batches: int, policies: Sequence[str], strengthened: bool
) -> Columns:
    """All columns, in a fixed order; those that nothing needs are left out.

    Notes
    -----
    Per request and boundary: ``known`` s, ``cached`` m, ``done`` (finished), ``partial`` (m > 0
    and no token generated since: an unfinished fill). Per request and batch: ``tokens`` c,
    ``generates``, ``evicts``, ``decodes``, ``prefills``, ``pages`` (taken after the batch),
    ``decode_kv`` (m of a decode step), ``prefill_kv`` (m of a prefill step), ``fill`` (tokens of a
    fill that ends in the batch) and its square, ``chunk_square`` (squared tokens of a prefill
    step). Per batch: ``used``, ``decode_batch``, ``prefill_batch``, ``time``.

    Strengthening, per request and k: ``absent`` and ``resident`` (at boundary j with k tokens
    generated, and not or fully cached), and per batch ``fills`` (prefill step that generates token
    k + 1), ``refill_decodes`` (the same by a last chunk of one token), ``stage_decodes`` (from
    ``resident``), ``stage_evicts`` (from ``resident``).
    """
    cost, limits = instance.cost, instance.limits
    chunks = "no-chunk" not in policies
    prompt, output = instance.prompt_tokens[:, None], instance.output_tokens[:, None]
    final = instance.final_tokens[:, None]
    n, J = len(instance), batches
    boundary, batch = np.arange(J + 1), np.arange(J)
    # The first fill takes ceil(I / P') batches, every further token one; O tokens by the end.
    fill = -(-prompt // limits.fill_tokens)
    most_known = prompt + np.clip(boundary - fill + 1, 0, output)
    least_known = prompt + np.clip(output - (J - boundary), 0, output)
    chunk = np.minimum(final, limits.fill_tokens)

    table = _Builder()
    linear = len(cost.pieces) == 1
    alpha, beta = cost.pieces[0] if linear else (0.0, 0.0)
    first = least_batches(instance) if strengthened else 1
    table.add("used", (J,), cost=alpha, lower=batch < first)
    if not linear:
        longest = float(cost.token_time(min(limits.batch_tokens, int(final.sum()))))
        table.add("time", (J,), cost=1.0, upper=longest, integer=False)
    if cost.d0 or "no-hybrid" in policies:
        table.add("decode_batch", (J,), cost=cost.d0)
    if cost.p0 or "no-hybrid" in policies:
        table.add("prefill_batch", (J,), cost=cost.p0)
    table.add("known", (n, J + 1), lower=least_known, upper=most_known)
    # All of a resident request's tokens but the last are cached; nothing is, first and last.
    most_cached = np.minimum(final, most_known) - 1
    most_cached = most_cached * ((boundary > 0) & (boundary < J))
    table.add("cached", (n, J + 1), upper=most_cached)
    table.add("done", (n, J + 1), lower=boundary == J, upper=most_known == prompt + output)
    table.add("tokens", (n, J), cost=beta, upper=chunk)
    table.add("generates", (n, J))
    table.add("decodes", (n, J), cost=cost.d_req, upper=(output > 1) & (batch > 0))
    table.add("prefills", (n, J), cost=cost.p_req)
    table.add("evicts", (n, J), upper=batch > 0)
    if chunks:
        table.add("partial", (n, J + 1), upper=most_cached > 0)
    if limits.block_tokens > 1:
        table.add("pages", (n, J), upper=-(-final // limits.block_tokens))
    if cost.d_kv:
        table.add("decode_kv", (n, J), cost=cost.d_kv, upper=final - 1, integer=False)
    if cost.p_kv and chunks:
        table.add("prefill_kv", (n, J), cost=cost.p_kv, upper=final - 1, integer=False)
    if cost.mixed:
        table.add("fill", (n, J), upper=final, integer=False)
        _add_square(
            table, "fill", (n, J), first_chord(prompt, final, chunks), final, cost.mixed / 2
        )
    if cost.p_sq != cost.mixed / 2:
        first_chunk = first_chord(prompt, chunk, chunks)
        _add_square(table, "chunk", (n, J), first_chunk, chunk, cost.p_sq - cost.mixed / 2)
    if strengthened:
        _add_stages(table, instance, batches, fill, chunks)
    return table.columns()


def first_chord(prompt: IntArray, most: IntArray, chunks: bool) -> IntArray:
    """The least n of the chords, from n to n + 1, that the squares of fills or chunks need: these
    are 0 or else >= 1, or >= I if every fill is in one chunk."""
    return np.minimum(1 if chunks else prompt, most - 1)


def _add_square(
    table: _Builder, name: str, shape: tuple[int, int], first: IntArray, most: IntArray, cost: float
) -> None:
    """The square of a count of at most ``most``, shape ``(requests, 1)``, and its digits.

    A convex cost with few chords, from ``first`` on, needs only these. Otherwise the count is
    x = sum 2^b digit_b, and x^2 = sum 2^b cut_b with cut_b = digit_b x.
    """
    table.add(f"{name}_square", shape, cost=cost, upper=most.astype(float) ** 2, integer=False)
    if cost < 0 or (most - first).max() > _MOST_CHORDS:
        digits = (*shape, int(most.max()).bit_length())
        table.add(f"{name}_digit", digits)
        table.add(f"{name}_cut", digits, upper=most[:, :, None], integer=False)


def _add_stages(
    table: _Builder, instance: Instance, batches: int, fill: IntArray, chunks: bool
) -> None:
    """Columns of the strengthening, each with the window in which a schedule can use it.

    Before boundary j at most j - (fill batches - 1) tokens are generated, and a token that is not
    generated by then takes a batch of the J - j that remain. A request at k >= 1 that is absent
    was evicted in a batch after the one that generated its token k.
    """
    output = instance.output_tokens[:, None, None]
    k = np.arange(int(output.max()))[None, :, None]
    boundary = np.arange(batches + 1)[None, None, :]
    exists = k < output
    fill = fill[:, :, None]  # batches of the first fill
    generated = np.where(k > 0, fill + k - 1, 0)  # batches needed to have k tokens
    late = batches - boundary >= output - k
    resident = exists & (k > 0) & (boundary >= generated) & late
    absent = exists & (boundary >= generated + (k > 0)) & (boundary < batches) & late
    # A fill of S tokens takes ceil(S / P') batches at least, of which the first is at j >= start.
    start = generated + (k > 0)
    size = instance.prompt_tokens[:, None, None] + k
    last_chunk = start + -(-size // instance.limits.fill_tokens) - 1
    batch = boundary[:, :, :-1]
    on_time = (batches - batch >= output - k) & exists
    fills = on_time & (batch >= last_chunk)
    table.add("absent", absent.shape, lower=(k == 0) & (boundary == 0), where=absent)
    table.add("resident", resident.shape, where=resident)
    table.add("fills", fills.shape, where=fills)
    if chunks:
        table.add("refill_decodes", fills.shape, where=on_time & (k > 0) & (batch > start))
    decodes = on_time & (k > 0) & (batch >= generated)
    table.add("stage_decodes", fills.shape, where=decodes)
    # The evicted request still has to be refilled, from the next batch on.
    evicts = exists & (k > 0) & (batch >= generated) & (batches - batch - 1 >= output - k)
    table.add("stage_evicts", fills.shape, where=evicts)
