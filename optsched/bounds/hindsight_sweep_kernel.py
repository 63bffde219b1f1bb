"""Inner loop of :mod:`optsched.bounds.hindsight_lagrangian`, written as :mod:`optsched.compiled`
describes; one call is one evaluation of the bound, milliseconds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optsched.compiled import compiled

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


@compiled
def sweep_back(
    memory: FloatArray, free: FloatArray, reward: FloatArray,
    removal: IntArray, removal_target: IntArray, removal_size: IntArray,
    entry: IntArray, entry_target: IntArray, grown: IntArray, from_state: IntArray,
    after: FloatArray, ending: FloatArray, entering: FloatArray,
) -> None:  # fmt: skip
    """Fill ``after``, ``ending`` and ``entering`` from the last round to the first.

    Parameters
    ----------
    memory : float array, shape ``(horizon + 1,)``
        Price of a KV token.
    free : float array, shape ``(states,)``
        KV tokens that a state leaves.
    reward : float array, shape ``(horizon + 1, sizes)``
    removal, entry : int arrays, shape ``(states + 1,)``
        The moves of state k are those from ``removal[k]`` to ``removal[k + 1]``; they lead to
        smaller numbers, entries to larger ones.
    removal_target, removal_size, entry_target : int arrays, shape ``(moves,)``
    grown, from_state : int arrays
        See :class:`optsched.bounds.hindsight_states.StateGraph`.
    after, ending, entering : float arrays, shape ``(horizon + 1, states)``
        See :class:`optsched.bounds.hindsight_lagrangian.Sweep`; the last row of ``after`` is given.
    """
    states = free.size
    for r in range(memory.size - 1, 0, -1):
        for k in range(states):
            best = after[r, k]
            for move in range(removal[k], removal[k + 1]):
                found = ending[r, removal_target[move]] + reward[r, removal_size[move]]
                best = max(best, found)
            ending[r, k] = best
        for k in range(states - 1, -1, -1):
            best = free[k] * memory[r] + ending[r, k]
            for move in range(entry[k], entry[k + 1]):
                best = max(best, entering[r, entry_target[move]])
            entering[r, k] = best
        for k in range(grown.size):
            after[r - 1, from_state[k]] = entering[r, grown[k]]
