"""Families of schedules: each way to look ahead, with every setting that is tried."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import msgspec

from optsched.instance import Instance
from optsched.schedule import Schedule
from optsched.simulate import simulate
from optsched.warmstart.backward import BackwardOptions, Clock, backward
from optsched.warmstart.groups import Preference, grouped
from optsched.warmstart.levelled import LevelOptions, levelled
from optsched.warmstart.lookahead import LookAheadOptions, look_ahead
from optsched.warmstart.rounds import rounds
from optsched.warmstart.searched import beams, walks
from optsched.warmstart.settings import settings
from optsched.warmstart.start_rates import RateGate, start_rates

Schedules = Iterator[Schedule]
_KAPPAS = (0.0, 0.1, 0.3, 0.6, 1.0)
_AHEAD = (0.5, 4.0)
_MOST_TYPES = 16
_WAVES = (1, 2, 3, 4)
# Seconds between arrival and start below which the order of arrivals decides.
_MARGIN_S = 100.0
_DUE_WIDTH = 300
# Of the tokens of a level: what decodes leave to fills, and the least chunk, both divisors.
_SHARES = ((4, None), (4, 20), (1, 6))


def look_ahead_schedules(instance: Instance) -> Schedules:
    yield look_ahead(instance, LookAheadOptions()).schedule(instance)


def staggered_schedules(instance: Instance) -> Schedules:
    for kappa in _KAPPAS:
        yield look_ahead(instance, LookAheadOptions(kappa=kappa)).schedule(instance)


def backward_schedules(instance: Instance) -> Schedules:
    for base in _bases(instance):
        yield backward(instance, base).schedule(instance)


def _bases(instance: Instance) -> Iterator[BackwardOptions]:
    """Options for each preference and decode room that is tried.

    With arrivals the order is by the earliest possible end, and the clock is that of the same
    placement without arrivals.
    """
    tried = settings(instance)
    if instance.offline:
        preferences = [Preference.LONG_OUTPUT, Preference.MIXED]
        if not tried.large:
            preferences.append(Preference.LARGE_AREA)
        if len(set(zip(instance.prompt_tokens, instance.output_tokens, strict=True))) == 1:
            preferences = preferences[:1]
        for preference in preferences:
            for room in tried.decode_rooms:
                yield BackwardOptions(preference=preference, decode_room=room)
        return
    room = tried.decode_rooms[-1]
    free = BackwardOptions(preference=Preference.MIXED, decode_room=room)
    trace = simulate(_at_once(instance), backward(instance, free).schedule(instance))
    clock = Clock(
        makespan_s=max(trace.makespan_s, float(instance.release_s.max())),
        batch_s=trace.makespan_s / trace.end_s.size,
        margin_s=_MARGIN_S,
    )
    for room in tried.decode_rooms:
        yield BackwardOptions(
            preference=Preference.LATE, decode_room=room, width=_DUE_WIDTH, clock=clock
        )


def _at_once(instance: Instance) -> Instance:
    """The same requests, all there from the start."""
    requests = tuple(msgspec.structs.replace(r, arrival_s=0.0) for r in instance.requests)
    return Instance(
        name=instance.name, limits=instance.limits, cost=instance.cost, requests=requests
    )


def chunked_schedules(instance: Instance) -> Schedules:
    """Batches below a knot take prompt tokens of later ones; without knots fills stay whole."""
    levels = settings(instance).levels or (None,)
    for base in _bases(instance):
        for level in levels:
            yield backward(instance, replace(base, level=level)).schedule(instance)


def capped_schedules(instance: Instance) -> Schedules:
    """Full batches leave room to as many decodes as run: by memory, or by their share of tokens."""
    tried = settings(instance)
    rooms = tried.decode_rooms
    prompt, output = int(instance.prompt_tokens.sum()), int(instance.output_tokens.sum())
    for base in _bases(instance):
        if base.decode_room != rooms[-1]:
            continue
        for cap in tried.caps:
            share = min(cap - 1, cap * (output - len(instance)) // (prompt + output) + 1)
            for room in sorted({min(rooms[len(rooms) // 2], share), share}):
                options = replace(base, batch_tokens=cap, chunked=True, decode_room=room)
                yield backward(instance, options).schedule(instance)
        if tried.large:
            return


def gated_schedules(instance: Instance) -> Schedules:
    patience = settings(instance).patience or (0,)
    for base in _bases(instance):
        for free in patience:
            yield backward(instance, replace(base, patience=free)).schedule(instance)


def lp_guided_schedules(instance: Instance) -> Schedules:
    """Equal requests, many sizes and arrivals need no rates: the backward order serves them."""
    base = list(_bases(instance))[-1 if not instance.offline else 0]
    if instance.offline:
        room = settings(instance).decode_rooms[-1]
        base = replace(base, preference=Preference.LONG_OUTPUT, decode_room=room)
    groups = grouped(instance, base.preference, base.clock.batch_s if base.clock else 0.0)
    plain = backward(instance, base, groups).schedule(instance)
    yield plain
    if not (instance.offline and 2 <= len(groups) <= _MOST_TYPES):
        return
    for spare in settings(instance).spare_tokens:
        rates = start_rates(instance, groups, plain.batch_count, spare, base.decode_room)
        if rates is not None:
            for ahead in _AHEAD:
                gate = RateGate(rates, ahead)
                yield backward(instance, base, groups, gate).schedule(instance)


def rounds_schedules(instance: Instance) -> Schedules:
    sizes = sorted({-(-len(instance) // waves) for waves in _WAVES})
    for cap in settings(instance).caps:
        for most in sizes:
            yield rounds(instance, cap, most, Preference.LONG_OUTPUT)


def beam_schedules(instance: Instance) -> Schedules:
    """Where the search does not apply: plain look-ahead."""
    found = list(beams(instance))
    yield from found or look_ahead_schedules(instance)


def walk_guided_schedules(instance: Instance) -> Schedules:
    found = list(walks(instance))
    yield from found or look_ahead_schedules(instance)


def levelled_schedules(instance: Instance) -> Schedules:
    """Every level, order and way to cut fills; few of them for large instances."""
    tried = settings(instance)
    batch_s = 0.0
    if not instance.offline:
        preferences = [Preference.LATE]
        free = _at_once(instance)
        size = tried.batch_sizes[-1]
        placed = levelled(free, LevelOptions(batch_tokens=size, fill_tokens=-(-size // 4)))
        batch_s = simulate(free, placed).makespan_s / placed.batch_count
    elif len(set(zip(instance.prompt_tokens, instance.output_tokens, strict=True))) == 1:
        preferences = [Preference.LONG_OUTPUT]
    else:
        preferences = [Preference.MIXED]
        if not tried.large:
            preferences += [Preference.LONG_OUTPUT, Preference.LARGE_AREA]
    for preference in preferences:
        for size in tried.batch_sizes if instance.offline else tried.batch_sizes[-1:]:
            for share, chunk in _SHARES[:1] if tried.large else _SHARES:
                options = LevelOptions(
                    batch_tokens=size, fill_tokens=-(-size // share),
                    least_chunk=1 if chunk is None else -(-size // chunk),
                    preference=preference, batch_s=batch_s,
                )  # fmt: skip
                yield levelled(instance, options)
