"""How coarse a Lagrangian bound may look at a workload: buckets, path steps, cells, types.

None of these choices affects validity, only how much is proved and how long it takes.
"""

from __future__ import annotations

import numpy as np

from optsched.bounds.path_total import Demand, path_count
from optsched.model.coarse import CoarseType

_MOST_TYPES = 8
_MOST_PATH_STEPS = 30_000_000
_CELL_GROWTH = 1.08
_MOST_SINGLE_CELLS = 24


def bucket_stride(types: tuple[CoarseType, ...], block: int, most: int, budget: int) -> int:
    """The smallest block * 2 ** k for which the coarse program has at most ``budget`` nodes."""
    stride = block
    while stride < most:
        buckets = -(-most // stride)
        groups = [-(-kind.output_tokens // stride) for kind in types]
        if sum(g * max(1, buckets - g + 1) for g in groups) <= budget:
            break
        stride *= 2
    return stride


def prompt_cells(requests: Demand) -> tuple[int, ...]:
    """Cells of one prompt size each where there are few, else of sizes that differ by a few
    percent."""
    sizes = np.unique(requests.prompt)
    if sizes.size <= _MOST_SINGLE_CELLS:
        return tuple(sizes.tolist())
    cells, lowest = [], int(sizes[0])
    for size, following in zip(sizes[:-1].tolist(), sizes[1:].tolist(), strict=True):
        if following > max(lowest * _CELL_GROWTH, lowest + _MOST_SINGLE_CELLS):
            cells.append(size)
            lowest = following
    return (*cells, int(sizes[-1]))


def coarse_types(requests: Demand) -> tuple[CoarseType, ...]:
    """At most a few types that stand for all requests: neighbours by output, then prompt, are
    merged to their means so that each type has about the same tokens of KV over its life."""
    prompt, output, count = requests.prompt, requests.output, requests.count
    if count.size <= _MOST_TYPES:
        rows = [np.array([k]) for k in range(count.size)]
    else:
        order = np.lexsort((prompt, output))
        area = (count * output * (2 * prompt + output - 1))[order].astype(np.float64)
        share = np.cumsum(area) - area / 2
        part = np.minimum((share / area.sum() * _MOST_TYPES).astype(np.int64), _MOST_TYPES - 1)
        rows = [order[part == p] for p in range(_MOST_TYPES) if np.any(part == p)]
    return tuple(
        CoarseType(
            prompt_tokens=max(1, round(float(np.average(prompt[r], weights=count[r])))),
            output_tokens=max(1, round(float(np.average(output[r], weights=count[r])))),
            count=int(count[r].sum()),
        )
        for r in rows
    )  # fmt: skip


def path_stride(
    requests: Demand, cells: tuple[int, ...], block: int, bucket: int, most: int
) -> int:
    """The finest divisor of the bucket with which paths take no more steps than allowed."""
    stride = bucket
    while stride % 2 == 0 and (stride // 2) % block == 0:
        finer = stride // 2
        if path_count(requests, cells, finer) * (most // finer) > _MOST_PATH_STEPS:
            break
        stride = finer
    return stride
