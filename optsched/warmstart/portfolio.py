"""Look-ahead schedulers as a whole: each tries its settings and keeps the shortest schedule."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import msgspec

from optsched.errors import UnsupportedError
from optsched.instance import Instance, require_feasible
from optsched.schedule import Schedule
from optsched.simulate import simulate
from optsched.warmstart.backward import BackwardOptions, Clock, backward
from optsched.warmstart.groups import Preference, grouped
from optsched.warmstart.lookahead import LookAheadOptions, look_ahead
from optsched.warmstart.loop import run
from optsched.warmstart.rounds import rounds
from optsched.warmstart.settings import settings
from optsched.warmstart.start_rates import RateGate, start_rates, types_of
from optsched.warmstart.table import RULES

Schedules = Iterator[Schedule]
_KAPPAS = (0.0, 0.1, 0.3, 0.6, 1.0)
_AHEAD = (0.5, 4.0)
_WAVES = (1, 2, 3, 4)
# Seconds between arrival and start below which the order of arrivals decides.
_MARGIN_S = 100.0
_DUE_WIDTH = 300
_RULES = ("sarathi", "sarathi-pc-ef", "mc-fcfs", "mc-sf", "vllm", "pair")


@dataclass(frozen=True)
class LookAheadScheduler:
    """A family of schedules as a :class:`Scheduler`: the one with the least makespan.

    Parameters
    ----------
    name, summary : str
        As the command line shows them.
    family : callable
        Yields schedules; always at least one.
    """

    name: str
    summary: str
    family: Callable[[Instance], Schedules]

    def __call__(self, instance: Instance, /) -> Schedule:
        """The shortest schedule of the family; the first of equals.

        Raises
        ------
        UnsupportedError
            A request makes calls.
        InfeasibleError
            A request cannot run even alone.
        """
        if instance.has_calls:
            raise UnsupportedError(
                f"scheduler {self.name!r} knows no calls, but requests make some",
                hint="drop the calls, or bring a scheduler of your own as FILE.py:NAME",
            )
        require_feasible(instance)
        return min(self.family(instance), key=lambda s: simulate(instance, s).makespan_s)


def _look_ahead(instance: Instance) -> Schedules:
    yield look_ahead(instance, LookAheadOptions()).schedule(instance)


def _staggered(instance: Instance) -> Schedules:
    for kappa in _KAPPAS:
        yield look_ahead(instance, LookAheadOptions(kappa=kappa)).schedule(instance)


def _backward(instance: Instance) -> Schedules:
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


def _chunked(instance: Instance) -> Schedules:
    """Batches below a knot take prompt tokens of later ones; without knots fills stay whole."""
    levels = settings(instance).levels or (None,)
    for base in _bases(instance):
        for level in levels:
            yield backward(instance, replace(base, level=level)).schedule(instance)


def _capped(instance: Instance) -> Schedules:
    tried = settings(instance)
    prompt, output = int(instance.prompt_tokens.sum()), int(instance.output_tokens.sum())
    for base in _bases(instance):
        for cap in tried.caps:
            # Of a batch that is full in a steady state, the share of decodes.
            share = min(cap - 1, cap * (output - len(instance)) // (prompt + output) + 1)
            for room in sorted({min(base.decode_room, share), share}):
                options = replace(base, batch_tokens=cap, chunked=True, decode_room=room)
                yield backward(instance, options).schedule(instance)
        if tried.large:
            return


def _gated(instance: Instance) -> Schedules:
    patience = settings(instance).patience or (0,)
    for base in _bases(instance):
        for free in patience:
            yield backward(instance, replace(base, patience=free)).schedule(instance)


def _lp_guided(instance: Instance) -> Schedules:
    tried = settings(instance)
    for base in _bases(instance):
        groups = grouped(instance, base.preference, base.clock.batch_s if base.clock else 0.0)
        plain = backward(instance, base, groups).schedule(instance)
        yield plain
        if not instance.offline:
            continue
        types = types_of(groups)
        for spare in tried.spare_tokens:
            rates = start_rates(instance, types, plain.batch_count, spare, base.decode_room)
            if rates is None:
                continue
            for ahead in _AHEAD:
                gate = RateGate(rates, types.of_group, ahead)
                yield backward(instance, base, groups, gate).schedule(instance)


def _rounds(instance: Instance) -> Schedules:
    sizes = sorted({-(-len(instance) // waves) for waves in _WAVES})
    for cap in settings(instance).caps:
        for most in sizes:
            yield rounds(instance, cap, most, Preference.LONG_OUTPUT)


def _best(instance: Instance) -> Schedules:
    tried = settings(instance)
    families = [_lp_guided, _chunked, _gated]
    if not tried.levels:
        families.remove(_chunked)
    if not tried.patience:
        families.remove(_gated)
    if not (tried.large and instance.offline):
        families.append(_look_ahead)
    if not tried.large:
        families += [_staggered, _capped, _rounds]
    for family in families:
        yield from family(instance)
    for name in _RULES:
        yield run(instance, RULES[name])


LOOK_AHEAD: dict[str, LookAheadScheduler] = {
    name: LookAheadScheduler(name, summary, family)
    for name, summary, family in (
        ("look-ahead", "admits whoever fits in memory to the end, past those who do not",
         _look_ahead),
        ("staggered", "look-ahead that keeps the profile of a steady state", _staggered),
        ("look-ahead-backward", "look-ahead from the last batch to the first", _backward),
        ("lp-guided", "backward look-ahead at the start rates of a linear program", _lp_guided),
        ("look-ahead-chunked", "backward look-ahead with prompt chunks in batches below a knot",
         _chunked),
        ("token-cap", "backward look-ahead in batches of the cheapest size per token", _capped),
        ("gated-prefill", "backward look-ahead in which fills share batches", _gated),
        ("rounds", "fills whole rounds of requests, holds them, then decodes them together",
         _rounds),
        ("best", "the best of the look-ahead schedulers and of the strongest rules", _best),
    )
}  # fmt: skip
