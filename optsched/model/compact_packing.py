"""What few large requests do to a batch's memory: dual feasible functions of their sizes.

A function f of sizes with sum f(s) <= f(M) for whatever fits into M bounds the number of batches
that hold given sizes, and is a row of the formulation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optsched.model.milp import IntArray

_MOST_PARAMETERS = 64  # functions tried


@dataclass(frozen=True, kw_only=True)
class Packing:
    """sum f(s) <= ``most`` for all sizes s >= 0 with sum s <= ``capacity``.

    With threshold t, 1 <= t <= M / 2, two functions are at hand, both integer:

    - ``rounds`` (f_CCM1 of Carlier, Clautiaux and Moukrim, 2007): 2 floor(s / t) below M / 2,
      floor(M / t) at M / 2 and 2 (floor(M / t) - floor((M - s) / t)) above, most = 2 floor(M / t);
    - otherwise (Martello and Toth's): M above M - t, s from t to M - t, 0 below t, most = M.
    """

    capacity: int
    threshold: int
    rounds: bool

    @property
    def most(self) -> int:
        """f(M)."""
        return 2 * (self.capacity // self.threshold) if self.rounds else self.capacity

    def __call__(self, sizes: IntArray) -> IntArray:
        """f of every size, of the same shape."""
        M, t = self.capacity, self.threshold
        if self.rounds:
            small, large = 2 * (sizes // t), 2 * (M // t - (M - sizes) // t)
            return np.where(2 * sizes < M, small, np.where(2 * sizes == M, M // t, large))
        return np.where(sizes > M - t, M, np.where(sizes < t, 0, sizes))

    def batches(self, sizes: IntArray) -> int:
        """ceil(sum f / f(M)): batches without which the sizes do not fit."""
        return -(-int(self(sizes).sum()) // self.most)


def packings(sizes: IntArray, capacity: int) -> list[Packing]:
    """Functions with different thresholds, the one that shows most batches for ``sizes`` first.

    Thresholds are those at which the value of some size changes; of very many, a sample.
    """
    distinct = np.unique(sizes)
    counts = np.arange(1, 33)
    thresholds = np.unique(
        np.concatenate([distinct, capacity - distinct + 1, capacity // (counts + 1) + 1, [1]])
    )
    thresholds = thresholds[(thresholds >= 1) & (2 * thresholds <= capacity)]
    if thresholds.size > _MOST_PARAMETERS:
        at = np.linspace(0, thresholds.size - 1, _MOST_PARAMETERS).round().astype(int)
        thresholds = thresholds[at]
    found = [
        Packing(capacity=capacity, threshold=int(t), rounds=rounds)
        for t in thresholds
        for rounds in (False, True)
    ]
    return sorted(found, key=lambda f: -float(f(sizes).sum()) / f.most)
