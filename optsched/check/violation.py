"""What the checker reports, and the collector that it reports to."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from optsched.handling import HANDLINGS

Values = NDArray[np.int64] | NDArray[np.float64]

RULES = (
    "progress", "completion", "kv_capacity", "batch_tokens", "prefill_tokens", "batch_requests",
    "residency", "host_capacity", "arrival", "pause", "clock",
)  # fmt: skip
"""The feasibility rules; ``arrival``, ``pause`` and ``clock`` are about traces."""

POLICIES = (
    "no-evict", "no-chunk", "no-hybrid", "no-hold", "no-swap", "fcfs", "nonpreemptive", *HANDLINGS,
)  # fmt: skip
"""Policies that can be checked; a breach is a violation whose rule is the policy's name. A handling
may be followed by a colon and the id of the request that it is for."""

_RANK = {rule: rank for rank, rule in enumerate((*RULES, *POLICIES))}
_NO_BATCH = 2**63


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """One breach of one rule.

    Parameters
    ----------
    rule : str
        One of :data:`RULES` or :data:`POLICIES`.
    batch : int or None
        The batch, from 1, in which it happens or begins; None if it belongs to no batch.
    request : str or None
        Id of the request; None if it is about the batch as a whole.
    excess : int or float
        By how much: tokens, requests, batches or seconds, as the message says.
    message : str
        All of it in one line.
    """

    rule: str
    batch: int | None
    request: str | None
    excess: int | float
    message: str


class Findings:
    """Collects violations, given as columns, in any order."""

    def __init__(self, ids: Sequence[str]) -> None:
        self._ids = ids
        self._found: list[tuple[int, int, int, Violation]] = []

    def add(
        self,
        rule: str,
        text: str,
        *,
        excess: Values,
        batch: Values | None = None,
        request: Values | None = None,
        **values: Values | NDArray[np.str_],
    ) -> None:
        """Add one violation per entry of ``excess``.

        Parameters
        ----------
        rule : str
            Name of the rule or policy.
        text : str
            What happened; ``{name}`` stands for the entry of the column of that name.
        excess, batch, request : arrays, shape ``(violations,)``
            ``request`` holds positions in the instance.
        **values : arrays, shape ``(violations,)``
            Further columns for ``text``.
        """
        size = excess.size
        batches = [None] * size if batch is None else batch.tolist()
        requests = [None] * size if request is None else request.tolist()
        columns = {name: column.tolist() for name, column in values.items()}
        for k, (amount, j, i) in enumerate(zip(excess.tolist(), batches, requests, strict=True)):
            name = None if i is None else self._ids[i]
            where = rule if j is None else f"{rule} in batch {j}"
            where = where if name is None else f"{where}, request {name!r}"
            entry = {column: column_values[k] for column, column_values in columns.items()}
            violation = Violation(
                rule=rule, batch=j, request=name, excess=amount,
                message=f"{where}: {text.format(excess=amount, **entry)}",
            )  # fmt: skip
            key = (_NO_BATCH if j is None else j, _RANK[rule], -1 if i is None else i)
            self._found.append((*key, violation))

    def violations(self) -> tuple[Violation, ...]:
        """All of them by batch, then rule, then request; those without a batch come last."""
        return tuple(found[-1] for found in sorted(self._found, key=lambda found: found[:3]))
