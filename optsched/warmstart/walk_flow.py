"""The closed walks that serve all requests at the least cost, as a linear program in unit moves.

A content is the multiset of requests that hold KV, by the kind of their last token event. A batch
is a chain of unit moves on it: evictions, then decodes by descending kind (so that nothing decodes
twice), then fills; what is on the way never holds more than what is reached. Nodes are contents
before evictions, before the decodes of a kind and before fills; the flow on a move is how often
walks take it, and every event is made as often as there are requests (bounds, B4).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optsched.instance import Instance
from optsched.model.milp import Milp, block
from optsched.solvers.lp import solve_lp
from optsched.warmstart.beam_kinds import Kinds

Content = tuple[int, ...]
Node = tuple[int, Content]  # phase, content; the phases are below and kinds k as k
EVICT, FILL = -2, -1


@dataclass(frozen=True, kw_only=True)
class Move:
    """A unit move. ``event`` is the kind whose next token it makes, -1 for none; ``kind`` is the
    last event of the one that is evicted or decoded, -1 for none; ``flow`` its optimal number."""

    head: Node
    event: int
    kind: int
    cost_s: float
    flow: float = 0.0


Moves = dict[Node, list[Move]]


def contents(kinds: Kinds, most: int) -> list[Content] | None:
    """All multisets of events that fit in memory, ascending; None if there are more than ``most``.

    An event is named by its kind before it.
    """
    found: list[Content] = []
    pending: list[tuple[Content, int]] = [((), kinds.capacity)]
    while pending:
        content, free = pending.pop()
        found.append(content)
        if len(found) + len(pending) > most:
            return None
        for kind in range(content[-1] if content else 0, kinds.none):
            if kinds.after[kind] > free:
                break
            pending.append(((*content, kind), free - int(kinds.after[kind])))
    return found


def optimal_moves(instance: Instance, kinds: Kinds, most_contents: int) -> Moves | None:
    """All moves with their flows, and what they cost beyond the prices of the optimum.

    Limits other than on KV are left out of account.

    Returns
    -------
    dict of list of Move, or None
        By the node that they leave; ``cost_s`` is the reduced cost. None if there are too many
        contents or the program was not solved.
    """
    every = contents(kinds, most_contents)
    if every is None:
        return None
    fixed_s, token_s = kinds.line
    following = kinds.next.tolist()
    fits = set(every)
    tails: list[Node] = []
    moves: list[Move] = []

    def add(tail: Node, head: Node, cost_s: float = 0.0, event: int = -1, kind: int = -1) -> None:
        tails.append(tail)
        moves.append(Move(head=head, event=event, kind=kind, cost_s=cost_s))

    for content in every:
        distinct = sorted(set(content), reverse=True)
        layers: list[Node] = [(kind, content) for kind in distinct] + [(FILL, content)]
        add((EVICT, content), layers[0])
        for kind, layer, below in zip(distinct, layers[:-1], layers[1:], strict=True):
            rest = _without(content, kind)
            add((EVICT, content), (EVICT, rest), kind=kind)
            add(layer, below)
            event = following[kind]
            cost_s = kinds.fill_s[kind] + token_s * float(kinds.fill_tokens[kind])
            add((FILL, rest), (FILL, content), cost_s, event=kind)
            moved = tuple(sorted((*rest, event)))
            if event < kinds.none and moved in fits:
                lower = [other for other in set(moved) if other <= kind]
                add(
                    layer, (max(lower, default=FILL), moved), token_s + kinds.decode_s[event],
                    event=event, kind=kind,
                )  # fmt: skip
        stay = tuple(kind for kind in content if following[kind] < kinds.none)
        add((FILL, content), (EVICT, stay), fixed_s)
    return _solved(instance, kinds, tails, moves)


def _solved(
    instance: Instance, kinds: Kinds, tails: list[Node], moves: list[Move]
) -> Moves | None:  # fmt: skip
    number: dict[Node, int] = {}
    tail = np.array([number.setdefault(node, len(number)) for node in tails])
    head = np.array([number.setdefault(move.head, len(number)) for move in moves])
    event = np.array([move.event for move in moves])
    cost = np.array([move.cost_s for move in moves])
    makes, columns = np.flatnonzero(event >= 0), np.arange(len(moves))
    demand = _requests_per_event(kinds) / len(instance)
    side = np.concatenate((np.zeros(len(number)), demand))
    row = np.concatenate((tail, head, len(number) + event[makes]))
    column = np.concatenate((columns, columns, makes))
    entry = np.concatenate((np.ones(len(moves)), -np.ones(len(moves)), np.ones(makes.size)))
    solution = solve_lp(
        Milp(
            name="walks", cost=cost, offset=0.0, lower=np.zeros(len(moves)),
            upper=np.full(len(moves), np.inf), integer=np.zeros(len(moves), dtype=np.bool_),
            column_names=tuple(f"x{j}" for j in range(len(moves))),
            blocks=(block("walks", row, column, entry, side, side),),
        )
    )  # fmt: skip
    if solution.point is None or solution.row_duals is None:
        return None
    duals = solution.row_duals
    reduced = cost - duals[tail] + duals[head]
    reduced[makes] -= duals[len(number) + event[makes]]
    found: Moves = {}
    for node, move, flow, cost_s in zip(
        tails, moves, (solution.point * len(instance)).tolist(), reduced.tolist(), strict=True
    ):
        found.setdefault(node, []).append(
            Move(head=move.head, event=move.event, kind=move.kind, cost_s=cost_s, flow=flow)
        )
    return found


def _requests_per_event(kinds: Kinds) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    requests = np.zeros(kinds.none)
    for start, own in enumerate(kinds.members):
        kind = start
        while own and kind < kinds.none:
            requests[kind] += len(own)
            kind = int(kinds.next[kind])
    return requests


def _without(content: Content, kind: int) -> Content:
    place = content.index(kind)
    return content[:place] + content[place + 1 :]
