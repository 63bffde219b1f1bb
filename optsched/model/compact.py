"""The compact formulation's variables: schedules to points and back.

Per request and batch: integers s (tokens known), m (tokens cached), c (tokens processed) and
binaries for generating, decoding, prefilling, evicting; the CSP of InferMax ("Optimizing LLM
Inference for Database Systems: Cost-Aware Scheduling for Concurrent Requests") for the offline
makespan, with chunks of any size, hybrid batches, evictions, held KV, pages and several affine
pieces. Its rows are in ``optsched.constraints.compact``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from optsched.errors import InvalidInputError, UnsupportedError
from optsched.instance import Instance, require_feasible
from optsched.model.compact_batches import least_batches
from optsched.model.compact_columns import Columns, build_columns
from optsched.model.compact_values import actions, fill_point, values
from optsched.model.milp import FloatArray, IntArray
from optsched.schedule import Kind, Schedule, from_steps

POLICIES = ("no-evict", "no-chunk", "no-hybrid", "no-hold", "no-swap")


class CompactVariables:
    """Columns of the compact formulation for at most ``batches`` batches.

    Parameters
    ----------
    instance : Instance
        Offline, without calls and without swapping.
    batches : int
        Horizon; :func:`optsched.model.horizon.most_batches` gives one that loses no optimum.
    policies : sequence of str
        Any of ``no-evict``, ``no-chunk``, ``no-hybrid``, ``no-hold``, ``no-swap``.
    strengthened : bool
        Whether to add columns per number of generated tokens, whose rows make the linear
        relaxation much stronger and change no schedule and no price.

    Raises
    ------
    UnsupportedError
        Arrivals, calls, host memory (unless ``no-swap``), or another policy.
    InfeasibleError
        A request cannot run even alone.
    InvalidInputError
        Fewer batches than every schedule has.
    """

    def __init__(
        self,
        instance: Instance,
        batches: int,
        policies: Sequence[str] = (),
        *,
        strengthened: bool = True,
    ) -> None:
        _require_supported(instance, policies)
        require_feasible(instance, policies)
        least = least_batches(instance)
        if batches < least:
            raise InvalidInputError(
                f"batches: got {batches}, expected at least {least}, which every schedule has"
            )
        self.instance, self.batches, self.policies = instance, batches, tuple(policies)
        self.strengthened = strengthened
        self.columns: Columns = build_columns(instance, batches, policies, strengthened)

    def __getitem__(self, name: str) -> IntArray:
        """Column numbers, of the shape that ``build_columns`` tells; -1 where there is none."""
        return self.columns.index[name]

    def __contains__(self, name: str) -> bool:
        return name in self.columns.index

    def encode(self, schedule: Schedule) -> FloatArray:
        """The point of a valid schedule; requests of the same lengths may change places.

        Raises
        ------
        UnsupportedError
            The schedule swaps, waits deliberately or has more batches than there are.
        ScheduleError
            It leaves a request unfinished.
        """
        tokens, evicts = actions(self.instance, schedule, self.batches)
        order = self._by_finish(tokens)
        found = values(self.instance, tokens[order], evicts[order])
        return fill_point(self.columns.index, found, self.columns.lower.size)

    def decode(self, point: FloatArray) -> Schedule:
        """The schedule of a point that is integer within the solver's tolerance."""
        tokens, evicts = (np.rint(point[self[name]]).astype(int) for name in ("tokens", "evicts"))
        process, evict = np.argwhere(tokens > 0), np.argwhere(evicts > 0)
        steps = [
            np.column_stack([at[:, 0], np.full(len(at), int(kind)), at[:, 1] + 1, size])
            for at, kind, size in (
                (process, Kind.PROCESS, tokens[tokens > 0]),
                (evict, Kind.EVICT, np.zeros(len(evict), dtype=int)),
            )
        ]
        return from_steps(np.concatenate(steps))

    def alike(self) -> list[tuple[int, int]]:
        """Pairs of requests of the same lengths, each with the next one like it."""
        last: dict[tuple[int, int], int] = {}
        pairs = []
        for i, request in enumerate(self.instance.requests):
            lengths = (request.prompt_tokens, request.output_tokens)
            if lengths in last:
                pairs.append((last[lengths], i))
            last[lengths] = i
        return pairs

    def _by_finish(self, tokens: IntArray) -> IntArray:
        """Which request's part each request takes, so that like requests finish in order."""
        batch = np.arange(tokens.shape[1])
        finish = np.where(tokens > 0, batch, 0).max(axis=1)
        order = np.arange(len(tokens))
        groups: dict[tuple[int, int], list[int]] = {}
        for i, request in enumerate(self.instance.requests):
            groups.setdefault((request.prompt_tokens, request.output_tokens), []).append(i)
        for members in groups.values():
            order[members] = sorted(members, key=lambda i: int(finish[i]))
        return order


def _require_supported(instance: Instance, policies: Sequence[str]) -> None:
    for name in policies:
        if name not in POLICIES:
            raise UnsupportedError(
                f"the compact formulation does not cover policy {name!r}",
                hint=f"it covers {', '.join(POLICIES)}",
            )
    what = ""
    if not instance.offline:
        what = "arrivals"
    elif instance.has_calls:
        what = "calls"
    elif instance.limits.host_kv_tokens and "no-swap" not in policies:
        what = "swapping (host_kv_tokens > 0)"
    if what:
        raise UnsupportedError(
            f"the compact formulation does not cover {what}",
            hint="it is for the offline makespan without calls"
            + ("; policy no-swap rules swapping out" if what.startswith("swapping") else ""),
        )
