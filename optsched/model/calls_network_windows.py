"""In which batches each token of a request can come, given by when the request must end.

A batch takes at least a, so batch j starts at (j - 1) a or later. From then on a request that
generates token g + 1 in it needs that step, its later ones and the calls it makes in between, each
in a batch or a time of its own. So j <= 1 + (latest end - what it needs) / a, besides what the
number of batches says.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from optsched.errors import InfeasibleError
from optsched.instance import Instance
from optsched.model.batch_durations import least_duration_s
from optsched.model.calls_network_stages import Stages
from optsched.model.horizon import latest_end_s
from optsched.objective import Objective

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

_SLACK = 1e-9


def latest_ends_s(
    instance: Instance, stages: Sequence[Stages], limits: Mapping[Objective, float]
) -> FloatArray:
    """By when each request ends in a schedule whose values are at most ``limits``, seconds; shape
    ``(requests,)``, infinite where nothing is known.

    If the ends have a mean, one is at most what their sum leaves when the others are as early as
    they would be alone.
    """
    latest = np.full(len(instance), math.inf)
    alone = instance.release_s + [
        each.least_s(instance.cost).sum() + each.pause_s.sum() for each in stages
    ]
    for objective, value in limits.items():
        latest = np.minimum(latest, latest_end_s(instance, objective, value))
        if objective is Objective.MAX_LATENCY:
            latest = np.minimum(latest, instance.release_s + value)
        if objective is Objective.MEAN_LATENCY:
            total = len(instance) * value + float(instance.release_s.sum())
            latest = np.minimum(latest, total - (alone.sum() - alone))
    ends: FloatArray = latest * (1 + _SLACK) + _SLACK
    return ends


def last_batches(
    instance: Instance, stages: Sequence[Stages], batches: int, latest_s: FloatArray
) -> tuple[IntArray, ...]:
    """Per request, entry g: the last batch in which it can generate token g + 1.

    Raises
    ------
    InfeasibleError
        A request cannot end in time.
    """
    shortest = least_duration_s(instance)
    found = []
    for request, each, latest in zip(instance.requests, stages, latest_s.tolist(), strict=True):
        last: IntArray = np.zeros(len(each), dtype=np.int64)
        needed, following = 0.0, batches + 1
        least = each.least_s(instance.cost)
        for g in reversed(range(len(each))):
            needed += float(least[g])
            in_time = batches
            if latest < math.inf:
                in_time = math.floor(1 + (latest - needed) / shortest + 1e-6)
            following = last[g] = min(in_time, following - 1)
            needed += float(each.pause_s[g])
        if (last <= np.arange(len(each))).any():
            raise InfeasibleError(
                f"request {request.id!r} of {len(each)} output tokens cannot end by "
                f"{latest:.6g} s within {batches} batches",
                hint="raise the horizon, the cutoff or the limits on other objectives",
            )
        found.append(last)
    return tuple(found)
