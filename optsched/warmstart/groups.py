"""Equal requests as one group, in the order in which a look-ahead scheduler prefers them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from optsched.instance import Instance, IntArray

_SHUFFLE_SEED = 0


class Preference(Enum):
    """What comes first when several requests fit."""

    LONG_OUTPUT = "long outputs"
    LARGE_AREA = "large area under the KV curve"
    LARGE_FINAL = "large final KV"
    MIXED = "a fixed shuffle of the sizes"
    EARLY = "early arrivals"
    LATE = "late arrivals"


@dataclass(frozen=True, kw_only=True, eq=False)
class Groups:
    """Requests of equal I and O, and of equal arrival where the preference asks for it.

    Parameters
    ----------
    prompt, output : int arrays, shape ``(groups,)``
        I and O, most preferred first.
    members : tuple of tuple of int
        Positions in the instance, by arrival; a scheduler that runs backwards in time takes them
        from the end.
    """

    prompt: IntArray
    output: IntArray
    members: tuple[tuple[int, ...], ...]

    def __len__(self) -> int:
        return len(self.members)

    @property
    def final(self) -> IntArray:
        """I + O - 1, shape ``(groups,)``."""
        return self.prompt + self.output - 1

    @property
    def area(self) -> IntArray:
        """A = sum over k < O of (I + k), shape ``(groups,)``."""
        return kv_area(self.prompt, self.output)

    @property
    def size(self) -> IntArray:
        """Number of members, shape ``(groups,)``."""
        return np.array([len(m) for m in self.members], dtype=np.int64)


def kv_area(prompt: IntArray, output: IntArray) -> IntArray:
    """A = O I + O (O - 1) / 2: KV tokens held, summed over the batches of an unchunked request."""
    area: IntArray = output * prompt + output * (output - 1) // 2
    return area


def grouped(instance: Instance, preference: Preference, batch_s: float = 0.0) -> Groups:
    """All requests in groups; ties go by arrival, I, O and then by place in the instance.

    ``batch_s`` is the expected time of a batch: backwards in time, requests are due by when they
    could end at the earliest.
    """
    by_arrival = preference in (Preference.EARLY, Preference.LATE)
    release = instance.release_s if by_arrival else np.zeros(len(instance))
    # No np.unique over an axis: it turns a keyboard interrupt into a TypeError.
    by_shape = np.lexsort((instance.output_tokens, instance.prompt_tokens, release))
    differs = np.ones(by_shape.size, dtype=np.bool_)
    differs[1:] = np.diff(release[by_shape]) != 0
    differs[1:] |= np.diff(instance.prompt_tokens[by_shape]) != 0
    differs[1:] |= np.diff(instance.output_tokens[by_shape]) != 0
    one_each = by_shape[differs]
    prompt, output = instance.prompt_tokens[one_each], instance.output_tokens[one_each]
    rank = _rank(preference, release[one_each], prompt, output, batch_s)
    order = np.argsort(rank, kind="stable")
    group = np.empty_like(by_shape)
    group[by_shape] = np.cumsum(differs) - 1
    by_group = np.lexsort((instance.release_s, group))
    members = np.split(by_group, np.flatnonzero(differs)[1:])
    return Groups(
        prompt=prompt[order],
        output=output[order],
        members=tuple(tuple(members[g].tolist()) for g in order.tolist()),
    )


def _rank(
    preference: Preference,
    release: NDArray[np.float64],
    prompt: IntArray,
    output: IntArray,
    batch_s: float,
) -> NDArray[np.float64] | IntArray:
    if preference is Preference.LONG_OUTPUT:
        return -output
    if preference is Preference.LARGE_AREA:
        return -kv_area(prompt, output)
    if preference is Preference.LARGE_FINAL:
        return -(prompt + output)
    if preference is Preference.MIXED:
        return np.random.default_rng(_SHUFFLE_SEED).permutation(prompt.size)
    return release if preference is Preference.EARLY else -(release + batch_s * output)
