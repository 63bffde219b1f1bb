"""Inner loops of :mod:`optsched.bounds.hindsight_search`; how they are written is described in
:mod:`optsched.compiled`.

Requests are numbered, those of a type one after the other, and equal ones start in this order, so
that a node is a set of waiting requests (a mask) and the round after which each other one started.
Prices and bounds are integers, in units of 2^-20 rounds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from optsched.compiled import compiled

IntArray = NDArray[np.int64]
IndexArray = NDArray[np.int32]
BoolArray = NDArray[np.bool_]

UNIT_BITS = 20  # prices are multiples of 2^-20 rounds


class Problem(NamedTuple):
    """The requests and the Lagrangian's tables, H priced rounds and S states.

    Parameters
    ----------
    kv : int array, shape ``(requests, longest output)``
        KV tokens in each round of a request; 0 after its end.
    output, release, prompt, kind : int arrays, shape ``(requests,)``
        O, the round after which it is there, I, its type.
    tracked : bool array, shape ``(requests,)``
        Whether it exceeds the threshold.
    price, beyond : int arrays, shape ``(requests,)``
        Of a request; its latency if it ends after round H.
    charge, later : int arrays, shape ``(requests, H + 1)``
        What an end in a round costs beside the price, and in this round or later.
    memory : int array, shape ``(H + 1,)``
        Price of a KV token in each round.
    worth : int array, shape ``(H + 1, S)``
        Most that can be earned after a round in each state.
    mark : int array, shape ``(sizes,)``
        A state's key is the sum of the marks of its sizes.
    keys, slots : int arrays
        Hash table with open addressing from key to number of the state; -1 is free.
    capacity, threshold : int
    """

    kv: IntArray
    output: IntArray
    release: IntArray
    prompt: IntArray
    kind: IntArray
    tracked: BoolArray
    price: IntArray
    beyond: IntArray
    charge: IntArray
    later: IntArray
    memory: IntArray
    worth: IntArray
    mark: IntArray
    keys: IntArray
    slots: IndexArray
    capacity: int
    threshold: int


class Nodes(NamedTuple):
    """Room for nodes of one round.

    Parameters
    ----------
    waiting : int array, shape ``(room,)``
        Mask of the requests that have not started.
    latency : int array, shape ``(room,)``
        Sum of latencies of all that have.
    priced, bound : int arrays, shape ``(room,)``
        The Lagrangian's terms of the rounds so far; a lower bound on what goes through the node.
    start : int array, shape ``(room, requests)``
        Round after which each started; -1 if it has not.
    """

    waiting: IntArray
    latency: IntArray
    priced: IntArray
    bound: IntArray
    start: IndexArray


@compiled
def enter_states(keys: IntArray, slots: IndexArray, entered: IntArray) -> bool:
    """Fill the hash table; whether all keys differ."""
    mask = keys.size - 1
    for number in range(entered.size):
        at = entered[number] & mask
        while slots[at] >= 0:
            if keys[at] == entered[number]:
                return False
            at = (at + 1) & mask
        keys[at] = entered[number]
        slots[at] = number
    return True


@compiled
def state_of(problem: Problem, key: int) -> int:
    """Number of the state with this key, which must be in the table."""
    mask = problem.keys.size - 1
    at = key & mask
    while problem.slots[at] < 0 or problem.keys[at] != key:
        at = (at + 1) & mask
    return int(problem.slots[at])


@compiled
def cost_of_end(problem: Problem, j: int, end: int) -> int:
    """What the bound counts for request j that runs and will end in this round."""
    if problem.tracked[j]:
        return int(problem.price[j])
    if end >= problem.memory.size:
        return int(problem.beyond[j])
    return int(problem.charge[j, end])


@compiled
def cost_of_waiting(problem: Problem, j: int, r: int) -> int:
    """What the bound counts for request j that has not started after round r."""
    if problem.tracked[j]:
        return int(problem.price[j])
    soonest = max(r, problem.release[j]) + problem.output[j]
    if soonest >= problem.memory.size:
        return int(problem.beyond[j])
    return int(min(problem.beyond[j], problem.later[j, soonest]))


@compiled
def soonest_latency(problem: Problem, j: int, r: int) -> int:
    """Least latency, in rounds, of request j that has not started after round r - 1."""
    return int(max(r - 1 - problem.release[j], 0) + problem.output[j])


@compiled
def improvable(problem: Problem, r: int, nodes: Nodes, at: int, past: IntArray) -> bool:
    """Whether some request that has not ended after round r could have, others unchanged.

    Then it could end earlier in all that follows, none of which is optimal. ``past``, shape
    ``(longest output,)``, is overwritten by the KV held in the rounds r, r - 1, ..
    """
    past[:] = 0
    for j in range(problem.output.size):
        start, output = nodes.start[at, j], problem.output[j]
        if start < 0:
            continue
        # Its age in round r - back is r - back - 1 - start.
        youngest = max(0, r - start - output)
        for back in range(youngest, min(past.size, r - start)):
            past[back] += problem.kv[j, r - back - 1 - start]
    for j in range(problem.output.size):
        start, output = nodes.start[at, j], problem.output[j]
        if r - output < problem.release[j] or (start >= 0 and start + output <= r):
            continue
        fits = True
        for back in range(output):
            held = past[back] + problem.kv[j, output - 1 - back]
            if start >= 0 and r - back - 1 >= start:
                held -= problem.kv[j, r - back - 1 - start]
            if held > problem.capacity:
                fits = False
                break
        if fits:
            return True
    return False


@compiled
def expand(
    problem: Problem, r: int, layer: Nodes, first: int, last: int, out: Nodes, count: int,
    best: IntArray, best_start: IntArray, most: int,
) -> tuple[int, int, int, bool]:  # fmt: skip
    """Append to ``out`` what nodes ``first`` .. ``last`` of ``layer`` can be after round r.

    All multisets of requests that fit beside what runs until they end are started. Complete
    schedules better than ``best[0]`` replace it and ``best_start``.

    Returns
    -------
    next : int
        The node to go on with; ``last`` when done, earlier if ``most`` nodes have been made.
    count : int
        Nodes in ``out``.
    made : int
        Nodes looked at.
    fits : bool
        If not, there was no room for what comes of the next node, and nothing of it is in ``out``.
    """
    requests, longest = problem.kv.shape
    free = np.empty((requests + 1, longest), np.int64)
    arrived = np.empty(requests, np.int64)
    chosen = np.empty(requests, np.int64)
    past = np.empty(longest, np.int64)
    made = 0
    in_horizon = r < problem.memory.size  # if not, only latencies bound
    memory = problem.memory[r] if in_horizon else 0
    for at in range(first, last):
        if made >= most:
            return at, count, made, True
        if layer.bound[at] > (best[0] - 1) << UNIT_BITS:
            continue
        if improvable(problem, r - 1, layer, at, past):
            continue
        begin = count
        free[0, :] = problem.capacity
        # Terms that all children share: memory in this round, ends and charges of what ends, and
        # the prices of all that does not.
        parent_priced = layer.priced[at] - memory * problem.capacity
        parent_prices, parent_key, parent_soonest = 0, 0, 0
        running, everyone, candidates = False, True, 0
        for j in range(requests):
            start = layer.start[at, j]
            if start < 0:
                if problem.release[j] < r:
                    arrived[candidates] = j
                    candidates += 1
                else:
                    everyone = False
                parent_prices += cost_of_waiting(problem, j, r)
                parent_soonest += soonest_latency(problem, j, r + 1)
                continue
            end, age = start + problem.output[j], r - 1 - start
            if end < r:
                continue
            running = True
            for later in range(end - r + 1):
                free[0, later] -= problem.kv[j, age + later]
            size = problem.prompt[j] + age
            if size > problem.threshold:
                parent_priced += memory * problem.kv[j, age]
            if end == r:
                parent_priced += problem.charge[j, end] if in_horizon else 0
                continue
            parent_prices += cost_of_end(problem, j, end)
            if size > problem.threshold:
                parent_key += problem.mark[size]
        # Depth first over the sets of requests to start; with none to start, none running and none
        # to come, all that follows could be a round earlier.
        depth, position = 0, 0
        new = running or not everyone
        while True:
            if new:
                made += 1
                latency, priced, prices = layer.latency[at], parent_priced, parent_prices
                key, soonest, left = parent_key, parent_soonest, layer.waiting[at]
                for d in range(depth):
                    j = arrived[chosen[d]]
                    left ^= np.int64(1) << j
                    end = r - 1 + problem.output[j]
                    latency += end - problem.release[j]
                    prices -= cost_of_waiting(problem, j, r)
                    soonest -= soonest_latency(problem, j, r + 1)
                    above = problem.prompt[j] > problem.threshold
                    if above:
                        priced += memory * problem.kv[j, 0]
                    if end == r:
                        priced += problem.charge[j, end] if in_horizon else 0
                        continue
                    prices += cost_of_end(problem, j, end)
                    if above:
                        key += problem.mark[problem.prompt[j]]
                if latency < best[0] and left == 0:
                    best[0] = latency
                    best_start[:] = layer.start[at, :]
                    for d in range(depth):
                        best_start[arrived[chosen[d]]] = r - 1
                elif latency + soonest < best[0]:
                    bound = (latency + soonest) << UNIT_BITS
                    if in_horizon:
                        worth = problem.worth[r, state_of(problem, key)]
                        bound = max(bound, priced + prices - worth)
                    if bound <= (best[0] - 1) << UNIT_BITS:
                        if count == out.waiting.size:
                            return at, begin, made, False
                        out.waiting[count] = left
                        out.latency[count] = latency
                        out.priced[count] = priced
                        out.bound[count] = bound
                        out.start[count, :] = layer.start[at, :]
                        for d in range(depth):
                            out.start[count, arrived[chosen[d]]] = r - 1
                        count += 1
            new = False
            if position == candidates:
                if depth == 0:
                    break
                depth -= 1
                position = chosen[depth] + 1
                continue
            j = arrived[position]
            before = arrived[position - 1] if position else j
            taken = depth > 0 and chosen[depth - 1] == position - 1
            # Of equal requests the first starts first.
            if position == 0 or taken or problem.kind[before] != problem.kind[j]:
                output = problem.output[j]
                new = True
                for later in range(output):
                    free[depth + 1, later] = free[depth, later] - problem.kv[j, later]
                    if free[depth + 1, later] < 0:
                        new = False
                        break
                if new:
                    free[depth + 1, output:] = free[depth, output:]
                    chosen[depth] = position
                    depth += 1
            position += 1
    return last, count, made, True


@compiled
def hold(problem: Problem, r: int, nodes: Nodes, at: int, held: IntArray) -> int:
    """KV that a node's running requests hold in the rounds after r, into ``held``; its sum."""
    total = 0
    held[:] = 0
    for j in range(problem.output.size):
        start = nodes.start[at, j]
        if start < 0:
            continue
        age = r - start
        for later in range(problem.output[j] - age):
            held[later] += problem.kv[j, age + later]
            total += problem.kv[j, age + later]
    return total


@compiled
def hold_in_sum(problem: Problem, r: int, nodes: Nodes, first: int, sums: IntArray) -> None:
    """Sums of :func:`hold` of the nodes from ``first`` on."""
    held = np.empty(problem.kv.shape[1], np.int64)
    for n in range(sums.size):
        sums[n] = hold(problem, r, nodes, first + n, held)


@compiled
def keep_undominated(
    problem: Problem, r: int, nodes: Nodes, order: IntArray, first: int, last: int, keep: BoolArray,
    size: int, profiles: IntArray, best: IntArray,
) -> int:  # fmt: skip
    """Mark in ``keep`` the nodes ``order[first:last]`` that no earlier one makes superfluous.

    Parameters
    ----------
    order : int array
        Nodes by what waits, then by latency.
    size : int
        How many ``profiles`` there are of nodes before with the same requests waiting.
    profiles : int array, shape ``(room, longest output)``
        Once full, later nodes are only compared with those in it.

    Returns
    -------
    int
        ``size`` for the next call.
    """
    bar = (best[0] - 1) << UNIT_BITS
    longest = profiles.shape[1]
    for n in range(first, last):
        at = order[n]
        keep[at] = False
        if n > 0 and nodes.waiting[at] != nodes.waiting[order[n - 1]]:
            size = 0
        if nodes.bound[at] > bar:
            continue
        here = min(size, profiles.shape[0] - 1)
        hold(problem, r, nodes, at, profiles[here])
        dominated = False
        for other in range(here):
            later = 0
            while later < longest and profiles[other, later] <= profiles[here, later]:
                later += 1
            if later == longest:
                dominated = True
                break
        if not dominated:
            keep[at] = True
            size = here + 1
    return size
