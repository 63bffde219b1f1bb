"""The state-path Lagrangian of the hindsight problem: a bound for any prices.

Let every request i have a price mu_i and every KV token of round r a price lam_r >= 0. Relax that
each request ends exactly once, and memory to lam_r (M - KV held in r). For all schedules

    sum of latencies >= sum over i of mu_i - max over paths of
        [ sum over ends on the path of reward(p, r) + sum over r of lam_r (M - KV of the state) ]

    reward(p, r) = max over requests i that end with p tokens, in round r at the earliest
                   of mu_i - (r - T_i) - sum of lam over its rounds with sizes up to the threshold

where a path goes through the states of :mod:`optsched.bounds.hindsight_states`, one per round: it
starts any requests that fit beside what runs, and ends any that it likes. A schedule is a path,
one on which everything ends once. Requests that never exceed the threshold end when it costs them
least. A reward is never positive after round mu_i + T_i, so a path through that many rounds is
long enough, and the bound holds for schedules of any length.

Dualising the number of times each request ends gives the same bound as a price for every size and
round at which requests end, with some fifty prices instead of twenty thousand.

All prices are multiples of 2^-20, so that every sum is exact in double precision.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optsched.bounds.hindsight_states import StateGraph, state_graph
from optsched.model.hindsight import Rounds

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

UNIT = 2.0**20  # prices are multiples of 1 / UNIT
_NEVER = -(2.0**40)  # what an impossible move earns


@dataclass(frozen=True, kw_only=True, eq=False)
class Prices:
    """Prices in rounds: ``request``, shape ``(types,)``, and ``memory`` of one KV token in each
    piece of the horizon, shape ``(pieces,)``."""

    request: FloatArray
    memory: FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Evaluation:
    """The bound on the sum of latencies in rounds, and its slope in each price."""

    value: float
    request: FloatArray
    memory: FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Sweep:
    """What states are worth, best first move to last.

    Parameters
    ----------
    after : float array, shape ``(horizon + 1, states)``
        Most that a path earns after round r if this state remains.
    ending, entering : float arrays, shape ``(horizon + 1, states)``
        The same in round r with this state before its requests end, and before more enter.
    reward : float array, shape ``(horizon + 1, sizes)``
    winner : int array, shape ``(horizon + 1, sizes)``
        The type that earns the reward; -1 if none.
    """

    after: FloatArray
    ending: FloatArray
    entering: FloatArray
    reward: FloatArray
    winner: IntArray


class Lagrangian:
    """The bound as a function of prices, for one threshold and number of rounds.

    Parameters
    ----------
    rounds : Rounds
    threshold : int
        Sizes up to this are priced, larger ones are in the states.
    horizon : int
        Rounds that are priced; the price of a request is at most this less its arrival.
    pieces : int
        Pieces of the horizon with equal prices of memory.

    Attributes
    ----------
    graph : StateGraph
    tracked : bool array, shape ``(types,)``
        Types that exceed the threshold.
    piece : int array, shape ``(horizon + 1,)``
        Piece of each round.
    """

    def __init__(self, rounds: Rounds, *, threshold: int, horizon: int, pieces: int) -> None:
        self.rounds, self.threshold, self.horizon = rounds, threshold, horizon
        limits = rounds.instance.limits
        self.final: IntArray = rounds.prompt + rounds.output - 1
        self.tracked: NDArray[np.bool_] = self.final > threshold
        self._kv = np.array([limits.pages(size) for size in range(int(self.final.max()) + 1)])
        firsts = np.maximum(rounds.prompt[self.tracked], threshold + 1)
        self._entry_sizes = sorted(set(firsts.tolist()))
        self.kv_tokens = limits.kv_tokens
        self.graph: StateGraph = state_graph(
            self._kv.tolist(), threshold, self.kv_tokens, self._entry_sizes
        )
        self.piece: IntArray = np.arange(horizon + 1) * pieces // (horizon + 1)
        self.pieces = pieces
        self._free = (self.kv_tokens - self.graph.kv).astype(np.float64)

    def rounded(self, prices: Prices) -> Prices:
        """The nearest prices that are exact in sums and within their limits."""
        most = (self.horizon - self.rounds.release).astype(np.float64)
        return Prices(
            request=np.clip(np.rint(prices.request * UNIT) / UNIT, 0.0, most),
            memory=np.maximum(np.rint(prices.memory * UNIT) / UNIT, 0.0),
        )

    def evaluate(self, prices: Prices) -> Evaluation:
        """The bound at ``rounded(prices)``."""
        prices = self.rounded(prices)
        memory = prices.memory[self.piece]
        charges = self.charges(memory)
        sweep = self.sweep(prices, charges)
        count = self.rounds.count.astype(np.float64)
        ended = np.zeros_like(count)
        held = np.zeros(self.horizon + 1)
        for size, ending in self._trace(sweep, memory, held):
            kind = int(sweep.winner[ending, size])
            ended[kind] += 1
            self._hold(held, kind, ending, 1.0)
        value = float((prices.request * count)[self.tracked].sum() - sweep.after[0, 0])
        for kind in np.flatnonzero(~self.tracked).tolist():
            best = int(charges[kind].argmin())
            late = self.horizon + 1.0 - self.rounds.release[kind]
            value += count[kind] * min(charges[kind, best], late)
            if charges[kind, best] < late:
                self._hold(held, kind, best, count[kind])
        held[1:] -= self.kv_tokens
        return Evaluation(
            value=value, request=np.where(self.tracked, count - ended, 0.0),
            memory=np.bincount(self.piece, held, minlength=self.pieces).astype(np.float64),
        )  # fmt: skip

    def charges(self, memory: FloatArray) -> FloatArray:
        """What an end in each round costs a request beside its price: its latency and its sizes
        up to the threshold; shape ``(types, horizon + 1)``, large where it cannot be."""
        rounds = self.rounds
        ends = np.arange(self.horizon + 1)
        table = (ends - rounds.release[:, None]).astype(np.float64)
        for kind in range(len(rounds.types)):
            output, release = int(rounds.output[kind]), int(rounds.release[kind])
            for age, size in self._small(kind):
                table[kind, output:] += memory[1 + age : self.horizon + 2 - output + age] * size
            table[kind, : output + release] = -_NEVER
        return table

    def sweep(self, prices: Prices, charges: FloatArray, *, open_ended: bool = False) -> Sweep:
        """Values of all states from the last round back to the first.

        Paths end empty by the horizon, or with ``open_ended`` in any state: no more can be earned
        after it.
        """
        from optsched.bounds.hindsight_sweep_kernel import sweep_back

        graph, horizon = self.graph, self.horizon
        memory = prices.memory[self.piece]
        reward = np.full((horizon + 1, self._kv.size), _NEVER)
        winner = np.full(reward.shape, -1, dtype=np.int64)
        for kind in np.flatnonzero(self.tracked).tolist():
            size = int(self.final[kind])
            earned = prices.request[kind] - charges[kind]
            better = earned > reward[:, size]
            reward[better, size] = earned[better]
            winner[better, size] = kind
        after = np.full((horizon + 1, len(graph)), _NEVER)
        ending, entering = np.empty_like(after), np.empty_like(after)
        after[horizon, slice(None) if open_ended else 0] = 0.0
        sweep_back(
            memory, self._free, reward, *graph.removals, graph.entries.starts, graph.entries.target,
            graph.grown, graph.from_state, after, ending, entering,
        )  # fmt: skip
        return Sweep(after=after, ending=ending, entering=entering, reward=reward, winner=winner)

    def _trace(self, sweep: Sweep, memory: FloatArray, held: FloatArray) -> list[tuple[int, int]]:
        """Sizes and rounds of the ends on a best path; its KV is added to ``held``."""
        states, number, found = self.graph.states, self.graph.number, []
        state: tuple[int, ...] = ()
        for r in range(1, self.horizon + 1):
            state = tuple(size + 1 for size in state)
            k = number[state]
            value = sweep.entering[r, k]
            while sweep.ending[r, k] + memory[r] * self._free[k] != value:
                larger = (tuple(sorted((*state, e), reverse=True)) for e in self._entry_sizes)
                state = next(
                    s for s in larger if s in number and sweep.entering[r, number[s]] == value
                )
                k = number[state]
            held[r] += self.graph.kv[k]
            value = sweep.ending[r, k]
            while sweep.after[r, k] != value:
                for at, size in enumerate(states[k]):
                    smaller = number[(*state[:at], *state[at + 1 :])]
                    if sweep.ending[r, smaller] + sweep.reward[r, size] == value:
                        break
                found.append((size, r))
                k, state = smaller, states[smaller]
                value = sweep.ending[r, k]
        return found

    def _small(self, kind: int) -> list[tuple[int, int]]:
        """Rounds of a request, from 0, in which its size is priced, and its KV in them."""
        prompt, output = int(self.rounds.prompt[kind]), int(self.rounds.output[kind])
        small = min(output, max(0, self.threshold - prompt + 1))
        return [(age, int(self._kv[prompt + age])) for age in range(small)]

    def _hold(self, held: FloatArray, kind: int, ending: int, count: float) -> None:
        for age, size in self._small(kind):
            held[ending - int(self.rounds.output[kind]) + 1 + age] += count * size
