"""The linear program of closed walks over memory contents, in unit moves.

Nodes are contents before evictions, contents before the decodes of one kind, and contents before
fills; columns are unit moves between them per copy of the workload, ``exact_walks`` says which.
Rows: balance at every node, and every event as often as the workload has it. The duals are the
potentials and prices of a bound. What batches leave free flows through further nodes, one per
number of free pages, on columns that each take the pages of a small stage.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optsched.bounds.walk_ground import WalkGround
from optsched.model.milp import Milp, block
from optsched.walks.contents import Contents

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Arcs:
    """Columns: nodes (-1 for outside), cost in units, covered row (-1 for none), and
    the node of free pages that a unit enters (-1 for none)."""

    tail: IntArray
    head: IntArray
    cost: FloatArray
    covers: IntArray
    frees: IntArray


@dataclass(frozen=True, kw_only=True, eq=False)
class WalkDuals:
    """Prices of events per kind and per small stage, and potentials of contents, in seconds."""

    events: FloatArray
    small: FloatArray
    potentials: FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class WalkProgram:
    """``milp`` in seconds per request; its rows are the nodes (contents before evictions first),
    then the events per kind and those of small stages."""

    milp: Milp
    contents: int
    nodes: int
    kinds: int

    def duals(self, rows: FloatArray) -> WalkDuals:
        """The row duals by what they price."""
        events, small = np.split(rows[self.nodes :], [self.kinds])
        return WalkDuals(
            events=events, small=np.maximum(small, 0.0),
            potentials=rows[0] - rows[: self.contents],
        )  # fmt: skip


def walk_program(states: Contents, ground: WalkGround, unit_bits: int) -> WalkProgram:
    """The program for one request on average."""
    kinds, n = len(ground.kinds), states.contents
    move = states.removals
    layers = move.source.size
    fills = n + layers
    # The decodes of a content start at its largest kind; removals are sorted by content and kind.
    entry = np.arange(fills, fills + n)
    entry[move.source] = n + np.arange(layers)
    lower = np.where(
        np.concatenate(([False], move.source[1:] == move.source[:-1])), n + np.arange(layers) - 1,
        fills + move.source,
    )  # fmt: skip
    refill = np.array([kind.refill[0] for kind in ground.kinds], dtype=np.float64)
    arcs = [
        _arcs(move.source, move.target),
        _arcs(np.arange(n), entry),
        _advances(states, n, lower),
        _arcs(n + np.arange(layers), lower),
        _arcs(
            fills + move.target, fills + move.source, cost=refill[move.kind], covers=move.kind
        ),
        _arcs(
            np.arange(fills, fills + n), np.arange(n), cost=np.full(n, float(ground.batch)),
            frees=fills + n + states.free,
        ),
        *_free_pages(ground, fills + n),
    ]  # fmt: skip
    nodes = fills + n + ground.cap + 1
    return WalkProgram(
        milp=_program(arcs, ground, nodes, unit_bits), contents=n, nodes=nodes, kinds=kinds
    )


def _arcs(
    tail: IntArray, head: IntArray, *, cost: FloatArray | None = None,
    covers: IntArray | None = None, frees: IntArray | None = None,
) -> _Arcs:  # fmt: skip
    return _Arcs(
        tail=tail, head=head,
        cost=np.zeros(tail.size) if cost is None else cost,
        covers=np.full(tail.size, -1) if covers is None else covers,
        frees=np.full(tail.size, -1) if frees is None else frees,
    )  # fmt: skip


def _advances(states: Contents, n: int, lower: IntArray) -> _Arcs:
    """Decodes that move an item on to the next kind; then more of the same kind, or lower ones."""
    removal, advance = states.removals, states.advances
    kinds = states.moves_on.size
    # A content and a kind in it as one number: ascending over removals.
    layer = removal.source * kinds + removal.kind
    tail = np.searchsorted(layer, advance.source * kinds + advance.kind)
    after = np.searchsorted(layer, advance.target * kinds + advance.kind)
    more = layer[after] == advance.target * kinds + advance.kind
    # Without further items of the kind ``after`` is the layer of the next kind.
    head = np.where(more, n + after, lower[after])
    return _arcs(n + tail, head, covers=advance.kind + 1)


def _free_pages(ground: WalkGround, start: int) -> list[_Arcs]:
    """Small stages out of free pages; the rest leaves at the node of 0."""
    moves = [_arcs(np.array([start]), np.array([-1]))]
    items = [(pages, len(ground.kinds) + k) for k, (pages, _) in enumerate(ground.small)]
    for pages, covered in [*items, (1, -1)]:
        free = np.arange(pages, ground.cap + 1)
        moves.append(_arcs(start + free, start + free - pages, covers=np.full(free.size, covered)))
    return moves


def _program(arcs: list[_Arcs], ground: WalkGround, nodes: int, unit_bits: int) -> Milp:
    tail, head = (np.concatenate([getattr(a, name) for a in arcs]) for name in ("tail", "head"))
    covers = np.concatenate([a.covers for a in arcs])
    cost = np.concatenate([a.cost for a in arcs]) / 2.0**unit_bits
    columns = np.arange(tail.size)
    frees = np.concatenate([a.frees for a in arcs])
    paid, leaving = np.flatnonzero(covers >= 0), np.flatnonzero(frees >= 0)
    inside = np.flatnonzero(head >= 0)
    requests = sum(kind.requests for kind in ground.kinds)
    counts = [kind.requests for kind in ground.kinds] + [count for _, count in ground.small]
    demand = np.array(counts, dtype=np.float64) / requests
    lower = np.concatenate((np.zeros(nodes), demand))
    upper = lower.copy()
    upper[nodes + len(ground.kinds) :] = np.inf
    return Milp(
        name="closed-walks",
        cost=cost,
        offset=0.0,
        lower=np.zeros(tail.size),
        upper=np.full(tail.size, np.inf),
        integer=np.zeros(tail.size, dtype=np.bool_),
        column_names=tuple(f"x{j}" for j in range(tail.size)),
        blocks=(
            block(
                "walks",
                np.concatenate((tail, head[inside], nodes + covers[paid], frees[leaving])),
                np.concatenate((columns, columns[inside], paid, leaving)),
                np.concatenate((
                    np.ones(tail.size), -np.ones(inside.size), np.ones(paid.size),
                    -np.ones(leaving.size),
                )),
                lower, upper,
            ),
        ),
    )  # fmt: skip
