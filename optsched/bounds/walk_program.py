"""The linear program of closed walks over memory contents, in unit moves.

Nodes are contents before evictions, contents before the decodes of one kind, and contents before
fills; columns are unit moves between them per copy of the workload, ``exact_walks`` says which.
Rows: balance at every node, and every event as often as the workload has it. The duals are the
potentials and prices of a bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optsched.bounds.exact_walks import WalkGround
from optsched.bounds.walk_states import WalkStates
from optsched.model.milp import Milp, block

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Arcs:
    """Columns: nodes, cost in units, covered row (-1 for none), and how often."""

    tail: IntArray
    head: IntArray
    cost: FloatArray
    covers: IntArray
    often: FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class WalkProgram:
    """``milp`` in seconds per request; its rows are the nodes (contents before evictions first),
    then the first events per kind, the later ones, and the free pages."""

    milp: Milp
    contents: int
    nodes: int
    kinds: int

    def prices(self, duals: FloatArray) -> tuple[FloatArray, FloatArray, float, FloatArray]:
        """Prices of first and later events and of a free page, and potentials, in seconds."""
        first = duals[self.nodes : self.nodes + self.kinds]
        later = duals[self.nodes + self.kinds : self.nodes + 2 * self.kinds]
        potentials = duals[0] - duals[: self.contents]
        return first, np.maximum(later, 0.0), max(float(duals[-1]), 0.0), potentials


def walk_program(states: WalkStates, ground: WalkGround, unit_bits: int) -> WalkProgram:
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
    has_later = np.array([kind.later > 0 for kind in ground.kinds])
    arcs = [
        _arcs(move.source, move.target),
        _arcs(np.arange(n), entry),
        _advances(states, n, fills, lower),
        _arcs(
            n + np.arange(layers), lower, often=states.copies.astype(np.float64),
            covers=np.where(has_later[move.kind], kinds + move.kind, -1),
        ),
        _fills(states, ground, fills, later=False),
        _fills(states, ground, fills, later=True),
        _arcs(
            np.arange(fills, fills + n), np.arange(n), cost=np.full(n, float(ground.batch)),
            covers=np.full(n, 2 * kinds), often=states.free.astype(np.float64),
        ),
    ]  # fmt: skip
    return WalkProgram(
        milp=_program(arcs, ground, fills + n, unit_bits), contents=n, nodes=fills + n, kinds=kinds
    )


def _arcs(
    tail: IntArray, head: IntArray, *, cost: FloatArray | None = None,
    covers: IntArray | None = None, often: FloatArray | None = None,
) -> _Arcs:  # fmt: skip
    return _Arcs(
        tail=tail, head=head,
        cost=np.zeros(tail.size) if cost is None else cost,
        covers=np.full(tail.size, -1) if covers is None else covers,
        often=np.ones(tail.size) if often is None else often,
    )  # fmt: skip


def _advances(states: WalkStates, n: int, fills: int, lower: IntArray) -> _Arcs:
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


def _fills(states: WalkStates, ground: WalkGround, fills: int, *, later: bool) -> _Arcs:
    """Fills to the first or a later stage of a class."""
    move, kinds = states.removals, ground.kinds
    has = np.array([kind.later > 0 or not later for kind in kinds])
    price = np.array([kind.refill_later if later else kind.refill for kind in kinds])
    some = np.flatnonzero(has[move.kind])
    kind = move.kind[some]
    return _arcs(
        fills + move.target[some], fills + move.source[some], cost=price[kind].astype(np.float64),
        covers=kind + (len(kinds) if later else 0),
    )  # fmt: skip


def _program(arcs: list[_Arcs], ground: WalkGround, nodes: int, unit_bits: int) -> Milp:
    tail, head = (np.concatenate([getattr(a, name) for a in arcs]) for name in ("tail", "head"))
    covers, often = (
        np.concatenate([getattr(a, name) for a in arcs]) for name in ("covers", "often")
    )
    cost = np.concatenate([a.cost for a in arcs]) / 2.0**unit_bits
    columns = np.arange(tail.size)
    paid = np.flatnonzero((covers >= 0) & (often > 0))
    requests = sum(kind.requests for kind in ground.kinds)
    demand = np.array(
        [kind.requests for kind in ground.kinds] + [kind.later for kind in ground.kinds]
        + [ground.surplus], dtype=np.float64,
    ) / requests  # fmt: skip
    kinds = len(ground.kinds)
    rows = nodes + 2 * kinds + 1
    lower, upper = np.zeros(rows), np.zeros(rows)
    lower[nodes:], upper[nodes:] = demand, np.inf
    upper[nodes : nodes + kinds] = demand[:kinds]
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
                np.concatenate((tail, head, nodes + covers[paid])),
                np.concatenate((columns, columns, paid)),
                np.concatenate((np.ones(tail.size), -np.ones(tail.size), often[paid])),
                lower, upper,
            ),
        ),
    )  # fmt: skip
