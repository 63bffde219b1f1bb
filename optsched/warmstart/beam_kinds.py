"""Kinds of requests by what they are and how far they are, with what a beam search needs of each.

A kind is (I, O, g): g tokens generated so far, waiting or resident. Making the next token takes it
to the next kind, after which it holds I + g tokens. Prices follow exact formulations, section 7:
an event that holds S pages is worth lambda a0 S / M, its share of a batch's fixed time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optsched.instance import Instance, IntArray

FloatArray = NDArray[np.float64]
_SEED = 20240611


@dataclass(frozen=True, kw_only=True, eq=False)
class Kinds:
    """Columns of shape ``(kinds + 1,)``, ascending in size; the last entry is *no request*, all 0.

    Parameters
    ----------
    held : int array
        Pages that a resident of this kind holds.
    after : int array
        Pages that it holds after its next token.
    next : int array
        The kind after its next token; the last entry if that finishes it.
    fill_tokens : int array
        Tokens of the fill that makes its next token.
    fill_s, decode_s : float array
        Attention and per-request part of that fill, and of a decode instead.
    resident_s, waiting_s : float array
        Work that is left of a resident and of a waiting request, with a line through the weights'
        time, and the price of its events.
    resident_hash, waiting_hash : uint64 array
        Random numbers; a state's hash is the sum over its requests.
    members : tuple of tuple of int
        Requests that start as this kind.
    capacity : int
        Pages that a batch may hold.
    line : (float, float)
        Fixed time of a batch and time per token, in seconds.
    """

    held: IntArray
    after: IntArray
    next: IntArray
    fill_tokens: IntArray
    fill_s: FloatArray
    decode_s: FloatArray
    resident_s: FloatArray
    waiting_s: FloatArray
    resident_hash: NDArray[np.uint64]
    waiting_hash: NDArray[np.uint64]
    members: tuple[tuple[int, ...], ...]
    capacity: int
    line: tuple[float, float]

    @property
    def none(self) -> int:
        """The number that stands for no request."""
        return self.held.size - 1


def capacity_tokens(instance: Instance) -> int:
    """KV that batches of whole fills may hold so that any of them keeps M, C and P."""
    return min(instance.limits.kv_tokens, instance.limits.fill_tokens)


def kinds_of(instance: Instance, weight: float) -> Kinds:
    """All kinds of ``instance`` with prices of ``weight`` (lambda)."""
    cost, block = instance.cost, instance.limits.block_tokens
    capacity = capacity_tokens(instance) // block
    members: dict[tuple[int, int], list[int]] = {}
    for i, request in enumerate(instance.requests):
        members.setdefault((request.prompt_tokens, request.output_tokens), []).append(i)
    rows = [(p + g, p, o, g) for p, o in members for g in range(o)]
    rows.sort()
    number = {row[1:]: k for k, row in enumerate(rows)}
    none = len(rows)
    size = np.array([row[0] for row in rows], dtype=np.int64)
    made = np.array([row[3] for row in rows], dtype=np.int64)
    after = -(-size // block)
    held = np.where(made > 0, -(-(size - 1) // block), 0)
    following = np.array([number.get((p, o, g + 1), none) for _, p, o, g in rows], dtype=np.int64)
    fixed_s, token_s = _line(instance)
    price = weight * fixed_s / capacity * after
    fill_s, decode_s = cost.prefill_time(size, 0), cost.decode_time(size - 1)
    resident = np.zeros(none + 1)
    for k in range(none - 1, -1, -1):  # the next kind is larger, so it comes later
        resident[k] = token_s + decode_s[k] + price[k] + resident[following[k]]
    waiting = token_s * size + fill_s + price + resident[following]
    random = np.random.default_rng(_SEED).integers(
        0, 2**64, size=(2, none + 1), dtype=np.uint64, endpoint=False
    )
    random[:, none] = 0
    return Kinds(
        held=_with_none(held), after=_with_none(after), next=np.append(following, none),
        fill_tokens=_with_none(size), fill_s=np.append(fill_s, 0.0),
        decode_s=np.append(decode_s, 0.0), resident_s=resident, waiting_s=np.append(waiting, 0.0),
        resident_hash=random[0], waiting_hash=random[1],
        members=tuple(tuple(members[p, o]) if g == 0 else () for _, p, o, g in rows),
        capacity=capacity, line=(fixed_s, token_s),
    )  # fmt: skip


def _with_none(column: IntArray) -> IntArray:
    return np.append(column, 0)


def _line(instance: Instance) -> tuple[float, float]:
    """The piece of the batch-time law that holds at the usual number of tokens of a batch."""
    made, area = 0, 0
    for request in instance.requests:
        prompt, output = request.prompt_tokens, request.output_tokens
        made += prompt + output - 1
        area += output * prompt + output * (output - 1) // 2
    usual = max(1.0, made * instance.limits.kv_tokens / area)
    alpha, beta = max(instance.cost.pieces, key=lambda piece: piece[0] + piece[1] * usual)
    return (alpha, beta) if alpha > 0 else (alpha + beta * usual, 0.0)
