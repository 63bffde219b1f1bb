"""Network formulation: integer flows of request types through a time-expanded network.

Requests that are equal in all that matters are one type, and what matters of them is how many are
at each stage; the flow is peeled into named requests only at the end. Between ``least`` and
``most`` batches are used: offline y_j = 1 for j <= least, and with least = most the number of
batches is fixed. The per-type network matrix is totally unimodular; only the rows that couple the
types and requests of a batch (memory, tokens) are not, which is what the rounding and hull rows
repair.

Instances without calls; nothing is swapped. With arrivals batches are placed between them, see
:mod:`optsched.model.network_slots`; what other objectives than the makespan need is in
:mod:`optsched.model.network_clock`. Without ``chunking`` every fill takes one
batch. With it, requests may be partially filled after a batch, see
:mod:`optsched.model.partial_fills`; then there are two programs:

- *priced* chunks: every point is a schedule, which takes at most the program's value, and exactly
  that unless a partial fill pauses or evictions make its attention not telescope;
- *free* chunks, on :func:`optsched.model.scope.chunk_relaxation`: a bound on every schedule.

Where :func:`optsched.model.scope.chunking_is_exact` holds, the first is both.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from optsched.errors import InfeasibleError, UnsupportedError, require
from optsched.instance import Instance, require_feasible
from optsched.model.network_arcs import Arcs, network_arcs
from optsched.model.network_clock import Clock, clock_columns
from optsched.model.network_columns import Allocation, Columns
from optsched.model.network_decode import decode
from optsched.model.network_encode import encode
from optsched.model.network_nodes import Nodes, network_nodes
from optsched.model.network_slots import Slots, network_slots
from optsched.model.partial_fills import PartialFills, no_partial_fills, partial_fills
from optsched.model.scope import chunk_relaxation, relaxation_is_valid
from optsched.model.types import RequestType, request_types
from optsched.objective import Objective
from optsched.schedule import Schedule

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

POLICIES = frozenset(
    {"no-evict", "no-chunk", "no-hybrid", "no-hold", "no-swap", "fcfs", "nonpreemptive"}
)
_NO_CONDITIONS: Mapping[Objective, float] = MappingProxyType({})


class NetworkVariables:
    """Columns of the network formulation and their meaning.

    Parameters
    ----------
    instance : Instance
        Without calls.
    least, most : int
        The schedule has between ``least`` and ``most`` batches.
    most_late : int or None
        With arrivals, the most batches that start at or after the last one; ``most`` if not given.
    chunking : bool
        Whether fills may be split over batches (one-partial-fill arcs).
    free_chunks : bool
        Whether chunks beyond the first of a fill cost nothing, and the last token of a refill
        may be a chunk of its own at the price of a prefill token. For bounds; see
        :func:`bounding_variables`.
    policies : collection of str
        Of ``no-evict``, ``no-chunk``, ``no-hybrid``, ``no-hold``, ``no-swap``, ``fcfs``,
        ``nonpreemptive``.
    objective : Objective
        What the program minimises: seconds, or the weight that goodput misses.
    at_most : mapping
        Conditions: the value of each objective is at most (goodput: at least) this.

    Attributes
    ----------
    types, nodes, arcs
        The network; arc number = column number.
    partials : PartialFills
        Columns of partial fills; none without ``chunking``.
    groups : tuple of Columns
        All columns but those of the arcs, with bounds and names.
    columns : int
        How many there are with the arcs.
    slots : Slots
        Where batches can be; offline slot j is batch j.
    used : int array, shape ``(slots,)``
        Columns y_j, 1 if batch j is used.
    excess : int array, shape ``(slots,)`` or ``(0,)``
        Columns of the batch time above the flattest piece, in microseconds; only for several
        pieces.
    any_decode, any_prefill : int arrays, shape ``(slots,)`` or ``(0,)``
        Columns that are 1 if batch j has a decode (prefill) step; only where d0 (p0) or
        ``no-hybrid`` need them.
    clock : Clock
        Columns of arrivals and objectives.

    Raises
    ------
    UnsupportedError
        Calls, host memory without ``no-swap``, an unknown policy, or ``chunking`` under
        ``no-chunk``, ``no-hold`` or ``nonpreemptive``, with arrivals, or with an objective other
        than makespan and max latency.
    InfeasibleError
        A request cannot run alone, or not in ``most`` batches.
    """

    def __init__(
        self,
        instance: Instance,
        *,
        least: int,
        most: int,
        most_late: int | None = None,
        chunking: bool = False,
        free_chunks: bool = False,
        policies: Collection[str] = (),
        objective: Objective = Objective.MAKESPAN,
        at_most: Mapping[Objective, float] = _NO_CONDITIONS,
    ) -> None:
        require(1 <= least <= most, "batches", (least, most), "1 <= least <= most")
        objectives = {objective, *at_most}
        _require_supported(instance, chunking, policies, objectives)
        require_feasible(instance, policies if chunking else {*policies, "no-chunk"})
        self.instance, self.least, self.most = instance, least, most
        self.chunking, self.free_chunks = chunking, free_chunks
        self.policies = frozenset(policies)
        self.objective, self.at_most = objective, dict(at_most)
        limits, last = instance.limits, float(instance.release_s.max())
        self.types: tuple[RequestType, ...] = request_types(
            instance,
            arrivals=_arrivals_matter(objectives, policies),
            objectives=Objective.GOODPUT in objectives,
        )
        for kind in self.types:
            chain = -(-kind.prompt_tokens // limits.fill_tokens) + kind.output_tokens - 1
            room = most_late if most_late and kind.releases_s[-1] == last else most
            if chain > room:
                raise InfeasibleError(
                    f"a request of {kind.prompt_tokens} prompt and {kind.output_tokens} output "
                    f"tokens needs {chain} batches, the horizon has {room}",
                    hint="raise the horizon: it must be at least the longest chain",
                )
        kept = set(policies)
        if "nonpreemptive" in kept:
            kept |= {"no-evict", "no-hold"}
        evict = "no-evict" not in kept
        self.slots: Slots = network_slots(instance, self.types, most, most_late or most)
        self.nodes: Nodes = network_nodes(self.types, self.slots, limits.fill_tokens, evict=evict)
        self.arcs: Arcs = network_arcs(
            instance, self.types, self.nodes, policies=kept, chunking=chunking,
            idle_slots=self.slots.levels > 1,
        )  # fmt: skip
        batches, cost, hybrid = self.slots.count, instance.cost, "no-hybrid" not in policies
        new = Allocation(len(self.arcs))

        def column_per_batch(label: str, needed: bool) -> IntArray:
            return new.add(label, batches if needed else 0, upper=1.0, integer=True).numbers

        self.used = column_per_batch("used", True)
        self.excess = new.add("excess_us", batches if len(cost.pieces) > 1 else 0).numbers
        self.any_decode = column_per_batch("any_decode", bool(cost.d0) or not hybrid)
        self.any_prefill = column_per_batch("any_prefill", bool(cost.p0) or not hybrid)
        self.partials: PartialFills = (
            partial_fills(self.arcs, new, last_token_alone=free_chunks)
            if chunking
            else no_partial_fills()
        )
        self.clock: Clock = clock_columns(
            instance, self.types, self.slots, new, objectives=objectives, policies=policies
        )
        self.groups: tuple[Columns, ...] = tuple(new.groups)
        self.columns: int = new.next

    def encode(self, schedule: Schedule) -> FloatArray:
        """The point of a schedule, shape ``(columns,)``; see :mod:`.network_encode`."""
        return encode(self, schedule)

    def decode(self, point: FloatArray) -> Schedule:
        """The schedule of a point; see :mod:`.network_decode`."""
        return decode(self, point)

    def batch_sum(
        self, of_arcs: IntArray, *, of_partials: bool = False
    ) -> tuple[IntArray, IntArray, FloatArray]:
        """Entries (row = j - 1, column, value) of sum over the arcs of batch j of ``of_arcs``.

        ``of_partials`` adds f_j - f_(j-1), the tokens that partial fills gain in batch j.
        """
        at = np.flatnonzero(of_arcs)
        rows, columns = self.arcs.batch[at] - 1, at
        values = of_arcs[at].astype(np.float64)
        if of_partials and len(self.partials):
            gained = self.partials.gained(self.slots.count)
            rows, columns, values = (
                np.concatenate(pair) for pair in zip((rows, columns, values), gained, strict=True)
            )
        return rows, columns, values


def estimated_columns(
    instance: Instance,
    batches: int,
    *,
    policies: Collection[str] = (),
    objective: Objective = Objective.MAKESPAN,
    at_most: Mapping[Objective, float] = _NO_CONDITIONS,
) -> int:
    """About how many columns a program of at most so many batches has, without building it.

    Fill, decode, hold and wait or evict for every type, number of generated tokens and slot; two
    columns per request and slot for each mean.
    """
    objectives = {objective, *at_most}
    types = request_types(
        instance,
        arrivals=_arrivals_matter(objectives, policies),
        objectives=Objective.GOODPUT in objectives,
    )
    means = len(objectives & {Objective.MEAN_LATENCY, Objective.MEAN_TTFT})
    per_slot = 4 * sum(kind.output_tokens for kind in types) + 2 * means * len(instance)
    return network_slots(instance, types, batches, batches).count * per_slot


def bounding_variables(
    instance: Instance, *, least: int, most: int, policies: Collection[str] = ()
) -> NetworkVariables:
    """Variables of the program that bounds every schedule, chunked or not.

    On :func:`optsched.model.scope.chunk_relaxation`, with free chunks, and without the policies
    that the exchange of partial fills does not keep. A schedule decoded from a point has to be
    checked and timed again on ``instance``.

    Raises
    ------
    UnsupportedError
        :func:`optsched.model.scope.relaxation_is_valid` says no, or as
        :class:`NetworkVariables`.
    """
    valid = relaxation_is_valid(instance, policies)
    if not valid.holds:
        raise UnsupportedError(
            f"the chunked network program is no bound here: {valid.reason}",
            hint="use the compact formulation",
        )
    dropped = {"no-hold", "no-chunk", "nonpreemptive"}
    kept = {policy for policy in policies if policy not in dropped}
    return NetworkVariables(
        chunk_relaxation(instance), least=least, most=most, chunking=True, free_chunks=True,
        policies=kept,
    )  # fmt: skip


def _arrivals_matter(objectives: Collection[Objective], policies: Collection[str]) -> bool:
    """Whether requests that are equal but for their arrivals have to be told apart.

    Otherwise they are interchangeable once they have arrived: whoever's first fill is the k-th may
    be called the k-th to arrive, and neither ends nor first tokens change. Not so if it matters
    which end or first token goes with which arrival.
    """
    named = {Objective.MAX_LATENCY, Objective.GOODPUT}
    return bool(named & set(objectives)) or "fcfs" in policies


def _require_supported(
    instance: Instance,
    chunking: bool,
    policies: Collection[str],
    objectives: Collection[Objective],
) -> None:
    if instance.has_calls:
        raise UnsupportedError("the network formulation covers requests without calls")
    if instance.limits.host_kv_tokens and "no-swap" not in policies:
        raise UnsupportedError(
            f"the network formulation does not swap, and limits.host_kv_tokens = "
            f"{instance.limits.host_kv_tokens} allows it",
            hint="add policy no-swap",
        )
    unknown = sorted(set(policies) - POLICIES)
    if unknown:
        raise UnsupportedError(
            f"the network formulation does not cover policy {unknown[0]!r}",
            hint=f"it covers {', '.join(sorted(POLICIES))}",
        )
    if chunking:
        others = sorted(set(objectives) - {Objective.MAKESPAN, Objective.MAX_LATENCY})
        if others or not instance.offline:
            what = f"for {others[0].value}" if others else "with arrivals"
            raise UnsupportedError(
                f"the network formulation cannot chunk {what}: it does not say when in a fill "
                "its chunks are processed",
                hint="build it with chunking=False, or use the compact formulation",
            )
        for policy in ("no-chunk", "no-hold", "nonpreemptive"):
            if policy in policies:
                raise UnsupportedError(
                    f"the network formulation cannot chunk under policy {policy!r}",
                    hint="build it with chunking=False, or use the compact formulation",
                )
