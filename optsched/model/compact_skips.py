"""Long idle times, cut short: a solver's tolerances are a share of the largest time in a program.

If nothing arrives for longer than all batches of the horizon could take together, then whatever
processes a later arrival starts just when that arrives, and all before it has ended long ago. Such
a gap is cut to that length. Every schedule takes the same course, only what comes after the gap is
earlier by what was skipped, and only requests that are unfinished across it (or, by the objective,
have no first token) gain. They are charged for it, or forbidden if the schedule would be worse than
those of interest, or miss their service-level objective.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from optsched.instance import Instance
from optsched.model.milp import FloatArray

BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, eq=False)
class Skips:
    """What is skipped before each arrival after 0, and what becomes of those who wait across it.

    Parameters
    ----------
    skipped_s : float array, shape ``(arrivals,)``
        Seconds by which a gap before an arrival was cut; mostly 0.
    forbidden, missing, charged : mapping of str to bool array, shape ``(arrivals, requests)``
        By phase: who must have left it before a batch processes that arrival or a later one; who
        misses an objective otherwise; who is charged ``skipped_s`` otherwise.
    """

    skipped_s: FloatArray
    forbidden: Mapping[str, BoolArray]
    missing: Mapping[str, BoolArray]
    charged: Mapping[str, BoolArray]


def cut_gaps(instance: Instance, longest_s: float) -> tuple[Instance, FloatArray]:
    """The instance with no gap between arrivals longer than ``longest_s``, and by how much each
    gap was cut, by distinct arrival after 0, shape ``(arrivals,)``."""
    arrivals, at = np.unique(instance.release_s, return_inverse=True)
    gaps = np.diff(arrivals)
    skipped = np.maximum(gaps - longest_s, 0.0)
    if not skipped.any():
        return instance, skipped
    earlier = np.concatenate([[0.0], np.cumsum(np.minimum(gaps, longest_s))])[at]
    requests = tuple(
        msgspec.structs.replace(request, arrival_s=arrival_s)
        for request, arrival_s in zip(instance.requests, earlier.tolist(), strict=True)
    )
    return msgspec.structs.replace(instance, requests=requests), skipped


def skips(
    instance: Instance,
    skipped_s: FloatArray,
    phases: Mapping[str, BoolArray],
    most_s: Mapping[str, float],
    slos_s: Mapping[str, FloatArray],
    priced: Mapping[str, bool],
) -> Skips:
    """Who may wait across which arrival.

    Parameters
    ----------
    instance : Instance
        With the arrivals as they are.
    skipped_s : float array, shape ``(arrivals,)``
    phases : mapping of str to bool array, shape ``(requests,)``
    most_s : mapping of str to float
        The longest that a phase lasts, from the arrival, in a schedule of interest.
    slos_s : mapping of str to float array, shape ``(requests,)``
        The longest that it may last for the request not to miss its objective; infinite if none.
    priced : mapping of str to bool
        Whether the length of the phase matters otherwise.
    """
    arrivals = np.unique(instance.release_s)[1:]
    waits = arrivals[:, None] - instance.release_s  # at the least, in the phase across an arrival
    across, cut = waits > 0, skipped_s[:, None] > 0
    forbidden, missing, charged = {}, {}, {}
    for name, which in phases.items():
        # The phase after the first token begins at any time; then only what was cut is sure.
        least = waits if name in most_s else np.broadcast_to(skipped_s[:, None], waits.shape)
        here = across & which & (least > 0)
        forbidden[name] = here & (least > most_s.get(name, np.inf))
        missing[name] = here & ~forbidden[name] & (least > slos_s[name])
        paid = priced[name] | (np.isfinite(slos_s[name]) & ~missing[name])
        charged[name] = here & cut & ~forbidden[name] & paid
    return Skips(skipped_s=skipped_s, forbidden=forbidden, missing=missing, charged=charged)
