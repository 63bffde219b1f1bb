"""The square of a whole number under a linear cost."""

from __future__ import annotations

import numpy as np

from optsched.constraints.compact.rows import rows
from optsched.model.compact import CompactVariables
from optsched.model.compact_columns import first_chord
from optsched.model.milp import Block, IntArray

Count = tuple[tuple[IntArray, float], ...]  # column numbers (requests, batches) and a coefficient


def square(v: CompactVariables, name: str, count: Count, most: IntArray) -> list[Block]:
    """Rows that hold column ``{name}_square`` to x^2 on the side that its price does not, or on
    both where times must be exact.

    Parameters
    ----------
    v : CompactVariables
    name : str
        ``fill`` or ``chunk``.
    count : terms
        What x is: a whole number from 0 to ``most``, of shape ``(requests, batches)``.
    most : int array, shape ``(requests, 1)``

    Notes
    -----
    From below, for a positive cost: the chord of x^2 from n to n + 1 lies above it only between
    the two, so x^2 >= (2n + 1) x - n (n + 1), with equality at both ends; a chord for every n
    that x can be is exact. Where these would be too many there are binary digits,
    x = sum 2^b digit_b, and x^2 = sum 2^b cut_b with cut_b = digit_b x: from below
    cut_b >= x - most (1 - digit_b), from above, for a negative cost, cut_b <= x and
    cut_b <= most digit_b.
    """
    exact = v.clock is not None and v.clock.exact
    convex = v.columns.durations[f"{name}_square"] > 0
    if f"{name}_cut" in v:
        digits = by_digits(v, name, count)
        below = _from_below(v, name, count, most) if convex or exact else []
        above = _from_above(v, name, count, most) if exact or not convex else []
        return [digits, *below, *above]
    splits = "partial" in v or v.instance.has_calls
    first = first_chord(v.instance.prompt_tokens[:, None], most, splits)
    return [
        _chord(v[f"{name}_square"], count, np.minimum(first + n, most - 1))
        for n in range(int((most - first).max()))
    ]


def by_digits(v: CompactVariables, name: str, count: Count) -> Block:
    """sum 2^b digit_b = x."""
    digit = v[f"{name}_digit"]
    power = 2.0 ** np.arange(digit.shape[-1])
    whole = [(index, -sign) for index, sign in count]
    return rows("batch_time", digit.shape[:2], (digit, power), *whole, lower=0, upper=0)


def _chord(result: IntArray, count: Count, n: IntArray) -> Block:
    terms = ((index, -sign * (2.0 * n + 1)) for index, sign in count)
    return rows("batch_time", result.shape, (result, 1), *terms, lower=-n * (n + 1.0))


def _from_below(v: CompactVariables, name: str, count: Count, most: IntArray) -> list[Block]:
    result, digit, cut = (v[f"{name}_{part}"] for part in ("square", "digit", "cut"))
    power, top = 2.0 ** np.arange(digit.shape[-1]), most[:, :, None]
    each = [(np.broadcast_to(i[:, :, None], digit.shape), -sign) for i, sign in count]
    return [
        rows("batch_time", digit.shape, (cut, 1), *each, (digit, -top), lower=-top),
        rows("batch_time", result.shape, (result, 1), (cut, -power), lower=0),
        _chord(result, count, most - 1),
    ]


def _from_above(v: CompactVariables, name: str, count: Count, most: IntArray) -> list[Block]:
    result, digit, cut = (v[f"{name}_{part}"] for part in ("square", "digit", "cut"))
    power, top = 2.0 ** np.arange(digit.shape[-1]), most[:, :, None]
    each = [(np.broadcast_to(i[:, :, None], digit.shape), -sign) for i, sign in count]
    return [
        rows("batch_time", digit.shape, (cut, 1), *each, upper=0),
        rows("batch_time", digit.shape, (cut, 1), (digit, -top), upper=0),
        rows("batch_time", result.shape, (result, 1), (cut, -power), upper=0),
    ]
