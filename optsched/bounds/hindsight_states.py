"""States of the machine in the hindsight problem: which sizes run, as a multiset.

After a round every running request holds a size, its tokens of KV, and in the next round one more.
A state is the multiset of the sizes above a threshold; all smaller ones are left out. What happens
between two states is cut into unit moves, so that the best of all ways to get from one to another
is found by sweeps over lists of edges instead of over pairs of states:

- all sizes grow by one;
- requests enter, one after another, at their prompt's size or the first size above the threshold;
- requests end, one after another.

States are numbered by how many sizes they have, so that a request that ends leads to a smaller
number and one that enters to a larger one, and a sweep in that order reads what is already final.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
State = tuple[int, ...]


class Moves(NamedTuple):
    """Unit moves out of all states.

    Parameters
    ----------
    starts : int array, shape ``(states + 1,)``
        The moves of state n are those from ``starts[n]`` to ``starts[n + 1]``.
    target, size : int arrays, shape ``(moves,)``
        The state that a move leads to and the size that it adds or removes.
    """

    starts: IntArray
    target: IntArray
    size: IntArray


@dataclass(frozen=True, kw_only=True, eq=False)
class StateGraph:
    """All states that fit in memory, fewest sizes first; state 0 is the empty one.

    Parameters
    ----------
    states : tuple of tuples of int
        Sizes of each state, largest first.
    number : dict
        State to its number.
    kv : int array, shape ``(states,)``
        KV tokens in whole pages that the sizes of a state hold.
    grown, from_state : int arrays, shape ``(states that can grow,)``
        The state after all sizes of ``from_state`` have grown.
    removals, entries : Moves
    """

    states: tuple[State, ...]
    number: dict[State, int]
    kv: IntArray
    grown: IntArray
    from_state: IntArray
    removals: Moves
    entries: Moves

    def __len__(self) -> int:
        return len(self.states)


def smallest_threshold(
    kv_of: Sequence[int], kv_tokens: int, *, least: int, most_states: int
) -> int:
    """The smallest threshold from ``least`` on that leaves at most ``most_states`` states, at least
    one.

    Size s holds ``kv_of[s]`` tokens. The states above a threshold are counted from the largest size
    down: ``ways[m]`` multisets hold m tokens.
    """
    ways = [1] + [0] * kv_tokens
    threshold = len(kv_of) - 1
    while threshold > least:
        size = kv_of[threshold]
        for held in range(size, kv_tokens + 1):
            ways[held] += ways[held - size]
        if sum(ways) > most_states:
            break
        threshold -= 1
    return threshold


def state_graph(
    kv_of: Sequence[int], threshold: int, kv_tokens: int, entry_sizes: Sequence[int]
) -> StateGraph:
    """The graph of the multisets of sizes ``threshold + 1 .. len(kv_of) - 1`` that fit.

    Parameters
    ----------
    kv_of : sequence of int
        KV tokens in whole pages of each size from 0 to the largest.
    threshold : int
        Sizes up to this are left out.
    kv_tokens : int
        M.
    entry_sizes : sequence of int
        Sizes at which requests may enter, above the threshold.
    """
    states: list[State] = []

    def extend(state: State, largest: int, left: int) -> None:
        states.append(state)
        for size in range(threshold + 1, largest + 1):
            if kv_of[size] <= left:
                extend((*state, size), size, left - kv_of[size])

    extend((), len(kv_of) - 1, kv_tokens)
    states.sort(key=lambda state: (len(state), state))
    number = {state: k for k, state in enumerate(states)}
    after = [number.get(tuple(size + 1 for size in state), -1) for state in states]
    grown = np.array(after, dtype=np.int64)
    return StateGraph(
        states=tuple(states), number=number,
        kv=np.array([sum(kv_of[size] for size in state) for state in states], dtype=np.int64),
        grown=grown[grown >= 0], from_state=np.flatnonzero(grown >= 0),
        removals=_moves([_removals(state, number) for state in states]),
        entries=_moves([_entries(state, number, entry_sizes) for state in states]),
    )  # fmt: skip


def _removals(state: State, number: dict[State, int]) -> list[tuple[int, int]]:
    return [
        (number[(*state[:k], *state[k + 1 :])], size)
        for k, size in enumerate(state)
        if not k or state[k - 1] != size
    ]


def _entries(
    state: State, number: dict[State, int], entry_sizes: Sequence[int]
) -> list[tuple[int, int]]:
    found = []
    for size in entry_sizes:
        target = number.get(tuple(sorted((*state, size), reverse=True)))
        if target is not None:
            found.append((target, size))
    return found


def _moves(moves: list[list[tuple[int, int]]]) -> Moves:
    flat = np.array([move for each in moves for move in each], dtype=np.int64).reshape(-1, 2)
    starts = np.cumsum([0, *[len(each) for each in moves]])
    return Moves(starts=starts, target=flat[:, 0].copy(), size=flat[:, 1].copy())
