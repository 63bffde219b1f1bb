"""Least price of all requests together on priced batches, from few path evaluations.

Requests are sorted into cells by prompt size. In a cell the least price of a path is concave in
its two numbers (fill tokens, memory offset; see ``path_dp``) if refills are priced as for the
smallest prompt, so it is bounded from below by the bilinear interpolation of the cell's corners.
A request of O tokens is ``stride`` paths, those of the residues r = 0, 1, ..: the first
O - stride * (G - 1) of them have G = ceil(O / stride) groups, the others one less.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from optsched.bounds.path_dp import SAFE, PathPrices, cheapest_paths
from optsched.bounds.verify.refuted import hold
from optsched.instance import Limits

IntArray = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Demand:
    """Requests of one prompt and output size each, columns of shape ``(shapes,)``."""

    prompt: IntArray
    output: IntArray
    count: IntArray

    @property
    def largest(self) -> int:
        """Largest KV size of any request."""
        return int((self.prompt + self.output).max()) - 1

    def select(self, rows: IntArray) -> Demand:
        """The shapes of these rows."""
        return Demand(prompt=self.prompt[rows], output=self.output[rows], count=self.count[rows])


def demand(prompt: IntArray, output: IntArray) -> Demand:
    """Equal requests counted together."""
    # No np.unique over an axis: it turns a keyboard interrupt into a TypeError.
    found = Counter(zip(prompt.tolist(), output.tolist(), strict=True))
    columns = np.array([(*shape, count) for shape, count in sorted(found.items())], dtype=np.int64)
    return Demand(prompt=columns[:, 0], output=columns[:, 1], count=columns[:, 2])


@dataclass(frozen=True, kw_only=True)
class Refills:
    """Whole-number price of a refill to each size, nondecreasing, shape ``(largest + 1,)``, and
    whether it also pays for its tokens (not where KV may come back from host memory)."""

    price: IntArray
    pays_tokens: bool


def total_price(
    requests: Demand, cells: Sequence[int], prices: PathPrices, refills: Refills, limits: Limits,
    stride: int,
) -> Fraction:  # fmt: skip
    """Lower bound on the summed price of one path per request.

    ``cells`` are the largest prompts of the cells, ascending; ``stride`` is a multiple of the
    page size.
    """
    total = Fraction(0)
    cell = np.searchsorted(np.asarray(cells), requests.prompt)
    order = np.argsort(cell, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(cell[order])) + 1):
        if cell[rows[0]] < len(cells):
            total += _cell(requests.select(rows), prices, refills, limits, stride)
    return total


def path_count(requests: Demand, cells: Sequence[int], stride: int) -> int:
    """Number of groups over all paths that :func:`total_price` evaluates."""
    cell = np.searchsorted(np.asarray(cells), requests.prompt)
    groups = np.zeros(len(cells), dtype=np.int64)
    np.maximum.at(groups, cell, -(-requests.output // stride))
    return int(groups.sum()) * 4


def _cell(
    requests: Demand, prices: PathPrices, refills: Refills, limits: Limits, stride: int
) -> Fraction:
    low, high = int(requests.prompt.min()), int(requests.prompt.max())
    fills = [low] if low == high else [low, high]
    offsets = sorted({limits.pages(low), limits.pages(high + stride - 1)})
    groups = -(-requests.output // stride)
    most = int(groups.max())
    parts = stride * max(1, high - low) * max(1, offsets[-1] - offsets[0])
    hold(int(requests.count.sum()) * parts < SAFE, "a cell holds too many requests for 64 bits")
    again = low + stride * np.arange(most - 1)
    price = cheapest_paths(
        prices, stride=stride, first_bucket=(-(-low // limits.fill_tokens) - 1) // stride,
        groups=most, fill_tokens=np.repeat(fills, len(offsets)) - 1,
        offsets=np.tile(offsets, len(fills)), refill=refills.price[again + 1],
        refill_tokens=again if refills.pays_tokens else np.zeros_like(again),
    )  # fmt: skip
    weight = np.zeros((len(fills), len(offsets), most + 1), dtype=np.int64)
    full = requests.output - stride * (groups - 1)
    for first, upto, made in (
        (np.zeros_like(full), full, groups), (full, np.full_like(full, stride), groups - 1),
    ):  # fmt: skip
        last = requests.prompt + upto - 1
        sizes = _pages_upto(last, limits.block_tokens)
        sizes = sizes - _pages_upto(requests.prompt + first - 1, limits.block_tokens)
        by_offset = _between(offsets, limits.block_tokens * sizes, upto - first)
        by_fill = _between(fills, requests.prompt, np.ones_like(full))
        for f, near_fill in enumerate(by_fill):
            for k, near in enumerate(by_offset):
                np.add.at(weight[f, k], made, requests.count * near_fill * near)
    owed = weight.reshape(-1, most + 1)[:, 1:].astype(object) * price.astype(object)
    return Fraction(int(owed.sum()), parts)


def _between(ends: Sequence[int], value: IntArray, count: IntArray) -> list[IntArray]:
    """Weights at the ends of an interval whose mean is ``value / count``, times ``count`` and the
    length of the interval (1 if there is one end)."""
    if len(ends) == 1:
        return [count]
    return [count * ends[1] - value, value - count * ends[0]]


def _pages_upto(size: IntArray, b: int) -> IntArray:
    """ceil(1 / b) + .. + ceil(size / b)."""
    q, r = size // b, size % b
    return np.asarray(b * q * (q + 1) // 2 + r * (q + 1), dtype=np.int64)
