"""Network formulation: integer flows of request types through a time-expanded network.

Requests of equal (I, O) are one type, and what matters of them is how many are at each stage; the
flow is peeled into named requests only at the end. Between ``least`` and ``most`` batches are
used: y_j = 1 for j <= least, and with least = most the number of batches is fixed. The per-type
network matrix is totally unimodular; only the rows that couple the types and requests of a batch
(memory, tokens) are not, which is what the rounding and hull rows repair.

Offline instances without calls; nothing is swapped. Without ``chunking`` every fill takes
one batch. With it, requests may be partially filled after a batch, see
:mod:`optsched.model.partial_fills`; then there are two programs:

- *priced* chunks: every point is a schedule, which takes at most the program's value, and exactly
  that unless a partial fill pauses or evictions make its attention not telescope;
- *free* chunks, on :func:`optsched.model.scope.chunk_relaxation`: a bound on every schedule.

Where :func:`optsched.model.scope.chunking_is_exact` holds, the first is both.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from optsched.errors import InfeasibleError, UnsupportedError, require
from optsched.instance import Instance, require_feasible
from optsched.model.network_arcs import Arcs, network_arcs
from optsched.model.network_decode import decode
from optsched.model.network_encode import encode
from optsched.model.network_nodes import Nodes, network_nodes
from optsched.model.partial_fills import PartialFills, no_partial_fills, partial_fills
from optsched.model.scope import chunk_relaxation, relaxation_is_valid
from optsched.model.types import RequestType, request_types
from optsched.schedule import Schedule

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

POLICIES = frozenset({"no-evict", "no-chunk", "no-hybrid", "no-hold", "no-swap"})


class NetworkVariables:
    """Columns of the network formulation and their meaning.

    Parameters
    ----------
    instance : Instance
        Offline, without calls.
    least, most : int
        The schedule has between ``least`` and ``most`` batches; the first ``least`` are used.
    chunking : bool
        Whether fills may be split over batches (one-partial-fill arcs).
    free_chunks : bool
        Whether chunks beyond the first of a fill cost nothing, and the last token of a refill
        may be a chunk of its own at the price of a prefill token. For bounds; see
        :func:`bounding_variables`.
    policies : collection of str
        Of ``no-evict``, ``no-chunk``, ``no-hybrid``, ``no-hold``, ``no-swap``.

    Attributes
    ----------
    types, nodes, arcs
        The network; arc number = column number.
    partials : PartialFills
        Columns of partial fills; none without ``chunking``.
    used : int array, shape ``(most,)``
        Columns y_j, 1 if batch j is used.
    excess : int array, shape ``(most,)`` or ``(0,)``
        Columns of the batch time above the flattest piece, in microseconds; only for several
        pieces.
    any_decode, any_prefill : int arrays, shape ``(most,)`` or ``(0,)``
        Columns that are 1 if batch j has a decode (prefill) step; only where d0 (p0) or
        ``no-hybrid`` need them.

    Raises
    ------
    UnsupportedError
        Arrivals, calls, host memory without ``no-swap``, an unknown policy, or ``chunking``
        under ``no-chunk`` or ``no-hold``.
    InfeasibleError
        A request cannot run alone, or not in ``most`` batches.
    """

    def __init__(
        self,
        instance: Instance,
        *,
        least: int,
        most: int,
        chunking: bool = False,
        free_chunks: bool = False,
        policies: Collection[str] = (),
    ) -> None:
        require(1 <= least <= most, "batches", (least, most), "1 <= least <= most")
        _require_supported(instance, chunking, policies)
        require_feasible(instance, policies if chunking else {*policies, "no-chunk"})
        self.instance, self.least, self.most = instance, least, most
        self.chunking, self.free_chunks = chunking, free_chunks
        self.policies = frozenset(policies)
        limits = instance.limits
        self.types: tuple[RequestType, ...] = request_types(instance)
        for kind in self.types:
            chain = -(-kind.prompt_tokens // limits.fill_tokens) + kind.output_tokens - 1
            if chain > most:
                raise InfeasibleError(
                    f"a request of {kind.prompt_tokens} prompt and {kind.output_tokens} output "
                    f"tokens needs {chain} batches, the horizon has {most}",
                    hint="raise the horizon: it must be at least the longest chain",
                )
        evict = "no-evict" not in policies
        self.nodes: Nodes = network_nodes(self.types, most, limits.fill_tokens, evict=evict)
        self.arcs: Arcs = network_arcs(
            instance, self.types, self.nodes, policies=policies, chunking=chunking
        )
        cost, hybrid = instance.cost, "no-hybrid" not in policies
        self._columns = len(self.arcs)
        self.used = self._new(most)
        self.excess = self._new(most if len(cost.pieces) > 1 else 0)
        self.any_decode = self._new(most if cost.d0 or not hybrid else 0)
        self.any_prefill = self._new(most if cost.p0 or not hybrid else 0)
        self.partials: PartialFills = (
            partial_fills(self.arcs, self._columns, last_token_alone=free_chunks)
            if chunking
            else no_partial_fills()
        )
        self._columns += 2 * len(self.partials)

    def _new(self, count: int) -> IntArray:
        first, self._columns = self._columns, self._columns + count
        return np.arange(first, self._columns, dtype=np.int64)

    @property
    def columns(self) -> int:
        """Number of columns."""
        return self._columns

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
            gained = self.partials.gained(self.most)
            rows, columns, values = (
                np.concatenate(pair) for pair in zip((rows, columns, values), gained, strict=True)
            )
        return rows, columns, values


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
    kept = {policy for policy in policies if policy not in ("no-hold", "no-chunk")}
    return NetworkVariables(
        chunk_relaxation(instance), least=least, most=most, chunking=True, free_chunks=True,
        policies=kept,
    )  # fmt: skip


def _require_supported(instance: Instance, chunking: bool, policies: Collection[str]) -> None:
    if not instance.offline or any(r.calls for r in instance.requests):
        raise UnsupportedError(
            "the network formulation covers offline requests without calls",
            hint="use the compact formulation",
        )
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
        for policy in ("no-chunk", "no-hold"):
            if policy in policies:
                raise UnsupportedError(
                    f"the network formulation cannot chunk under policy {policy!r}",
                    hint="build it with chunking=False, or use the compact formulation",
                )
