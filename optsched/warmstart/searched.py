"""Families of schedules for few requests in memory: the beam, walks, and patient refills."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from optsched.instance import Instance
from optsched.schedule import Schedule
from optsched.simulate import simulate
from optsched.warmstart.beam import BeamOptions, beam, searchable
from optsched.warmstart.beam_kinds import capacity_tokens, kinds_of
from optsched.warmstart.beam_moves import Effort
from optsched.warmstart.groups import kv_area
from optsched.warmstart.patient import Patience, patient
from optsched.warmstart.walk_flow import optimal_moves
from optsched.warmstart.walk_following import follow_walks

_MOST_SLOTS = 16
_MOST_TOKENS = 40_000  # to generate; a beam over more takes minutes
_FEW_TOKENS = 2_000
# Lambda, best value first; a beam over many tokens takes a while.
_WEIGHTS, _WEIGHTS_OF_MANY = (1.0, 1.3, 2.0), (1.0,)
_STATES = 30_000  # of all layers of a beam, about
_WIDTHS = (16, 200)
_FEW_TYPES = 16  # every further 16 divide the width
_ROWS = 20
_MOST_CONTENTS = 1_000
_LEAST_REQUESTS = 12  # of which fewer have no steady state
_LAST = (0, 12, 40)
# Tried on some requests, those that do best on all.
_PATIENCES = tuple(
    Patience(batches=batches, rank=rank)
    for rank in (0, 1, 2) for batches in (1, 2, 3, 4, 5, 6, 7, 8, 10, 12)
)  # fmt: skip
_TRIED, _KEPT = 256, 6


def searched(instance: Instance) -> Iterator[Schedule]:
    """The walks, patient refills, and the beams unless there are walks to follow for many
    requests; none where memory has room for all requests at once, so that none needs to go."""
    limits = instance.limits
    if sum(map(limits.pages, instance.final_tokens.tolist())) <= limits.kv_tokens:
        return
    followed = list(walks(instance))
    yield from followed
    yield from patients(instance)
    if not followed or int(instance.output_tokens.sum()) <= _FEW_TOKENS:
        yield from beams(instance)


def beams(instance: Instance) -> Iterator[Schedule]:
    """One schedule per weight; none if memory holds too many requests or they are too many."""
    if not searchable(instance) or not _small(instance):
        return
    few = int(instance.output_tokens.sum()) <= _FEW_TOKENS
    for weight in _WEIGHTS if few else _WEIGHTS_OF_MANY:
        yield beam(instance, _options(instance, weight, len(instance)))


def patients(instance: Instance) -> Iterator[Schedule]:
    """Those of the patiences that do best on some of the requests; none where beams are not
    searched or a batch's requests are limited."""
    if not searchable(instance) or not _small(instance):
        return
    if instance.limits.batch_requests is not None:
        return
    step = -(-len(instance) // _TRIED)
    some = Instance(
        name=instance.name, limits=instance.limits, cost=instance.cost,
        requests=instance.requests[::step],
    )  # fmt: skip
    value_s = [simulate(some, patient(some, patience)).makespan_s for patience in _PATIENCES]
    for k in np.argsort(value_s, kind="stable")[:_KEPT].tolist():
        yield patient(instance, _PATIENCES[k])


def walks(instance: Instance) -> Iterator[Schedule]:
    """Schedules along the optimal closed walks; none where memory has too many contents, where
    few requests make no steady state, where fills cannot be whole or a batch's requests are
    limited."""
    if not searchable(instance) or len(instance) < _LEAST_REQUESTS:
        return
    if instance.limits.batch_requests is not None:
        return
    kinds = kinds_of(instance, _WEIGHTS[0])
    moves = optimal_moves(instance, kinds, _MOST_CONTENTS)
    if moves is None:
        return
    for last in _LAST:
        yield follow_walks(
            instance, kinds, moves, last, lambda left: _options(instance, _WEIGHTS[0], left)
        )


def _small(instance: Instance) -> bool:
    """Whether memory holds few requests of the usual size, and there is not much to do."""
    made = int(instance.output_tokens.sum())
    area = int(kv_area(instance.prompt_tokens, instance.output_tokens).sum())
    usual = min(len(instance), capacity_tokens(instance) * made / max(area, 1))
    return usual <= _MOST_SLOTS / 2 and made <= _MOST_TOKENS


def _options(instance: Instance, weight: float, requests: int) -> BeamOptions:
    """Options for so many unfinished requests: as wide as the number of batches allows."""
    made = -(-int(instance.output_tokens.sum()) * max(requests, 1) // len(instance))
    types = len(set(zip(instance.prompt_tokens, instance.output_tokens, strict=True)))
    least = 4 if types > _FEW_TYPES else _WIDTHS[0]
    width = int(np.clip(_STATES // made // -(-types // _FEW_TYPES), least, _WIDTHS[1]))
    slots = min(len(instance), _MOST_SLOTS)
    return BeamOptions(
        width=width, weight=weight, slots=slots,
        effort=Effort(
            evictions=2 if made <= _FEW_TOKENS else 1, fills=min(slots, 4), rows=_ROWS * width
        ),
    )  # fmt: skip
