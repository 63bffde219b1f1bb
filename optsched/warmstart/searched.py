"""Families of schedules found by search: the beam, and walks where few requests fit in memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from optsched.instance import Instance
from optsched.schedule import Schedule
from optsched.warmstart.beam import BeamOptions, beam, searchable
from optsched.warmstart.beam_kinds import capacity_tokens, kinds_of
from optsched.warmstart.beam_moves import Effort
from optsched.warmstart.groups import kv_area
from optsched.warmstart.walk_flow import optimal_moves
from optsched.warmstart.walk_following import follow_walks

_WEIGHTS = (1.0, 1.3, 2.0)
_MOST_SLOTS = 14
_MOST_TOKENS = 40_000  # to generate; a beam over more takes minutes
_STATES = 30_000  # of all layers of a beam, about
_WIDTHS = (4, 200)
_FEW_TOKENS = 2_000  # up to here more than one eviction per batch is tried
_ROWS = 20
_MOST_CONTENTS = 1_000
_LEAST_REQUESTS = 12  # of which fewer have no steady state
_LAST = (0, 12, 40)


def beams(instance: Instance) -> Iterator[Schedule]:
    """One schedule per weight; none if memory holds too many requests or they are too many."""
    if not searchable(instance) or not _small(instance):
        return
    weights = _WEIGHTS if int(instance.output_tokens.sum()) <= _FEW_TOKENS else _WEIGHTS[:1]
    for weight in weights:
        yield beam(instance, _options(instance, weight))


def walks(instance: Instance) -> Iterator[Schedule]:
    """Schedules along the optimal closed walks; none where memory has too many contents, where
    few requests make no steady state, or where fills cannot be whole."""
    if not searchable(instance) or len(instance) < _LEAST_REQUESTS:
        return
    kinds = kinds_of(instance, _WEIGHTS[0])
    moves = optimal_moves(instance, kinds, _MOST_CONTENTS)
    if moves is None:
        return
    for last in _LAST:
        yield follow_walks(instance, kinds, moves, last, _options(instance, _WEIGHTS[0], last))


def _small(instance: Instance) -> bool:
    """Whether memory holds few requests of the usual size, and there is not much to do."""
    made = int(instance.output_tokens.sum())
    area = int(kv_area(instance.prompt_tokens, instance.output_tokens).sum())
    usual = min(len(instance), capacity_tokens(instance) * made / max(area, 1))
    return usual <= _MOST_SLOTS / 2 and made <= _MOST_TOKENS


def _options(instance: Instance, weight: float, requests: int | None = None) -> BeamOptions:
    """Options for all requests or the last ones: as wide as the number of batches allows."""
    made = int(instance.output_tokens.sum())
    if requests is not None:
        made = -(-made * max(requests, 1) // len(instance))
    width = int(np.clip(_STATES // made, *_WIDTHS))
    slots = min(len(instance), _MOST_SLOTS)
    return BeamOptions(
        width=width, weight=weight, slots=slots,
        effort=Effort(
            evictions=2 if made <= _FEW_TOKENS else 1, fills=min(slots, 4), rows=_ROWS * width
        ),
    )  # fmt: skip
