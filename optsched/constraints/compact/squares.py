"""The square of a whole number under a linear cost."""

from __future__ import annotations

import numpy as np

from optsched.constraints.compact.rows import rows
from optsched.model.compact import CompactVariables
from optsched.model.compact_columns import first_chord
from optsched.model.milp import Block, IntArray

Count = tuple[tuple[IntArray, float], ...]  # column numbers (requests, batches) and a coefficient


def square(
    v: CompactVariables, name: str, count: Count, most: IntArray, cost: float
) -> list[Block]:
    """Rows that hold column ``{name}_square`` to x^2 on the side that its cost does not.

    Parameters
    ----------
    v : CompactVariables
    name : str
        ``fill`` or ``chunk``.
    count : terms
        What x is: a whole number from 0 to ``most``, of shape ``(requests, batches)``.
    most : int array, shape ``(requests, 1)``
    cost : float
        Seconds per unit of the square.

    Notes
    -----
    From below, for a positive cost: the chord of x^2 from n to n + 1 lies above it only between
    the two, so x^2 >= (2n + 1) x - n (n + 1), with equality at both ends; a chord for every n
    that x can be is exact. Where these would be too many there are binary digits,
    x = sum 2^b digit_b, and x^2 = sum 2^b cut_b with cut_b = digit_b x: from below
    cut_b >= x - most (1 - digit_b), from above, for a negative cost, cut_b <= x and
    cut_b <= most digit_b.
    """
    if f"{name}_digit" in v:
        return _by_digits(v, name, count, most, below=cost > 0)
    chunks = "partial" in v
    first = first_chord(v.instance.prompt_tokens[:, None], most, chunks)
    return [
        _chord(v[f"{name}_square"], count, np.minimum(first + n, most - 1))
        for n in range(int((most - first).max()))
    ]


def _chord(result: IntArray, count: Count, n: IntArray) -> Block:
    terms = ((index, -sign * (2.0 * n + 1)) for index, sign in count)
    return rows("batch_time", result.shape, (result, 1), *terms, lower=-n * (n + 1.0))


def _by_digits(
    v: CompactVariables, name: str, count: Count, most: IntArray, *, below: bool
) -> list[Block]:
    result, digit, cut = (v[f"{name}_{part}"] for part in ("square", "digit", "cut"))
    power, top = 2.0 ** np.arange(digit.shape[-1]), most[:, :, None]
    whole = [(index, -sign) for index, sign in count]
    each = [(np.broadcast_to(index[:, :, None], digit.shape), sign) for index, sign in whole]
    digits = rows("batch_time", result.shape, (digit, power), *whole, lower=0, upper=0)
    total = (result, 1), (cut, -power)
    if below:
        return [
            digits,
            rows("batch_time", digit.shape, (cut, 1), *each, (digit, -top), lower=-top),
            rows("batch_time", result.shape, *total, lower=0),
            _chord(result, count, most - 1),
        ]
    return [
        digits,
        rows("batch_time", digit.shape, (cut, 1), *each, upper=0),
        rows("batch_time", digit.shape, (cut, 1), (digit, -top), upper=0),
        rows("batch_time", result.shape, *total, upper=0),
    ]
