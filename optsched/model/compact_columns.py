"""The columns of the compact formulation: which there are, their bounds and their costs.

Indices: i request, j batch, k tokens generated. Batches and the boundaries before them count from
0 here, so boundary j is before batch j and boundary J is the end. Entries of an index array that
have no column are -1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from optsched.instance import Instance
from optsched.model.compact_batches import least_batches
from optsched.model.compact_calls import add_calls
from optsched.model.compact_clock import Clock, Goal
from optsched.model.compact_clock_columns import add_clock
from optsched.model.compact_swaps import add_swaps, can_swap
from optsched.model.compact_table import Columns, Table
from optsched.model.contexts import Contexts, contexts
from optsched.model.milp import IntArray

_MOST_CHORDS = 8  # of more values, a square takes fewer rows with binary digits


def build_columns(
    instance: Instance,
    batches: int,
    policies: Sequence[str],
    strengthened: bool,
    goal: Goal,
    clock: Clock | None,
) -> Columns:
    """All columns, in a fixed order; those that nothing needs are left out.

    Notes
    -----
    Per request and boundary: ``known`` s, ``cached`` m (on the GPU or, if swapping is possible, on
    the host), ``done`` (finished), ``partial`` (m > 0 and processed since the last token: an
    unfinished fill). Per request and batch: ``tokens`` c,
    ``generates``, ``evicts``, ``decodes``, ``prefills``, ``pages`` (taken after the batch),
    ``decode_kv`` (m of a decode step), ``prefill_kv`` (m of a prefill step), ``fill`` (tokens of a
    fill that ends in the batch) and its square, ``chunk_square`` (squared tokens of a prefill
    step), ``cross`` (m c of a prefill step). Per batch: ``used``, ``decode_batch``,
    ``prefill_batch``, ``time``. Without a clock the objective is the sum of all durations; with
    one there are the columns of :mod:`optsched.model.compact_clock_columns` too; those of calls
    and of swapping are in :mod:`optsched.model.compact_calls` and ``compact_swaps``.

    Strengthening, per request and k: ``absent`` and ``resident`` (at boundary j with k tokens
    generated, and without or with the KV that token k left), and per batch ``fills`` (prefill step
    that generates token k + 1), ``refill_decodes`` (the same by a last chunk of one token), both
    from ``absent``; from ``resident``: ``stage_decodes``, ``appends`` (prefill step that ends the
    response of a call and generates token k + 1) and ``stage_evicts``.
    """
    cost, limits = instance.cost, instance.limits
    chunks = "no-chunk" not in policies
    splits = chunks or instance.has_calls  # a prefill step may start from cached tokens
    sizes = contexts(instance)
    prompt, output = instance.prompt_tokens[:, None], instance.output_tokens[:, None]
    final = instance.final_tokens[:, None]
    n, J = len(instance), batches
    boundary, batch = np.arange(J + 1), np.arange(J)
    # The first fill takes ceil(I / P') batches, every further token one; O tokens by the end.
    fill = -(-prompt // limits.fill_tokens)
    each = np.arange(n)[:, None]
    most_known = sizes.known[each, np.clip(boundary - fill + 1, 0, output)]
    least_known = sizes.known[each, np.clip(output - (J - boundary), 0, output)]
    chunk = np.minimum(final, limits.fill_tokens)

    table = Table(durations_cost=clock is None)
    linear = len(cost.pieces) == 1
    alpha, beta = cost.pieces[0] if linear else (0.0, 0.0)
    first = least_batches(instance) if strengthened else 1
    table.add("used", (J,), duration=alpha, lower=batch < first)
    if not linear:
        # With a clock nothing has its price in seconds, and a solver cannot choose the unit.
        unit = 1.0 if clock is None else clock.unit_s
        longest = float(cost.token_time(min(limits.batch_tokens, int(final.sum())))) / unit
        table.add("time", (J,), duration=unit, upper=longest, integer=False)
    if cost.d0 or "no-hybrid" in policies:
        table.add("decode_batch", (J,), duration=cost.d0)
    if cost.p0 or "no-hybrid" in policies:
        table.add("prefill_batch", (J,), duration=cost.p0)
    table.add("known", (n, J + 1), lower=least_known, upper=most_known)
    # All of a resident request's tokens but the last are cached; nothing is, first and last.
    most_cached = np.minimum(final, most_known) - 1
    most_cached = most_cached * ((boundary > 0) & (boundary < J))
    table.add("cached", (n, J + 1), upper=most_cached)
    table.add("done", (n, J + 1), lower=boundary == J, upper=most_known > final)
    table.add("tokens", (n, J), duration=beta, upper=chunk)
    table.add("generates", (n, J))
    table.add("decodes", (n, J), duration=cost.d_req, upper=(output > 1) & (batch > 0))
    table.add("prefills", (n, J), duration=cost.p_req)
    table.add("evicts", (n, J), upper=batch > 0)
    if chunks:
        table.add("partial", (n, J + 1), upper=most_cached > 0)
    if limits.block_tokens > 1:
        table.add("pages", (n, J), upper=-(-final // limits.block_tokens))
    if cost.d_kv:
        table.add("decode_kv", (n, J), duration=cost.d_kv, upper=final - 1, integer=False)
    if cost.p_kv and splits:
        table.add("prefill_kv", (n, J), duration=cost.p_kv, upper=final - 1, integer=False)
    _add_attention(table, instance, (n, J), splits, clock)
    if strengthened:
        _add_stages(table, instance, batches, fill, chunks, sizes)
    if clock is not None:
        add_clock(table, instance, batches, policies, goal, clock)
    swapping = can_swap(instance, policies)
    if swapping:
        add_swaps(table, instance, most_cached, batches, strengthened=strengthened)
    if clock is not None:
        add_calls(table, instance, batches, clock, swapping=swapping)
    return table.columns()


def first_chord(prompt: IntArray, most: IntArray, splits: bool) -> IntArray:
    """The least n of the chords, from n to n + 1, that the squares of fills or chunks need: these
    are 0 or else >= 1, or >= I if every prefill step is a whole fill."""
    return np.minimum(1 if splits else prompt, most - 1)


def _add_attention(
    table: Table, instance: Instance, shape: tuple[int, int], splits: bool, clock: Clock | None
) -> None:
    """Columns of the attention of prefill steps.

    Over the chunks of a fill it telescopes, so that a sum of durations needs only the square of
    the whole fill and the batch in which it ends. Where every batch must have its own time, each
    chunk has its price c^2 and m c.
    """
    cost = instance.cost
    prompt, final = instance.prompt_tokens[:, None], instance.final_tokens[:, None]
    chunk = np.minimum(final, instance.limits.fill_tokens)
    digits = clock is not None and clock.exact
    first_chunk = first_chord(prompt, chunk, splits)
    if clock is not None and splits:
        if cost.p_sq:
            _add_square(table, "chunk", shape, first_chunk, chunk, cost.p_sq, digits)
        if cost.mixed:
            bits = (*shape, int(chunk.max()).bit_length())
            if "chunk_digit" not in table.index:
                table.add("chunk_digit", bits)
            table.add("cross_cut", bits, upper=final[:, :, None] - 1, integer=False)
            most = (final // 2) * (final - final // 2)
            table.add("cross", shape, duration=cost.mixed, upper=most, integer=False)
        return
    if cost.mixed:
        table.add("fill", shape, upper=final, integer=False)
        first = first_chord(prompt, final, splits)
        _add_square(table, "fill", shape, first, final, cost.mixed / 2, digits)
    if cost.p_sq != cost.mixed / 2:
        rest = cost.p_sq - cost.mixed / 2
        _add_square(table, "chunk", shape, first_chunk, chunk, rest, digits)


def _add_square(
    table: Table, name: str, shape: tuple[int, int], first: IntArray, most: IntArray,
    duration: float, digits: bool,
) -> None:  # fmt: skip
    """The square of a count of at most ``most``, shape ``(requests, 1)``, and its digits.

    A convex price with few chords, from ``first`` on, needs only these, unless ``digits`` are
    asked for. Otherwise the count is x = sum 2^b digit_b, and x^2 = sum 2^b cut_b with
    cut_b = digit_b x.
    """
    square = most.astype(float) ** 2
    table.add(f"{name}_square", shape, duration=duration, upper=square, integer=False)
    if digits or duration < 0 or (most - first).max() > _MOST_CHORDS:
        bits = (*shape, int(most.max()).bit_length())
        table.add(f"{name}_digit", bits)
        table.add(f"{name}_cut", bits, upper=most[:, :, None], integer=False)


def _add_stages(
    table: Table, instance: Instance, batches: int, fill: IntArray, chunks: bool, sizes: Contexts
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
    size = sizes.known[:, :-1, None]
    last_chunk = start + -(-size // instance.limits.fill_tokens) - 1
    batch = boundary[:, :, :-1]
    on_time = (batches - batch >= output - k) & exists
    fills = on_time & (batch >= last_chunk)
    table.add("absent", absent.shape, lower=(k == 0) & (boundary == 0), where=absent)
    table.add("resident", resident.shape, where=resident)
    table.add("fills", fills.shape, where=fills)
    if chunks:
        table.add("refill_decodes", fills.shape, where=on_time & (k > 0) & (batch > start))
    from_resident = on_time & (k > 0) & (batch >= generated)
    responds = sizes.response[:, :-1, None] > 0
    # A response leaves a decode only if it was processed in earlier batches.
    decodes = from_resident & (~responds | (chunks & (batch > generated)))
    table.add("stage_decodes", fills.shape, where=decodes)
    if responds.any():
        table.add("appends", fills.shape, where=from_resident & responds)
    # The evicted request still has to be refilled, from the next batch on.
    evicts = exists & (k > 0) & (batch >= generated) & (batches - batch - 1 >= output - k)
    table.add("stage_evicts", fills.shape, where=evicts)
